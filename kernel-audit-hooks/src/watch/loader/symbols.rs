//! Looks up symbols in the tables of mapped files. `dlsym` and `dladdr` won't do: they take the loader's
//! lock, which is held while a library's initializers run, and other libraries interpose `dlsym`.

use std::collections::HashMap;
use std::ffi::CStr;
use std::mem;
use std::sync::atomic::{AtomicU64, Ordering};

use kernel_audit_rtld::LIBRARIES;

use crate::watch::loader::mapped::{self, Mapped};

const NEEDED: u64 = 1;
const HASH: u64 = 4;
const NAMES: u64 = 5;
const TABLE: u64 = 6;
const SONAME: u64 = 14;
const GNU_HASH: u64 = 0x6fff_fef5;

/// Returns the address of a symbol in the first file that exports it, in load order.
pub(crate) fn find(name: &CStr) -> Option<u64> {
    let mut found = None;
    mapped::each(&mut |file| {
        found = Symbols::read(file).and_then(|symbols| symbols.find(name.to_bytes()));
        found.is_some()
    });
    found
}

/// Returns the bytes of an exported constant.
pub(crate) fn bytes_of(name: &[u8]) -> Option<Vec<u8>> {
    let mut found = None;
    mapped::each(&mut |file| {
        let symbol = Symbols::read(file).and_then(|symbols| symbols.find_symbol(name));
        let bytes = symbol.and_then(|symbol| file.rest(symbol.start)?.get(..symbol.size as usize));
        found = bytes.map(<[u8]>::to_vec);
        found.is_some()
    });
    found
}

/// Returns the address of a symbol that the file at this base or one of its dependencies exports.
pub(crate) fn find_from(base: u64, name: &CStr) -> Option<u64> {
    let (mut bases, mut next) = (vec![base], 0);
    while let Some(base) = bases.get(next).copied() {
        next += 1;
        let (mut found, mut needed) = (None, Vec::<Vec<u8>>::new());
        mapped::each(&mut |file| {
            let symbols = if file.base == base { Symbols::read(file) } else { None };
            if let Some(symbols) = &symbols {
                found = symbols.find(name.to_bytes());
                needed.extend(symbols.needed().map(<[u8]>::to_vec));
            }
            file.base == base
        });
        if found.is_some() {
            return found;
        }
        for name in needed {
            mapped::each(&mut |file| {
                let soname = Symbols::read(file).and_then(|symbols| symbols.soname());
                let is_it = file.satisfies(&name, soname);
                if is_it && !bases.contains(&file.base) {
                    bases.push(file.base);
                }
                is_it
            });
        }
    }
    None
}

/// The symbol tables of one file.
pub(crate) struct Symbols<'a> {
    base: u64,
    dynamic: &'a [u8],
    table: &'a [u8],
    names: &'a [u8],
    gnu: Option<GnuHash<'a>>,
    /// The number of symbols, if there is an older hash table, which has it.
    count: u32,
}

struct GnuHash<'a> {
    /// The index of the first symbol that is hashed.
    first: u32,
    buckets: &'a [u8],
    chains: &'a [u8],
}

/// A defined symbol.
#[derive(Clone, Copy)]
struct Symbol {
    /// The offset of the name, which is read lazily: the names of a large library take many megabytes.
    name: u32,
    kind: u8,
    start: u64,
    size: u64,
}

/// The addresses of a file's symbols in ascending order, each with the symbol's index.
pub(crate) struct Sorted(Vec<(u64, u32)>);

/// Radix sort by address. Rust's sorts are recursive, and need more stack than some threads have.
fn sort(mut items: Vec<(u64, u32)>) -> Vec<(u64, u32)> {
    let mut sorted = items.clone();
    for byte in 0..size_of::<u64>() {
        let value = |item: &(u64, u32)| usize::from(item.0.to_le_bytes()[byte]);
        let mut places = vec![0; 257];
        items.iter().for_each(|item| places[value(item) + 1] += 1);
        // All addresses of a file have the same upper bytes.
        if places.contains(&items.len()) {
            continue;
        }
        (1..places.len()).for_each(|next| places[next] += places[next - 1]);
        for item in &items {
            let place = &mut places[value(item)];
            sorted[*place] = *item;
            *place += 1;
        }
        mem::swap(&mut items, &mut sorted);
    }
    items
}

impl<'a> Symbols<'a> {
    /// Locates the tables of a file.
    pub(crate) fn read(file: &'a Mapped<'_>) -> Option<Self> {
        let dynamic = file.segment(libc::PT_DYNAMIC)?;
        let table_of = |tag| table(file, dynamic, tag);
        Some(Symbols {
            base: file.base,
            dynamic,
            table: table_of(TABLE).or_else(|| original(file))?,
            names: table_of(NAMES)?,
            gnu: table_of(GNU_HASH).and_then(GnuHash::read),
            count: table_of(HASH).and_then(|hash| u32_at(hash, 1)).unwrap_or(0),
        })
    }

