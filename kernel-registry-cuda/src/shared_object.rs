//! Writes an ELF shared object that stands in front of another library: with a name, absolute symbols, constants, functions that jump into another
//! library, and libraries that the loader loads with it.

use alloc::vec;
use alloc::vec::Vec;

/// A shared object to write.
#[derive(Clone, Copy, Debug, Default)]
pub struct SharedObject<'a> {
    /// Its `DT_SONAME`.
    pub name: &'a str,
    /// Absolute symbols: addresses of functions in this process.
    pub symbols: &'a [(&'a str, u64)],
    /// Symbols of bytes in it.
    pub constants: &'a [(&'a str, &'a [u8])],
    /// Absolute paths of libraries. A search for a symbol goes on in these, in their order. With such libraries the object is never unloaded:
    /// a driver that stays loaded would be found by its name when the program opens it again.
    pub needed: &'a [&'a str],
    /// Functions that jump into another library.
    pub jumps: Option<Jumps<'a>>,
}

/// Functions that jump to the addresses in a table, which another library exports. Each changes no register but the one that the calling convention
/// leaves to linkers (`rax`, `x16`), and leaves the return address as it is.
#[derive(Clone, Copy, Debug)]
pub struct Jumps<'a> {
    /// The symbol of the table.
    pub table: &'a str,
    /// The functions, in the order of the table.
    pub functions: &'a [&'a str],
}

impl SharedObject<'_> {
    /// The bytes of the file.
    pub fn bytes(&self) -> Vec<u8> {
        let mut strings = vec![0];
        let name = string(&mut strings, self.name);
        let mut more: Vec<_> =
            self.needed.iter().map(|path| (NEEDED, string(&mut strings, path) as usize)).collect();
        if !more.is_empty() {
            more.push((FLAGS_1, NODELETE));
        }
        let functions = self.jumps.map_or(&[][..], |jumps| jumps.functions);
        let segments = 3 + usize::from(self.jumps.is_some());
        let dynamic_at = HEADER + segments * SEGMENT;
        let relocations = if self.jumps.is_some() { 3 } else { 0 };
        let dynamic = (7 + relocations + more.len()) * DYNAMIC;
        // The address of the table, and the relocation that stores it there.
        let table_at = dynamic_at + dynamic;
        let relocation_at = table_at + POINTER;
        let constants_at = if self.jumps.is_some() { relocation_at + RELOCATION } else { table_at };

        let mut bytes = Vec::new();
        let mut symbols = vec![0; SYMBOL];
        let mut add = |name: &str, kind: u8, section: u16, value: u64, size: u64| {
            symbols.extend(string(&mut strings, name).to_le_bytes());
            symbols.extend([kind, DEFAULT_VISIBILITY]);
            symbols.extend(section.to_le_bytes());
            symbols.extend(value.to_le_bytes());
            symbols.extend(size.to_le_bytes());
        };
        if let Some(jumps) = &self.jumps {
            add(jumps.table, GLOBAL_OBJECT, UNDEFINED, 0, 0);
        }
        for (symbol, address) in self.symbols {
            // Any size but 0, which an absolute symbol may not have.
            add(symbol, GLOBAL_FUNCTION, ABSOLUTE, *address, 1);
        }
        for (symbol, constant) in self.constants {
            let at = constants_at + bytes.len();
            add(symbol, GLOBAL_OBJECT, ANY_SECTION, at as u64, constant.len() as u64);
            bytes.extend_from_slice(constant);
        }
        for (index, function) in functions.iter().enumerate() {
            add(function, GLOBAL_FUNCTION, ANY_SECTION, (CODE + index * JUMP) as u64, JUMP as u64);
        }
        // The tables are aligned.
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        let count = self.symbols.len() + self.constants.len() + functions.len();
        let hash = hash_table(count + usize::from(self.jumps.is_some()));

        let symbols_at = constants_at + bytes.len();
        let hash_at = symbols_at + symbols.len();
        let strings_at = hash_at + hash.len();
        let end = strings_at + strings.len();
        assert!(self.jumps.is_none() || end <= CODE, "the code begins behind all else");

        let mut object = header(segments);
        // The loader writes into the dynamic section, so all of it is writable.
        object.extend(segment(LOAD, READ_WRITE, 0, end));
        object.extend(segment(DYNAMIC_SEGMENT, READ_WRITE, dynamic_at, dynamic));
        // Without this segment the loader makes the stacks of all threads executable.
        object.extend(segment(STACK, READ_WRITE, 0, 0));
        if self.jumps.is_some() {
            object.extend(segment(LOAD, READ_EXECUTE, CODE, functions.len() * JUMP));
            more.extend([(RELA, relocation_at), (RELASZ, RELOCATION), (RELAENT, RELOCATION)]);
        }
        let entries = [
            (SONAME, name as usize),
            (HASH, hash_at),
            (SYMTAB, symbols_at),
            (STRTAB, strings_at),
            (STRSZ, strings.len()),
            (SYMENT, SYMBOL),
            (NULL, 0),
        ];
        for (tag, value) in more.into_iter().chain(entries) {
            object.extend((tag as u64).to_le_bytes());
            object.extend((value as u64).to_le_bytes());
        }
        if self.jumps.is_some() {
            object.extend([0; POINTER]);
            // The first symbol is the table.
            for value in [table_at as u64, 1 << 32 | GLOBAL_DATA, 0] {
                object.extend(value.to_le_bytes());
            }
        }
        object.extend(bytes);
        object.extend(symbols);
        object.extend(hash);
        object.extend(strings);
        if self.jumps.is_some() {
            object.resize(CODE, 0);
            object.extend((0..functions.len()).flat_map(|index| jump(CODE + index * JUMP, table_at, index)));
        }
        object
    }
}

