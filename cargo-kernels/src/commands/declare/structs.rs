//! Collects the structs that the declarations mention. The image tells their names and some of their sizes; only a CUDA source
//! tells their fields.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use kernel_registry_image::ParamLayout;

use super::fields::{self, Fields, Known, RustField};
use super::layout::Layout;
use super::names;

/// The structs of a module.
pub(super) struct Structs<'a> {
    /// The Rust names, by C++ name and layout. The C++ name is empty for structs of `extern "C"` kernels.
    all: BTreeMap<(String, Option<Layout>), String>,
    /// The Rust names that are in use.
    taken: HashSet<String>,
    /// The fields that a source tells.
    fields: &'a Known,
    /// Known alignments of structs, by name and size.
    aligns: BTreeMap<(String, u32), Layout>,
    /// The structs that modules share.
    shared: &'a Shared,
    /// The Rust names of the shared structs that this module uses.
    used: BTreeSet<String>,
}

/// The structs that modules share, by their C++ names, each with its name in Rust. A single file shares none.
#[derive(Default)]
pub(super) struct Shared {
    pub(super) structs: BTreeMap<String, (Option<Layout>, String)>,
    /// The fields that sources tell.
    pub(super) fields: Known,
}

impl Shared {
    /// Returns the names in Rust.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.structs.values().map(|(_, name)| name.as_str())
    }

    /// Returns the Rust name of a shared struct, if `layout` is not known or agrees with the struct's layout.
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

/// A struct to be defined.
pub(super) struct Struct<'a> {
    pub(super) name: &'a str,
    /// The struct's name in C++, or empty.
    pub(super) cuda: &'a str,
    /// `None` if only pointers to the struct are known.
    pub(super) layout: Option<Layout>,
    /// The fields, if a source tells them and they have this layout.
    pub(super) fields: Option<Vec<RustField>>,
}

impl<'a> Structs<'a> {
    /// Creates an empty collection. `taken` are names that structs cannot have.
    pub(super) fn new(
        taken: impl IntoIterator<Item = String>,
        fields: &'a Known,
        shared: &'a Shared,
    ) -> Self {
        let taken = taken.into_iter().chain(shared.names().map(str::to_owned)).collect();
        let (all, aligns, used) = (BTreeMap::new(), BTreeMap::new(), BTreeSet::new());
        Structs { all, taken, fields, aligns, shared, used }
    }

    /// Learns the alignment of a struct that is passed by value, for all parameters of this type.
    pub(super) fn learn(&mut self, cuda: &str, layout: &ParamLayout) {
        let new = Layout::from_image(layout);
        let known = self.aligns.entry((cuda.to_owned(), layout.size)).or_insert(new);
        *known = known.or(new).unwrap_or(*known);
    }

    /// Returns the Rust name of a struct that a parameter passes by value.
    pub(super) fn value(&mut self, cuda: &str, layout: &ParamLayout) -> String {
        let learned = self.aligns.get(&(cuda.to_owned(), layout.size)).copied();
        let layout = Layout::from_image(layout);
        let layout = learned.filter(|_| !layout.is_certain).unwrap_or(layout);
        self.name(cuda, Some(layout))
    }

    /// Returns the Rust name of a struct that a parameter points to.
    pub(super) fn pointee(&mut self, cuda: &str, [size, align]: [u32; 2]) -> String {
        self.name(cuda, Some(Layout { size, align, is_certain: true }))
    }

    /// Returns the Rust name of a struct, if some kernel takes the struct by value, or the source tells its fields.
    pub(super) fn known(&mut self, cuda: &str) -> Option<String> {
        if let Some((layout @ Some(_), _)) = self.shared.structs.get(cuda) {
            return Some(self.name(cuda, *layout));
        }
        let mut layouts = self.all.iter().filter(|((name, layout), _)| name == cuda && layout.is_some());
        match (layouts.next(), layouts.next()) {
            (Some((_, rust)), None) => Some(rust.clone()),
            (Some(_), Some(_)) => None,
            (None, _) => {
                let Fields { size, align, .. } = fields::lay_out(self.fields, cuda, &str::to_owned)?;
                Some(self.name(cuda, Some(Layout { size, align, is_certain: true })))
            }
        }
    }

    /// Lists all structs, sorted.
    pub(super) fn list(&self) -> impl Iterator<Item = Struct<'_>> {
        let rust_name = |cuda: &str| {
            let mut named = self.all.iter().filter(|((name, _), _)| name == cuda);
            named.find_map(|((_, layout), name)| layout.map(|_| name.clone())).unwrap_or_default()
        };
        self.all.iter().map(move |((cuda, layout), name)| {
            let fields = self.fields_of(cuda, *layout, &rust_name).map(|fields| fields.fields);
            Struct { name, cuda, layout: *layout, fields }
        })
    }

    /// Returns the fields of a struct, if they are laid out as the image says.
    fn fields_of(&self, cuda: &str, layout: Option<Layout>, name: &dyn Fn(&str) -> String) -> Option<Fields> {
        let Layout { size, align, is_certain } = layout?;
        let fields = fields::lay_out(self.fields, cuda, name)?;
        (fields.size == size && (fields.align == align || !is_certain)).then_some(fields)
    }

    /// Returns the Rust names of shared structs that are used here.
    pub(super) fn used(&self) -> impl Iterator<Item = &str> {
        self.used.iter().map(String::as_str)
    }

    /// Returns the Rust name of a struct with this layout, and chooses one if the struct is new. The layout is `None` if only
    /// pointers to the struct are known.
    pub(super) fn name(&mut self, cuda: &str, layout: Option<Layout>) -> String {
        if let Some(name) = self.shared.name(cuda, layout) {
            self.used.insert(name.to_owned());
            return name.to_owned();
        }
        let key = (cuda.to_owned(), layout);
        if let Some(name) = self.all.get(&key) {
            return name.clone();
        }
        let candidates = match layout {
            Some(Layout { size, align, .. }) if cuda.is_empty() => vec![format!("Bytes{size}Align{align}")],
            _ => vec![names::camel(names::unqualified(cuda)), names::camel(cuda)],
        };
        let free = |name: &String| !self.taken.contains(name) && !names::is_generic(name);
        let last = candidates.last().cloned().unwrap_or_default();
        // A capital letter with digits would be the name of a generic parameter.
        let last = if names::is_generic(&last) { format!("Struct{last}") } else { last };
        let numbered = (2..).map(|number| format!("{last}{number}"));
        let name =
            candidates.into_iter().chain([last.clone()]).chain(numbered).find(free).unwrap_or_default();
        self.taken.insert(name.clone());
        self.all.insert(key, name.clone());
        let nested = self.fields_of(cuda, layout, &str::to_owned).map(|fields| fields.nested);
        for inner in nested.into_iter().flatten() {
            self.known(&inner);
        }
        name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structs_have_names_that_generic_parameters_cannot_have() {
        let known = Known::default();
        let shared = Shared::default();
        let mut structs = Structs::new(["Pair".to_owned()], &known, &shared);
        assert_eq!(structs.name("U", None), "StructU");
        assert_eq!(structs.name("ns::U", None), "NsU");
        assert_eq!(structs.name("T1", None), "StructT1");
        assert_eq!(structs.name("Pair", None), "Pair2");
        let two = [structs.pointee("P", [4, 4]), structs.pointee("P", [8, 8])];
        assert_eq!(two, ["StructP", "StructP2"]);
    }
}