    /// Returns the address of a symbol.
    pub(crate) fn find(&self, name: &[u8]) -> Option<u64> {
        self.find_symbol(name).map(|symbol| symbol.start)
    }

    fn find_symbol(&self, name: &[u8]) -> Option<Symbol> {
        const INDIRECT: u8 = 10;
        let is_it = |symbol: &Symbol| symbol.kind != INDIRECT && self.name(symbol.name.into()) == Some(name);
        match &self.gnu {
            Some(gnu) => gnu.with_hash_of(name).filter_map(|index| self.symbol(index)).find(is_it),
            None => self.symbols().find(is_it),
        }
    }

    /// Sorts the symbols by their addresses.
    pub(crate) fn sorted(&self) -> Sorted {
        let numbered = self.numbers().filter_map(|number| Some((self.symbol(number)?.start, number)));
        Sorted(sort(numbered.collect()))
    }

    /// Returns the name and the start of the function that contains an address.
    pub(crate) fn around(&self, sorted: &Sorted, address: u64) -> Option<(&'a [u8], u64)> {
        /// At most this many symbols start between a function's start and an address in it.
        const INSIDE: usize = 64;
        let until = sorted.0.partition_point(|(start, _)| *start <= address);
        let nearest = sorted.0[..until].iter().rev().take(INSIDE);
        let symbol = nearest
            .filter_map(|(_, number)| self.symbol(*number))
            .find(|symbol| address - symbol.start < symbol.size.max(1))?;
        Some((self.name(symbol.name.into())?, symbol.start))
    }

    /// Returns the name and the start of the function around each address. The addresses must be sorted.
    pub(crate) fn around_each(&self, addresses: &[u64]) -> HashMap<u64, (&'a [u8], u64)> {
        let mut found = HashMap::<u64, Symbol>::new();
        for symbol in self.symbols() {
            let end = symbol.start.saturating_add(symbol.size.max(1));
            let from = addresses.partition_point(|address| *address < symbol.start);
            for address in addresses[from..].iter().take_while(|address| **address < end) {
                if found.get(address).is_none_or(|its| symbol.start > its.start) {
                    found.insert(*address, symbol);
                }
            }
        }
        let named = |(address, its): (u64, Symbol)| Some((address, (self.name(its.name.into())?, its.start)));
        found.into_iter().filter_map(named).collect()
    }

    /// Returns the names of the file's dependencies.
    pub(crate) fn needed(&self) -> impl Iterator<Item = &'a [u8]> {
        entries(self.dynamic).filter(|entry| entry.0 == NEEDED).filter_map(|entry| self.name(entry.1))
    }

    /// Returns the name that other files refer to in their dependencies.
    pub(crate) fn soname(&self) -> Option<&'a [u8]> {
        self.name(value(self.dynamic, SONAME)?)
    }

    /// Returns the names of all defined symbols.
    pub(crate) fn names_defined(&self) -> impl Iterator<Item = &'a [u8]> {
        self.symbols().filter_map(|symbol| self.name(symbol.name.into()))
    }

    fn symbols(&self) -> impl Iterator<Item = Symbol> {
        self.numbers().filter_map(|number| self.symbol(number))
    }

    /// Returns the indices of all symbols that can be looked up.
    fn numbers(&self) -> impl Iterator<Item = u32> {
        let hashed = self.gnu.iter().flat_map(GnuHash::numbers);
        let listed = 0..if self.gnu.is_some() { 0 } else { self.count };
        hashed.chain(listed)
    }

    fn symbol(&self, index: u32) -> Option<Symbol> {
        const SIZE: usize = 24;
        const UNDEFINED: u16 = 0;
        const ABSOLUTE: u16 = 0xfff1;
        const THREAD_LOCAL: u8 = 6;
        let at = (index as usize).checked_mul(SIZE)?;
        let (symbol, _) = self.table.get(at..)?.split_first_chunk::<SIZE>()?;
        let section = u16::from_le_bytes([symbol[6], symbol[7]]);
        let (kind, value) = (symbol[4] & 15, u64_at(symbol, 1)?);
        if section == UNDEFINED || kind == THREAD_LOCAL {
            return None;
        }
        Some(Symbol {
            name: u32_at(symbol, 0)?,
            kind,
            start: if section == ABSOLUTE { value } else { value.wrapping_add(self.base) },
            size: u64_at(symbol, 2)?,
        })
    }

    fn name(&self, at: u64) -> Option<&'a [u8]> {
        let rest = self.names.get(usize::try_from(at).ok()?..)?;
        rest.get(..rest.iter().position(|byte| *byte == 0)?)
    }
}

impl<'a> GnuHash<'a> {
    /// Reads the table: four numbers, a Bloom filter, the buckets, and a hash for each symbol.
    fn read(table: &'a [u8]) -> Option<Self> {
        let number = |index| u32_at(table, index).map(|number| number as usize);
        let buckets_at = number(2)?.checked_mul(8)?.checked_add(16)?;
        let (buckets, chains) = table.get(buckets_at..)?.split_at_checked(number(0)?.checked_mul(4)?)?;
        Some(GnuHash { first: u32_at(table, 1)?, buckets, chains })
    }

