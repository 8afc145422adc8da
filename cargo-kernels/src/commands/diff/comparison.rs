//! Finds each kernel of the old build in the new build, and the kernel's changes.

use std::collections::{BTreeMap, VecDeque};

use kernel_registry_command::many;

use super::figure::{self, Change, Figure};
use super::signature::{self, SignatureChange};
use super::snapshot::{Kernel, Snapshot};
use crate::document::Variant;

/// Two builds, and how their kernels differ.
pub(super) struct Comparison<'a> {
    pub(super) old: &'a Snapshot,
    pub(super) new: &'a Snapshot,
    pub(super) added: Vec<&'a Kernel>,
    pub(super) removed: Vec<&'a Kernel>,
    pub(super) changed: Vec<Changed<'a>>,
    pub(super) unchanged: usize,
    /// The figures that some kernel has on both sides.
    pub(super) compared: Vec<Figure>,
}

/// A kernel of both builds that changed.
pub(super) struct Changed<'a> {
    pub(super) old: &'a Kernel,
    pub(super) new: &'a Kernel,
    pub(super) signature: Option<SignatureChange>,
    /// The variants of both builds in which a figure changed.
    pub(super) variants: Vec<ChangedVariant<'a>>,
    pub(super) added: Vec<&'a Variant>,
    pub(super) removed: Vec<&'a Variant>,
}

pub(super) struct ChangedVariant<'a> {
    pub(super) variant: &'a Variant,
    /// All figures, including figures that did not change.
    pub(super) figures: [Change; Figure::ALL.len()],
}

impl<'a> Comparison<'a> {
    pub(super) fn new(old: &'a Snapshot, new: &'a Snapshot) -> Self {
        let Pairs { both, added, removed } = pairs(&old.kernels, &new.kernels);
        let mut comparison =
            Comparison { old, new, added, removed, changed: Vec::new(), unchanged: 0, compared: Vec::new() };
        for (old, new) in both {
            let changed = comparison.compare(old, new);
            match changed.has_changes() {
                true => comparison.changed.push(changed),
                false => comparison.unchanged += 1,
            }
        }
        comparison.changed.sort_by_key(|changed| changed.new.name());
        comparison
    }

    fn compare(&mut self, old: &'a Kernel, new: &'a Kernel) -> Changed<'a> {
        let mut changed = Changed {
            old,
            new,
            signature: signature::change(old, new),
            variants: Vec::new(),
            added: Vec::new(),
            removed: Vec::new(),
        };
        let mut before: BTreeMap<_, VecDeque<&Variant>> = BTreeMap::new();
        for variant in &old.variants {
            before.entry((variant.kind, &variant.target)).or_default().push_back(variant);
        }
        for variant in &new.variants {
            let same = before.get_mut(&(variant.kind, &variant.target)).and_then(VecDeque::pop_front);
            match same {
                Some(old) => {
                    let changed_variant = self.figures(old, variant);
                    changed.variants.extend(changed_variant);
                }
                None if old.unread.contains(&variant.target) => {}
                None => changed.added.push(variant),
            }
        }
        let left = before.into_values().flatten();
        changed.removed = left.filter(|variant| !new.unread.contains(&variant.target)).collect();
        changed
    }

    /// Compares a variant's figures, and returns them if one changed.
    fn figures(&mut self, old: &'a Variant, new: &'a Variant) -> Option<ChangedVariant<'a>> {
        let change = |figure: Figure| Change { figure, old: figure.amount(old), new: figure.amount(new) };
        let figures = Figure::ALL.map(change);
        for change in figures.iter().filter(|change| change.old.is_some() && change.new.is_some()) {
            if !self.compared.contains(&change.figure) {
                self.compared.push(change.figure);
            }
        }
        figures.iter().any(Change::is_there).then_some(ChangedVariant { variant: new, figures })
    }

    /// Returns the variants in which a figure changed, with their kernels.
    pub(super) fn changed_variants(&self) -> impl Iterator<Item = (&'a Kernel, &ChangedVariant<'a>)> {
        self.changed.iter().flat_map(|changed| changed.variants.iter().map(|variant| (changed.new, variant)))
    }

    /// Returns the figures that changed for some kernel, in the order of columns.
    pub(super) fn changed_figures(&self) -> Vec<Figure> {
        let is_changed = |figure: &Figure| {
            let mut changes = self.changed_variants().flat_map(|(_, variant)| &variant.figures);
            changes.any(|change| change.figure == *figure && change.is_there())
        };
        Figure::ALL.into_iter().filter(is_changed).collect()
    }

    /// Returns the variants that kernels of both builds gained or lost: name, `added to` or `removed from`, and number of kernels.
    pub(super) fn variant_counts(&self) -> Vec<(String, &'static str, usize)> {
        let mut counts: BTreeMap<_, usize> = BTreeMap::new();
        for Changed { added, removed, .. } in &self.changed {
            let of =
                |variants: &[&Variant], what| variants.iter().map(|v| (v.name(), what)).collect::<Vec<_>>();
            for name_and_what in of(added, "added to").into_iter().chain(of(removed, "removed from")) {
                *counts.entry(name_and_what).or_default() += 1;
            }
        }
        counts.into_iter().map(|((name, what), count)| (name, what, count)).collect()
    }

    /// Returns the counts as text: `1 added, 0 removed, 2 changed, 5 unchanged`.
    pub(super) fn counts(&self) -> String {
        let Comparison { added, removed, changed, unchanged, .. } = self;
        format!(
            "{} added, {} removed, {} changed, {unchanged} unchanged",
            added.len(),
            removed.len(),
            changed.len()
        )
    }

    /// Returns the total size of the images, as text: `34512 -> 36000 B (+1488, +4.3%)`.
    pub(super) fn image_bytes(&self) -> String {
        let (old, new) = (self.old.image_bytes, self.new.image_bytes);
        if old == new {
            return format!("{new} B");
        }
        let by = new as i64 - old as i64;
        format!("{old} -> {new} B {}", figure::difference(by, figure::percent(by, old)))
    }

    /// Returns sentences about what could not be compared.
    pub(super) fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        for snapshot in [self.old, self.new] {
            notes.extend(snapshot.unread.sentences.iter().cloned());
            let without = snapshot.kernels.iter().filter(|kernel| kernel.variants.is_empty()).count();
            if without > 0 {
                notes.push(format!(
                    "there is no image of {} in `{}`",
                    many(without, "kernel"),
                    snapshot.file
                ));
            }
        }
        notes
    }
}

