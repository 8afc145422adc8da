//! Indexes the names of an image's kernels for searches.

use std::collections::HashMap;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::OnceLock;

use crate::{Entry, Variant, stable_symbol};

/// The index of an image's names, built by the first search. It doesn't take part in comparing images.
#[derive(Default)]
pub(crate) struct Index(OnceLock<Names>);

impl Index {
    pub(crate) fn get(&self, variants: &[Variant]) -> &Names {
        self.0.get_or_init(|| Names::collect(variants))
    }
}

impl Clone for Index {
    fn clone(&self) -> Self {
        Index::default()
    }
}

impl PartialEq for Index {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Index {}

impl Hash for Index {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}

impl fmt::Debug for Index {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Index")
    }
}

#[derive(Default)]
/// The kernels of an image, by their names.
pub(crate) struct Names {
    symbols: HashMap<String, Vec<EntryIndex>>,
    /// C++ names, whole, without template arguments, and without namespaces.
    pub(crate) names: HashMap<String, Vec<EntryIndex>>,
    /// Symbols with hashes of their source's path, without these hashes.
    stable: HashMap<String, Vec<EntryIndex>>,
}

/// The index of a variant, and of an entry in this variant.
#[derive(Clone, Copy)]
pub(crate) struct EntryIndex {
    variant: usize,
    entry: usize,
}

impl EntryIndex {
    pub(crate) fn entry(self, variants: &[Variant]) -> Option<&Entry> {
        variants.get(self.variant)?.entries.get(self.entry)
    }
}

impl Names {
    fn collect(variants: &[Variant]) -> Self {
        let mut names = Names::default();
        for (variant, entries) in variants.iter().map(|variant| &variant.entries).enumerate() {
            for (index, entry) in entries.iter().enumerate() {
                let place = EntryIndex { variant, entry: index };
                names.symbols.entry(entry.symbol.clone()).or_default().push(place);
                let stable = stable_symbol(&entry.symbol);
                if stable != entry.symbol {
                    names.stable.entry(stable.into_owned()).or_default().push(place);
                }
                let Some(signature) = &entry.signature else { continue };
                let mut called = signature.names().to_vec();
                called.dedup();
                for name in called {
                    names.names.entry(name.to_owned()).or_default().push(place);
                }
            }
        }
        names
    }

    /// Returns the indices of the kernels with this symbol, or else with this C++ name, or else with this
    /// symbol apart from hashes.
    pub(crate) fn indices(&self, name: &str) -> &[EntryIndex] {
        let found = self.symbols.get(name).or_else(|| self.names.get(name));
        found.or_else(|| self.stable.get(&*stable_symbol(name))).map_or(&[], Vec::as_slice)
    }
}
