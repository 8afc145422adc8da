//! Writes a minimal ELF interposer: a shared object with a SONAME, absolute symbols, constants and DT_NEEDED
//! entries, but without code.

use alloc::vec;
use alloc::vec::Vec;

/// A shared object to write.
#[derive(Clone, Copy, Debug, Default)]
pub struct SharedObject<'a> {
    /// Its `DT_SONAME`.
    pub name: &'a str,
    /// Absolute symbols: addresses of functions in this process.
    pub symbols: &'a [(&'a str, u64)],
    /// Symbols of bytes in the object.
    pub constants: &'a [(&'a str, &'a [u8])],
    /// Absolute paths of libraries to load with it. Symbol lookups continue in them, in order. The object is
    /// then never unloaded: the driver may stay loaded without it, and a program that opens the driver again
    /// would get it directly, by its name.
    pub needed: &'a [&'a str],
}

impl SharedObject<'_> {
    /// Returns the bytes of the file.
    pub fn bytes(&self) -> Vec<u8> {
        let mut strings = vec![0];
        let name = string(&mut strings, self.name);
        let mut needed: Vec<_> =
            self.needed.iter().map(|path| (NEEDED, string(&mut strings, path) as usize)).collect();
        if !needed.is_empty() {
            needed.push((FLAGS_1, NODELETE));
        }
        let dynamic_at = HEADER + 3 * SEGMENT;
        let dynamic = (7 + needed.len()) * DYNAMIC;
        let constants_at = dynamic_at + dynamic;
        let mut bytes = Vec::new();
        let mut table = vec![0; SYMBOL];
        let mut add = |name: &str, kind: u8, section: u16, value: u64, size: u64| {
            table.extend(string(&mut strings, name).to_le_bytes());
            table.extend([kind, DEFAULT_VISIBILITY]);
            table.extend(section.to_le_bytes());
            table.extend(value.to_le_bytes());
            table.extend(size.to_le_bytes());
        };
        for (symbol, address) in self.symbols {
            // An absolute symbol may have any size except 0.
            add(symbol, GLOBAL_FUNCTION, ABSOLUTE, *address, 1);
        }
        for (symbol, constant) in self.constants {
            add(
                symbol,
                GLOBAL_OBJECT,
                ANY_SECTION,
                (constants_at + bytes.len()) as u64,
                constant.len() as u64,
            );
            bytes.extend_from_slice(constant);
        }
        // The tables below have to be aligned.
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        let hash = hash_table(self.symbols.len() + self.constants.len());

        let table_at = constants_at + bytes.len();
        let hash_at = table_at + table.len();
        let strings_at = hash_at + hash.len();
        let end = strings_at + strings.len();

        let mut object = header();
        // The loader writes into the dynamic section, so the whole segment is writable.
        object.extend(segment(LOAD, 0, end));
        object.extend(segment(DYNAMIC_SEGMENT, dynamic_at, dynamic));
        // Without this segment, the loader would make the stacks of all threads executable.
        object.extend(segment(STACK, 0, 0));
        let entries = [
            (SONAME, name as usize),
            (HASH, hash_at),
            (SYMTAB, table_at),
            (STRTAB, strings_at),
            (STRSZ, strings.len()),
            (SYMENT, SYMBOL),
            (NULL, 0),
        ];
        for (tag, value) in needed.into_iter().chain(entries) {
            object.extend((tag as u64).to_le_bytes());
            object.extend((value as u64).to_le_bytes());
        }
        object.extend(bytes);
        object.extend(table);
        object.extend(hash);
        object.extend(strings);
        object
    }
}

/// The largest page size of any machine. Loaders on arm64 refuse segments with less alignment.
const PAGE: u64 = 0x1_0000;

const HEADER: usize = 64;
const SEGMENT: usize = 56;
const DYNAMIC: usize = 16;
const SYMBOL: usize = 24;

const GLOBAL_OBJECT: u8 = 0x11;
const GLOBAL_FUNCTION: u8 = 0x12;
const DEFAULT_VISIBILITY: u8 = 0;
const ABSOLUTE: u16 = 0xfff1;
/// The section index of symbols that aren't absolute. The object has no sections, so any number will do.
const ANY_SECTION: u16 = 1;

const LOAD: u32 = 1;
const DYNAMIC_SEGMENT: u32 = 2;
const STACK: u32 = 0x6474_e551;

const NULL: usize = 0;
const NEEDED: usize = 1;
const HASH: usize = 4;
const STRTAB: usize = 5;
const SYMTAB: usize = 6;
const STRSZ: usize = 10;
const SYMENT: usize = 11;
const SONAME: usize = 14;
const FLAGS_1: usize = 0x6fff_fffb;
const NODELETE: usize = 8;

/// Adds a string to the string table, and returns its offset.
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
    // No entry point, program headers directly after this header, no section headers.
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
    for value in [offset, offset, offset, size, size, if kind == LOAD { PAGE } else { 8 }] {
        segment.extend(value.to_le_bytes());
    }
    segment
}

/// Returns a `DT_HASH` table that chains all symbols, from the last to the first, in one bucket, so that no
/// name has to be hashed.
fn hash_table(symbols: usize) -> Vec<u8> {
    let symbols = symbols as u32;
    let counts = [1, symbols + 1];
    let (bucket, chain) = ([symbols], [0].into_iter().chain(0..symbols));
    counts.into_iter().chain(bucket).chain(chain).flat_map(u32::to_le_bytes).collect()
}