impl Changed<'_> {
    fn has_changes(&self) -> bool {
        let Changed { signature, variants, added, removed, .. } = self;
        signature.is_some() || !variants.is_empty() || !added.is_empty() || !removed.is_empty()
    }
}

/// The kernels of both builds, paired, and the kernels that only one build has.
struct Pairs<'a> {
    both: Vec<(&'a Kernel, &'a Kernel)>,
    added: Vec<&'a Kernel>,
    removed: Vec<&'a Kernel>,
}

/// Pairs kernels by path, or by C++ name if one side is an image without paths. Several kernels can share a name: overloads, or copies
/// in several binaries. Kernels with equal symbols are paired first, the rest in order.
fn pairs<'a>(old: &'a [Kernel], new: &'a [Kernel]) -> Pairs<'a> {
    let by_path = old.iter().chain(new).all(|kernel| kernel.path.is_some());
    let mut named: BTreeMap<String, [Vec<&Kernel>; 2]> = BTreeMap::new();
    for (side, kernels) in [old, new].into_iter().enumerate() {
        for kernel in kernels {
            named.entry(key(kernel, by_path)).or_default()[side].push(kernel);
        }
    }
    let mut pairs = Pairs { both: Vec::new(), added: Vec::new(), removed: Vec::new() };
    for [mut old, new] in named.into_values() {
        let mut left = Vec::new();
        for kernel in new {
            match old.iter().position(|old| old.symbol == kernel.symbol) {
                Some(index) => pairs.both.push((old.remove(index), kernel)),
                None => left.push(kernel),
            }
        }
        let count = old.len().min(left.len());
        pairs.both.extend(old.drain(..count).zip(left.drain(..count)));
        pairs.removed.extend(old);
        pairs.added.extend(left);
    }
    pairs
}

