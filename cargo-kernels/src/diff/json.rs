//! Writes the comparison as JSON. docs/diff-json.md is the schema: change it first.

use std::io::{self, Write};

use serde::Serialize;

use super::comparison::{Changed, ChangedVariant};
use super::figure::{Amount, Change};
use super::limits::Refusal;
use super::report::Report;
use super::snapshot::{Kernel, Snapshot, Variant};

/// Raised by every change that could break a reader.
const SCHEMA: u32 = 1;

#[derive(Serialize)]
pub(super) struct Document<'a> {
    schema: u32,
    old: BuildEntry<'a>,
    new: BuildEntry<'a>,
    added: Vec<KernelEntry<'a>>,
    removed: Vec<KernelEntry<'a>>,
    changed: Vec<ChangedEntry<'a>>,
    unchanged: usize,
    refusals: Vec<RefusalEntry<'a>>,
    notes: &'a [String],
}

#[derive(Serialize)]
struct BuildEntry<'a> {
    file: &'a str,
    kernels: usize,
    image_bytes: u64,
}

#[derive(Serialize)]
struct KernelEntry<'a> {
    kernel: &'a str,
    symbol: &'a str,
}

#[derive(Serialize)]
struct ChangedEntry<'a> {
    kernel: &'a str,
    old_symbol: &'a str,
    new_symbol: &'a str,
    signature: Option<SignatureEntry<'a>>,
    variants: Vec<VariantEntry<'a>>,
    variants_added: Vec<NamedEntry<'a>>,
    variants_removed: Vec<NamedEntry<'a>>,
}

#[derive(Serialize)]
struct SignatureEntry<'a> {
    old: &'a str,
    new: &'a str,
}

#[derive(Serialize)]
struct NamedEntry<'a> {
    kind: &'static str,
    target: &'a str,
}

#[derive(Serialize)]
struct VariantEntry<'a> {
    #[serde(flatten)]
    variant: NamedEntry<'a>,
    registers: FigureEntry,
    local_frame_bytes: FigureEntry,
    stack_bytes: FigureEntry,
    static_shared_bytes: FigureEntry,
    code_bytes: FigureEntry,
}

#[derive(Serialize)]
struct FigureEntry {
    old: Option<u32>,
    new: Option<u32>,
    old_is_least: bool,
    new_is_least: bool,
    difference: Option<i64>,
    percent: Option<f64>,
}

#[derive(Serialize)]
struct RefusalEntry<'a> {
    kernel: &'a str,
    variant: Option<NamedEntry<'a>>,
    figure: Option<&'static str>,
    old: Option<u32>,
    new: Option<u32>,
    limit: String,
    message: String,
}

pub(super) fn write(report: &Report<'_>, out: &mut impl Write) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, &Document::of(report))?;
    writeln!(out)
}

impl<'a> Document<'a> {
    pub(super) fn of(report: &'a Report<'_>) -> Self {
        let Report { comparison, refusals, notes } = report;
        Document {
            schema: SCHEMA,
            old: BuildEntry::of(comparison.old),
            new: BuildEntry::of(comparison.new),
            added: comparison.added.iter().map(|kernel| KernelEntry::of(kernel)).collect(),
            removed: comparison.removed.iter().map(|kernel| KernelEntry::of(kernel)).collect(),
            changed: comparison.changed.iter().map(ChangedEntry::of).collect(),
            unchanged: comparison.unchanged,
            refusals: refusals.iter().map(RefusalEntry::of).collect(),
            notes,
        }
    }
}

impl<'a> BuildEntry<'a> {
    fn of(snapshot: &'a Snapshot) -> Self {
        let Snapshot { file, kernels, image_bytes, .. } = snapshot;
        BuildEntry { file, kernels: kernels.len(), image_bytes: *image_bytes }
    }
}

impl<'a> KernelEntry<'a> {
    fn of(kernel: &'a Kernel) -> Self {
        KernelEntry { kernel: kernel.name(), symbol: &kernel.symbol }
    }
}

impl<'a> ChangedEntry<'a> {
    fn of(changed: &'a Changed<'_>) -> Self {
        let Changed { old, new, signature, variants, added, removed } = changed;
        let named =
            |variants: &[&'a Variant]| variants.iter().map(|variant| NamedEntry::of(variant)).collect();
        ChangedEntry {
            kernel: new.name(),
            old_symbol: &old.symbol,
            new_symbol: &new.symbol,
            signature: signature.as_ref().map(|change| SignatureEntry { old: &change.old, new: &change.new }),
            variants: variants.iter().map(VariantEntry::of).collect(),
            variants_added: named(added),
            variants_removed: named(removed),
        }
    }
}

impl<'a> NamedEntry<'a> {
    fn of(variant: &'a Variant) -> Self {
        NamedEntry { kind: variant.kind.as_str(), target: &variant.target }
    }
}

impl<'a> VariantEntry<'a> {
    fn of(changed: &'a ChangedVariant<'_>) -> Self {
        let [registers, frame, stack, shared, code] = changed.figures.map(FigureEntry::of);
        VariantEntry {
            variant: NamedEntry::of(changed.variant),
            registers,
            local_frame_bytes: frame,
            stack_bytes: stack,
            static_shared_bytes: shared,
            code_bytes: code,
        }
    }
}

impl FigureEntry {
    fn of(change: Change) -> Self {
        let is_least = |amount: Option<Amount>| amount.is_some_and(|amount| amount.is_least);
        FigureEntry {
            old: change.old.map(|amount| amount.value),
            new: change.new.map(|amount| amount.value),
            old_is_least: is_least(change.old),
            new_is_least: is_least(change.new),
            difference: change.difference(),
            percent: change.percent(),
        }
    }
}

impl<'a> RefusalEntry<'a> {
    fn of(refusal: &'a Refusal<'_>) -> Self {
        let (variant, change) = match refusal {
            Refusal::Growth { variant, change, .. } => (Some(NamedEntry::of(variant)), Some(change)),
            Refusal::Removed { .. } => (None, None),
        };
        let value = |amount: Option<Amount>| amount.map(|amount| amount.value);
        RefusalEntry {
            kernel: refusal.kernel().name(),
            variant,
            figure: change.map(|change| change.figure.key()),
            old: change.and_then(|change| value(change.old)),
            new: change.and_then(|change| value(change.new)),
            limit: refusal.limit(),
            message: format!("{}: {}", refusal.kernel().name(), refusal.what()),
        }
    }
}
