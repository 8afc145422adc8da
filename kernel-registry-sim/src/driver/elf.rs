//! A shared object made in memory: nothing but a name and symbols, each of which is an address in this process.

/// The bytes of a shared object of that name (`DT_SONAME`) with these symbols, none of which is relocated: they are
/// absolute.
pub(super) fn shared_object(name: &str, symbols: &[(&str, u64)]) -> Vec<u8> {
    let mut strings = vec![0];
    let name = string(&mut strings, name);
    let mut table = vec![0; SYMBOL];
    for (symbol, address) in symbols {
        table.extend(string(&mut strings, symbol).to_le_bytes());
        table.extend([GLOBAL_FUNCTION, DEFAULT_VISIBILITY]);
        table.extend(ABSOLUTE.to_le_bytes());
        table.extend(address.to_le_bytes());
        // A size, which nobody asks for, and which may not be 0 for an absolute symbol.
        table.extend(1_u64.to_le_bytes());
    }
    let hash = hash_table(symbols);

    let dynamic_at = HEADER + 3 * SEGMENT;
    let table_at = dynamic_at + 7 * DYNAMIC;
    let hash_at = table_at + table.len();
    let strings_at = hash_at + hash.len();
    let end = strings_at + strings.len();

    let mut object = header();
    // The loader writes into the dynamic section, so all of it is writable.
    object.extend(segment(LOAD, 0, end));
    object.extend(segment(DYNAMIC_SEGMENT, dynamic_at, 7 * DYNAMIC));
    // Without it the loader would make the stacks of all threads executable.
    object.extend(segment(STACK, 0, 0));
    for (tag, value) in [
        (SONAME, name as usize),
        (HASH, hash_at),
        (SYMTAB, table_at),
        (STRTAB, strings_at),
        (STRSZ, strings.len()),
        (SYMENT, SYMBOL),
        (NULL, 0),
    ] {
        object.extend((tag as u64).to_le_bytes());
        object.extend((value as u64).to_le_bytes());
    }
    object.extend(table);
    object.extend(hash);
    object.extend(strings);
    object
}

const HEADER: usize = 64;
const SEGMENT: usize = 56;
const DYNAMIC: usize = 16;
const SYMBOL: usize = 24;

const GLOBAL_FUNCTION: u8 = 0x12;
const DEFAULT_VISIBILITY: u8 = 0;
const ABSOLUTE: u16 = 0xfff1;

const LOAD: u32 = 1;
const DYNAMIC_SEGMENT: u32 = 2;
const STACK: u32 = 0x6474_e551;

const NULL: usize = 0;
const HASH: usize = 4;
const STRTAB: usize = 5;
const SYMTAB: usize = 6;
const STRSZ: usize = 10;
const SYMENT: usize = 11;
const SONAME: usize = 14;

/// Adds a string, and returns where it begins.
fn string(strings: &mut Vec<u8>, text: &str) -> u32 {
    let at = strings.len() as u32;
    strings.extend(text.bytes());
    strings.push(0);
    at
}

fn header() -> Vec<u8> {
    const MACHINE: u16 = if cfg!(target_arch = "aarch64") { 183 } else { 62 };
    let mut header = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
    const SHARED_OBJECT: u16 = 3;
    header.extend(SHARED_OBJECT.to_le_bytes());
    header.extend(MACHINE.to_le_bytes());
    header.extend(1_u32.to_le_bytes());
    // No entry; the segments follow this header; no sections, no flags.
    for offset in [0, HEADER as u64, 0] {
        header.extend(offset.to_le_bytes());
    }
    header.extend(0_u32.to_le_bytes());
    for value in [HEADER as u16, SEGMENT as u16, 3, 0, 0, 0] {
        header.extend(value.to_le_bytes());
    }
    header
}

fn segment(kind: u32, offset: usize, size: usize) -> Vec<u8> {
    const READ_WRITE: u32 = 6;
    let mut segment = [kind.to_le_bytes(), READ_WRITE.to_le_bytes()].concat();
    let (offset, size) = (offset as u64, size as u64);
    for value in [offset, offset, offset, size, size, if kind == LOAD { 0x1000 } else { 8 }] {
        segment.extend(value.to_le_bytes());
    }
    segment
}

/// `DT_HASH`: for each bucket the first symbol, and for each symbol the next one of its bucket.
fn hash_table(symbols: &[(&str, u64)]) -> Vec<u8> {
    const BUCKETS: usize = 64;
    let mut buckets = vec![0_u32; BUCKETS];
    let mut chain = vec![0_u32; symbols.len() + 1];
    for (index, (name, _)) in symbols.iter().enumerate() {
        let bucket = &mut buckets[hash(name) as usize % BUCKETS];
        chain[index + 1] = *bucket;
        *bucket = index as u32 + 1;
    }
    let counts = [BUCKETS as u32, chain.len() as u32];
    counts.iter().chain(&buckets).chain(&chain).flat_map(|word| word.to_le_bytes()).collect()
}

fn hash(name: &str) -> u32 {
    name.bytes().fold(0_u32, |hash, byte| {
        let hash = (hash << 4).wrapping_add(byte.into());
        let high = hash & 0xf000_0000;
        (hash ^ (high >> 24)) & !high
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_hash_as_the_system_v_abi_says() {
        assert_eq!(hash("printf"), 0x077905a6);
        assert_eq!(hash("exit"), 0x0006cf04);
    }

    #[test]
    fn every_symbol_is_in_its_bucket() {
        let symbols: Vec<_> = (0..200).map(|n| format!("function{n}")).collect();
        let symbols: Vec<_> = symbols.iter().map(|name| (name.as_str(), 0)).collect();
        let table = hash_table(&symbols);
        let word = |at: usize| u32::from_le_bytes(*table[4 * at..].first_chunk().unwrap()) as usize;
        for (index, (name, _)) in symbols.iter().enumerate() {
            let mut symbol = word(2 + hash(name) as usize % word(0));
            while symbol != index + 1 {
                assert_ne!(symbol, 0, "{name}");
                symbol = word(2 + word(0) + symbol);
            }
        }
    }
}
