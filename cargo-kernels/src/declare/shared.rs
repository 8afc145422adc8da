//! The structs that the files of a folder share.

use std::collections::BTreeMap;

use super::fields::Known;
use super::layout::Layout;

/// The structs that modules share, by their C++ names, each with its name in Rust. Those of a single file are none.
#[derive(Default)]
pub(super) struct Shared {
    pub(super) structs: BTreeMap<String, (Option<Layout>, String)>,
    /// The fields that sources tell.
    pub(super) fields: Known,
}

impl Shared {
    pub(super) fn is_empty(&self) -> bool {
        self.structs.is_empty()
    }

    /// The names in Rust.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.structs.values().map(|(_, name)| name.as_str())
    }

    /// The layout of a struct, if it is one of these and its layout is known.
    pub(super) fn layout(&self, cuda: &str) -> Option<Layout> {
        self.structs.get(cuda)?.0
    }

    /// The name in Rust of a struct that has this layout, or of which nothing is known.
    pub(super) fn name(&self, cuda: &str, layout: Option<Layout>) -> Option<&str> {
        let (known, name) = self.structs.get(cuda)?;
        let is_same = match (known, layout) {
            (_, None) => true,
            (Some(known), Some(layout)) => known.or(layout).is_some(),
            (None, Some(_)) => false,
        };
        is_same.then_some(name.as_str())
    }
}