/// The code of a function at `at`, which jumps to the address at `index` of the table whose address is at `table_at`.
fn jump(at: usize, table_at: usize, index: usize) -> [u8; JUMP] {
    let mut code = [0; JUMP];
    let distance = (table_at as i64 - at as i64) as i32;
    let entry = (index * POINTER) as u32;
    if cfg!(target_arch = "aarch64") {
        // ldr x16, table; ldr x16, [x16, entry]; br x16
        let load_table = 0x5800_0010 | (((distance >> 2) as u32 & 0x7_ffff) << 5);
        let load_entry = 0xf940_0210 | ((entry / POINTER as u32) << 10);
        let words = [load_table, load_entry, 0xd61f_0200, 0];
        words
            .iter()
            .zip(code.chunks_exact_mut(4))
            .for_each(|(word, to)| to.copy_from_slice(&word.to_le_bytes()));
    } else {
        // mov rax, [rip + table]; jmp [rax + entry]. The distance is from the end of the first instruction.
        code[..3].copy_from_slice(&[0x48, 0x8b, 0x05]);
        code[3..7].copy_from_slice(&(distance - 7).to_le_bytes());
        code[7..9].copy_from_slice(&[0xff, 0xa0]);
        code[9..13].copy_from_slice(&entry.to_le_bytes());
    }
    code
}

const HEADER: usize = 64;
const SEGMENT: usize = 56;
const DYNAMIC: usize = 16;
const SYMBOL: usize = 24;
const POINTER: usize = 8;
const RELOCATION: usize = 24;
/// The size of a function that jumps.
const JUMP: usize = 16;
/// Where the code begins: behind the largest page of any machine, so that no page is both writable and executable.
const CODE: usize = 0x1_0000;

const GLOBAL_OBJECT: u8 = 0x11;
const GLOBAL_FUNCTION: u8 = 0x12;
const DEFAULT_VISIBILITY: u8 = 0;
const UNDEFINED: u16 = 0;
const ABSOLUTE: u16 = 0xfff1;
/// There are no sections.
const ANY_SECTION: u16 = 1;

const LOAD: u32 = 1;
const DYNAMIC_SEGMENT: u32 = 2;
const STACK: u32 = 0x6474_e551;

const READ_WRITE: u32 = 6;
const READ_EXECUTE: u32 = 5;

