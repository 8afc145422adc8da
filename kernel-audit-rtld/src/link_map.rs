//! The loader's `link_map` of a library, and its symbol table.

use core::ffi::{CStr, c_char};
use core::ptr;

/// The first fields of glibc's `struct link_map`.
#[repr(C)]
pub(crate) struct LinkMap {
    pub(crate) base: usize,
    name: *const c_char,
    dynamic: *mut [usize; 2],
}

/// An entry of a symbol table, `Elf64_Sym`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Symbol {
    name: u32,
    pub(crate) info: u8,
    pub(crate) other: u8,
    pub(crate) section: u16,
    pub(crate) value: usize,
    size: u64,
}

impl Symbol {
    pub(crate) const NONE: Symbol = Symbol { name: 0, info: 0, other: 0, section: 0, value: 0, size: 0 };
}

/// `SHN_UNDEF`: the symbol is imported.
pub(crate) const UNDEFINED: u16 = 0;
/// `SHN_ABS`: the value isn't relative to the load bias.
pub(crate) const ABSOLUTE: u16 = 0xfff1;

const STRINGS: usize = 5;
const SYMBOLS: usize = 6;
const HASH: usize = 4;
const GNU_HASH: usize = 0x6fff_fef5;

/// The symbol table of a library, from its dynamic section.
pub(crate) struct Table {
    pub(crate) symbols: *const Symbol,
    pub(crate) count: usize,
    strings: *const c_char,
    /// The `DT_SYMTAB` entry of the dynamic section.
    entry: *mut [usize; 2],
}

impl LinkMap {
    /// Returns the file's name without its folder.
    ///
    /// # Safety
    ///
    /// The library is mapped.
    pub(crate) unsafe fn file(&self) -> &[u8] {
        if self.name.is_null() {
            return &[];
        }
        // SAFETY: the loader's names end with a zero.
        let path = unsafe { text(self.name) };
        let start = path.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
        path.get(start..).unwrap_or_default()
    }

    /// Locates the symbol table. `None` if it can't be replaced, or has no hash table, which knows its size.
    ///
    /// # Safety
    ///
    /// The library is mapped.
    pub(crate) unsafe fn table(&self) -> Option<Table> {
        let (mut symbols, mut strings, mut found) = (0, 0, ptr::null_mut());
        let (mut hash, mut gnu_hash) = (0, 0);
        let mut entry = self.dynamic;
        // SAFETY: the dynamic section ends with a tag of 0, and the loader itself relies on its tables.
        unsafe {
            while !entry.is_null() && (*entry)[0] != 0 {
                let [tag, value] = *entry;
                // The loader has relocated these to addresses, unless the section is read-only.
                let address = if value < self.base { value + self.base } else { value };
                match tag {
                    SYMBOLS => (symbols, found) = (address, entry),
                    STRINGS => strings = address,
                    HASH => hash = address,
                    GNU_HASH => gnu_hash = address,
                    _ => {}
                }
                entry = entry.add(1);
            }
            let is_writable = !found.is_null() && (*found)[1] == symbols;
            if symbols == 0 || strings == 0 || !is_writable {
                return None;
            }
            let count = match (hash, gnu_hash) {
                (0, 0) => return None,
                (0, gnu) => count(ptr::with_exposed_provenance(gnu)),
                (hash, _) => ptr::with_exposed_provenance::<u32>(hash).add(1).read() as usize,
            };
            Some(Table {
                symbols: ptr::with_exposed_provenance(symbols),
                count,
                strings: ptr::with_exposed_provenance(strings),
                entry: found,
            })
        }
    }
}

/// Returns the number of symbols in a `DT_GNU_HASH` table, where the last chain ends.
///
/// # Safety
///
/// The pointer is to such a table.
unsafe fn count(table: *const u32) -> usize {
    // SAFETY: it starts with the numbers of buckets, of unhashed symbols, and of a Bloom filter's words. The
    // last hash of a chain is odd.
    unsafe {
        let [buckets, first, filters] = [0, 1, 2].map(|index| table.add(index).read() as usize);
        let buckets_at = table.add(4 + 2 * filters);
        let last = (0..buckets).map(|bucket| buckets_at.add(bucket).read() as usize).max().unwrap_or(0);
        if last < first {
            return first;
        }
        let chains = buckets_at.add(buckets);
        let length = (last - first..).take_while(|at| chains.add(*at).read() & 1 == 0).count();
        last + length + 1
    }
}

impl Table {
    /// Returns the symbol at an index below `count`.
    ///
    /// # Safety
    ///
    /// The library is mapped.
    pub(crate) unsafe fn symbol(&self, index: usize) -> Symbol {
        // SAFETY: the table has that many symbols.
        unsafe { self.symbols.add(index).read() }
    }

    /// Returns the index of a symbol's name in `names`.
    ///
    /// # Safety
    ///
    /// The library is mapped.
    pub(crate) unsafe fn index_in(&self, symbol: &Symbol, names: &[&CStr]) -> Option<usize> {
        // SAFETY: the library's names end with a zero.
        let name = unsafe { text(self.strings.add(symbol.name as usize)) };
        names.iter().position(|its| its.to_bytes() == name)
    }

    /// Returns the address of a function that the library defines.
    ///
    /// # Safety
    ///
    /// The library is mapped.
    pub(crate) unsafe fn find(&self, name: &CStr, base: usize) -> Option<usize> {
        // SAFETY: as the caller promises.
        let mut symbols = (0..self.count).map(|index| unsafe { self.symbol(index) });
        // SAFETY: as above.
        let is_it =
            |its: &Symbol| its.section != UNDEFINED && unsafe { self.index_in(its, &[name]) }.is_some();
        symbols.find(is_it).map(|symbol| base.wrapping_add(symbol.value))
    }

    /// Makes the loader use another symbol table.
    ///
    /// # Safety
    ///
    /// The library is mapped, and no symbol has been looked up yet. The new table has the same names in the
    /// same order, and lives as long as the library.
    pub(crate) unsafe fn replace(&self, symbols: *const Symbol) {
        // SAFETY: the loader has written to the dynamic section itself, and protects it only after relocation.
        unsafe { (*self.entry)[1] = symbols.addr() };
    }
}

/// Returns a text without its zero. `CStr::from_ptr` would call the C library.
///
/// # Safety
///
/// The text ends with a zero, and lives for `'a`.
unsafe fn text<'a>(from: *const c_char) -> &'a [u8] {
    let mut length = 0;
    // SAFETY: as the caller promises.
    unsafe {
        while from.add(length).read() != 0 {
            length += 1;
        }
        core::slice::from_raw_parts(from.cast(), length)
    }
}