/// Returns the name that a kernel is looked up by in the other build.
fn key(kernel: &Kernel, by_path: bool) -> String {
    match &kernel.path {
        Some(path) if by_path => path.clone(),
        _ => kernel.cuda_name.as_ref().unwrap_or(&kernel.symbol).clone(),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::document::{Resources, VariantKind};

    /// Returns a kernel with figures for each architecture, in the order of [`Figure::ALL`].
    pub(in crate::commands::diff) fn kernel(path: &str, variants: &[(&str, [Option<u32>; 5])]) -> Kernel {
        let variant = |(target, amounts): &(&str, [Option<u32>; 5])| {
            let [registers, local_frame, stack, static_shared, code_bytes] = *amounts;
            let resources = |registers| Resources {
                registers,
                local_frame: local_frame.unwrap_or_default(),
                static_shared: static_shared.unwrap_or_default(),
                stack,
                ..Resources::default()
            };
            Variant {
                kind: if registers.is_some() { VariantKind::Cubin } else { VariantKind::Ptx },
                target: (*target).to_owned(),
                resources: registers.map(resources),
                code_bytes,
                ..Variant::default()
            }
        };
        Kernel {
            path: Some(path.to_owned()),
            symbol: path.replace("::", "_"),
            variants: variants.iter().map(variant).collect(),
            ..Kernel::default()
        }
    }

    pub(in crate::commands::diff) fn snapshot(kernels: impl IntoIterator<Item = Kernel>) -> Snapshot {
        Snapshot {
            file: "build".to_owned(),
            kernels: kernels.into_iter().collect(),
            image_bytes: 0,
            unread: Default::default(),
        }
    }

    const SMALL: [Option<u32>; 5] = [Some(20), Some(0), Some(0), Some(256), Some(640)];

    fn image_kernel(symbol: &str) -> Kernel {
        let cuda_name = Some("f".to_owned());
        Kernel { path: None, symbol: symbol.to_owned(), cuda_name, ..Kernel::default() }
    }

    /// Returns the old and new symbols of pairs, the added symbols, and the removed symbols.
    fn symbols(old: Vec<Kernel>, new: Vec<Kernel>) -> [String; 3] {
        let found = pairs(&old, &new);
        let both = found.both.iter().map(|(old, new)| format!("{} {}", old.symbol, new.symbol));
        let all =
            |kernels: &[&Kernel]| kernels.iter().map(|k| k.symbol.clone()).collect::<Vec<_>>().join(", ");
        [both.collect::<Vec<_>>().join(", "), all(&found.added), all(&found.removed)]
    }

    #[test]
    fn a_path_is_a_kernel_whatever_its_symbol() {
        let with = |symbol: &str| Kernel { symbol: symbol.to_owned(), ..kernel("a::f::<f32>", &[]) };
        assert_eq!(symbols(vec![with("f32_1")], vec![with("f32_2")]), ["f32_1 f32_2", "", ""]);
        let found = symbols(vec![kernel("a::f", &[])], vec![kernel("b::f", &[])]);
        assert_eq!(found, ["", "b_f", "a_f"]);
    }

    #[test]
    fn overloads_keep_their_symbols() {
        // f(int), f(float) and f(double)
        let [int, float, double] = ["_Z1fi", "_Z1ff", "_Z1fd"].map(image_kernel);
        let found = symbols(vec![int.clone(), float.clone()], vec![double.clone(), float.clone()]);
        assert_eq!(found, ["_Z1ff _Z1ff, _Z1fi _Z1fd", "", ""]);
        let found = symbols(vec![int, float.clone()], vec![float]);
        assert_eq!(found, ["_Z1ff _Z1ff", "", "_Z1fi"]);
    }

    #[test]
    fn kernels_of_a_binary_are_found_in_an_image() {
        let declared = Kernel { path: Some("a::f".to_owned()), ..image_kernel("_Z1fi") };
        assert_eq!(symbols(vec![declared], vec![image_kernel("_Z1fj")]), ["_Z1fi _Z1fj", "", ""]);
    }

    #[test]
    fn only_what_changed_is_listed() {
        let more = [Some(24), Some(16), Some(16), Some(256), Some(768)];
        let text = [None, None, None, None, Some(900)];
        let old = snapshot([
            kernel("same", &[("sm_90", SMALL)]),
            kernel("more", &[("sm_80", SMALL), ("sm_90", SMALL), ("sm_75", text)]),
            kernel("gone", &[]),
        ]);
        let new = snapshot([
            kernel("same", &[("sm_90", SMALL)]),
            kernel("more", &[("sm_90", more), ("sm_75", text), ("sm_100", SMALL)]),
            kernel("fresh", &[]),
        ]);
        let comparison = Comparison::new(&old, &new);
        let names = |kernels: &[&Kernel]| kernels.iter().map(|k| k.name().to_owned()).collect::<Vec<_>>();
        assert_eq!(
            (names(&comparison.added), names(&comparison.removed)),
            (vec!["fresh".to_owned()], vec!["gone".to_owned()])
        );
        assert_eq!(comparison.unchanged, 1);
        let [changed] = &comparison.changed[..] else { panic!() };
        let [variant] = &changed.variants[..] else { panic!() };
        assert_eq!(variant.variant.name(), "sm_90");
        assert_eq!(variant.figures[0].to_string(), "20 -> 24 (+4, +20.0%)");
        let of = |variants: &[&Variant]| variants.iter().map(|v| v.name()).collect::<Vec<_>>();
        assert_eq!(
            (of(&changed.added), of(&changed.removed)),
            (vec!["sm_100".to_owned()], vec!["sm_80".to_owned()])
        );
        use Figure::{Code, Frame, Registers, Stack};
        assert_eq!(comparison.changed_figures(), [Registers, Frame, Stack, Code]);
    }

    #[test]
    fn a_variant_that_cannot_be_read_was_not_removed() {
        let old = snapshot([kernel("k", &[("sm_120", SMALL)])]);
        let new = snapshot([Kernel {
            unread: std::iter::once("sm_120".to_owned()).collect::<std::collections::BTreeSet<_>>().into(),
            ..kernel("k", &[])
        }]);
        let comparison = Comparison::new(&old, &new);
        assert_eq!((comparison.changed.len(), comparison.unchanged), (0, 1));
    }
}