const NULL: usize = 0;
const NEEDED: usize = 1;
const HASH: usize = 4;
const STRTAB: usize = 5;
const SYMTAB: usize = 6;
const STRSZ: usize = 10;
const SYMENT: usize = 11;
const RELA: usize = 7;
const RELASZ: usize = 8;
const RELAENT: usize = 9;
const SONAME: usize = 14;
/// The relocation that stores a symbol's address.
const GLOBAL_DATA: u64 = if cfg!(target_arch = "aarch64") { 1025 } else { 6 };
const FLAGS_1: usize = 0x6fff_fffb;
const NODELETE: usize = 8;

/// Adds a string, and returns where it begins.
fn string(strings: &mut Vec<u8>, text: &str) -> u32 {
    let at = strings.len() as u32;
    strings.extend(text.bytes());
    strings.push(0);
    at
}

fn header(segments: usize) -> Vec<u8> {
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
    for value in [HEADER as u16, SEGMENT as u16, segments as u16, 0, 0, 0] {
        header.extend(value.to_le_bytes());
    }
    header
}

fn segment(kind: u32, flags: u32, offset: usize, size: usize) -> Vec<u8> {
    let mut segment = [kind.to_le_bytes(), flags.to_le_bytes()].concat();
    let (offset, size) = (offset as u64, size as u64);
    for value in [offset, offset, offset, size, size, if kind == LOAD { CODE as u64 } else { 8 }] {
        segment.extend(value.to_le_bytes());
    }
    segment
}

/// `DT_HASH` with one bucket, which lists all symbols from the last to the first: so nothing has to be hashed.
fn hash_table(symbols: usize) -> Vec<u8> {
    let symbols = symbols as u32;
    let counts = [1, symbols + 1];
    let (bucket, chain) = ([symbols], [0].into_iter().chain(0..symbols));
    counts.into_iter().chain(bucket).chain(chain).flat_map(u32::to_le_bytes).collect()
}

#[cfg(test)]
mod tests {
    use alloc::string::String;

    use super::*;

    /// Type, flags, offset, address, physical address, size in the file, size in memory, and alignment of each segment.
    fn segments(object: &[u8]) -> Vec<(u32, u32, [u64; 6])> {
        let half = |at: usize| u32::from_le_bytes(object[at..at + 4].try_into().unwrap());
        let word = |at: usize| u64::from_le_bytes(object[at..at + 8].try_into().unwrap());
        let (table, count) = (word(32) as usize, u16::from_le_bytes([object[56], object[57]]));
        let segment =
            |at: usize| (half(at), half(at + 4), [8, 16, 24, 32, 40, 48].map(|field| word(at + field)));
        (0..count.into()).map(|index| segment(table + index * SEGMENT)).collect()
    }

    /// Loaders refuse segments that begin inside of a page; a page has up to 64 KiB on arm64.
    #[test]
    fn segments_can_be_loaded_where_pages_have_64_kib() {
        const PAGE: u64 = 1 << 16;
        let functions: Vec<String> = (0..100).map(|index| alloc::format!("function{index}")).collect();
        let functions: Vec<&str> = functions.iter().map(String::as_str).collect();
        let jumps = Some(Jumps { table: "table", functions: &functions });
        let without = SharedObject { name: "libcuda.so.1", symbols: &[("cuInit", 1)], ..Default::default() };
        let with =
            SharedObject { name: "libnvrtc.so", needed: &["/lib/libm.so.6"], jumps, ..Default::default() };
        for (object, count) in [(without.bytes(), 1), (with.bytes(), 2)] {
            let all = segments(&object);
            let loaded: Vec<_> = all.iter().filter(|(kind, ..)| *kind == LOAD).collect();
            assert_eq!(loaded.len(), count);
            let mut free = 0;
            for (_, flags, [offset, address, _, in_file, in_memory, align]) in loaded {
                assert_eq!((*align, offset % PAGE), (PAGE, address % PAGE));
                assert!(address / PAGE >= free, "a page has one segment, whose rights are {flags}");
                assert!(offset + in_file <= object.len() as u64 && in_file == in_memory);
                free = (address + in_memory).div_ceil(PAGE);
            }
        }
    }
}