    /// Returns the indices of symbols with the hash of a name.
    fn with_hash_of(&self, name: &[u8]) -> impl Iterator<Item = u32> {
        let hash =
            name.iter().fold(5381_u32, |hash, byte| hash.wrapping_mul(33).wrapping_add((*byte).into()));
        let bucket = hash.checked_rem(self.buckets.len() as u32 / 4);
        let begin = bucket.and_then(|bucket| u32_at(self.buckets, bucket as usize));
        let chain = begin.into_iter().flat_map(|begin| self.chain(begin));
        chain.filter(move |(_, its)| its | 1 == hash | 1).map(|(index, _)| index)
    }

    fn numbers(&self) -> impl Iterator<Item = u32> {
        let buckets = (0..self.buckets.len() / 4).filter_map(|bucket| u32_at(self.buckets, bucket));
        buckets.flat_map(|begin| self.chain(begin)).map(|(index, _)| index)
    }

    /// Returns the indices and hashes of a bucket's symbols. Only the last hash of a bucket is odd.
    fn chain(&self, begin: u32) -> impl Iterator<Item = (u32, u32)> {
        let mut next = (begin >= self.first).then_some(begin);
        std::iter::from_fn(move || {
            let index = next?;
            let hash = u32_at(self.chains, (index - self.first) as usize)?;
            next = (hash & 1 == 0).then_some(index + 1);
            Some((index, hash))
        })
    }
}

/// Load bias and original symbol table of each library whose symbol table our auditor has replaced.
static ORIGINALS: [[AtomicU64; 2]; LIBRARIES] = [const { [const { AtomicU64::new(0) }; 2] }; LIBRARIES];

/// Remembers the original symbol table of a library.
pub(crate) fn set_original(number: usize, base: u64, table: u64) {
    let [its_base, its_table] = &ORIGINALS[number];
    its_table.store(table, Ordering::Relaxed);
    its_base.store(base, Ordering::Release);
}

/// Returns the original symbol table of a file, if it was replaced.
fn original<'a>(file: &'a Mapped<'_>) -> Option<&'a [u8]> {
    let mut all = ORIGINALS.iter().filter(|[base, _]| base.load(Ordering::Acquire) == file.base);
    file.rest(all.next()?[1].load(Ordering::Relaxed))
}

/// Returns the bytes from the table with this tag to the end of its segment.
fn table<'a>(file: &'a Mapped<'_>, dynamic: &[u8], tag: u64) -> Option<&'a [u8]> {
    let at = value(dynamic, tag)?;
    // The loader has relocated these offsets to addresses, except in the vDSO.
    file.rest(if at < file.base { at + file.base } else { at })
}

fn value(dynamic: &[u8], tag: u64) -> Option<u64> {
    entries(dynamic).find(|entry| entry.0 == tag).map(|entry| entry.1)
}

/// Returns tags and values of the dynamic section.
fn entries(dynamic: &[u8]) -> impl Iterator<Item = (u64, u64)> {
    let entries = (0..dynamic.len() / 16)
        .filter_map(|at| Some((u64_at(dynamic, 2 * at)?, u64_at(dynamic, 2 * at + 1)?)));
    entries.take_while(|entry| entry.0 != 0)
}

fn u32_at(numbers: &[u8], index: usize) -> Option<u32> {
    let (number, _) = numbers.get(index.checked_mul(4)?..)?.split_first_chunk()?;
    Some(u32::from_le_bytes(*number))
}

fn u64_at(numbers: &[u8], index: usize) -> Option<u64> {
    let (number, _) = numbers.get(index.checked_mul(8)?..)?.split_first_chunk()?;
    Some(u64::from_le_bytes(*number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn symbols_are_sorted_as_by_rusts_library() {
        let mut seed = 1_u64;
        let mut number = || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            seed >> 33
        };
        for count in [0, 1, 2, 300, 5000] {
            let items: Vec<_> =
                (0..count).map(|index| (0x7f00_0000_0000 + number() % 70_000, index)).collect();
            let mut expected = items.clone();
            expected.sort_unstable();
            assert_eq!(sort(items), expected);
        }
    }

    #[test]
    fn a_function_is_found_as_in_a_search_of_all() {
        let mut compared = 0;
        mapped::each(&mut |file| {
            let Some(symbols) = Symbols::read(file) else { return false };
            let sorted = symbols.sorted();
            let mut addresses: Vec<_> = symbols
                .symbols()
                .flat_map(|symbol| [symbol.start, symbol.start + 1, symbol.start + symbol.size])
                .collect();
            addresses.sort_unstable();
            let all = symbols.around_each(&addresses);
            for address in addresses {
                let (found, expected) = (symbols.around(&sorted, address), all.get(&address));
                // Several symbols can begin at one address.
                assert_eq!(found.map(|(_, start)| start), expected.map(|(_, start)| *start), "{address:#x}");
                compared += usize::from(found.is_some());
            }
            false
        });
        assert!(compared > 1000, "{compared}");
    }
}
