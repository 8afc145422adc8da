//! Writes the comparison as JSON. docs/diff-json.md is the schema.

use serde_json::{Value, json};

use super::comparison::{Changed, ChangedVariant};
use super::figure::{Amount, Change};
use super::limits::Refusal;
use super::report::Report;
use super::snapshot::{Kernel, Snapshot};
use crate::document::Variant;
use crate::output::json::joined;

/// The version of the JSON. Every change that could break a reader raises it.
const SCHEMA: u32 = 1;

pub(super) fn document(report: &Report<'_>) -> Value {
    let Report { comparison, refusals, notes } = report;
    let kernel = |kernel: &&Kernel| json!({ "kernel": kernel.name(), "symbol": kernel.symbol });
    json!({
        "schema": SCHEMA,
        "old": build(comparison.old),
        "new": build(comparison.new),
        "added": comparison.added.iter().map(kernel).collect::<Value>(),
        "removed": comparison.removed.iter().map(kernel).collect::<Value>(),
        "changed": comparison.changed.iter().map(changed).collect::<Value>(),
        "unchanged": comparison.unchanged,
        "refusals": refusals.iter().map(refusal).collect::<Value>(),
        "notes": notes,
    })
}

fn build(snapshot: &Snapshot) -> Value {
    let Snapshot { file, kernels, image_bytes, .. } = snapshot;
    json!({ "file": file, "kernels": kernels.len(), "image_bytes": image_bytes })
}

fn changed(changed: &Changed<'_>) -> Value {
    let Changed { old, new, signature, variants, added, removed } = changed;
    let named = |variants: &[&Variant]| variants.iter().map(|variant| named(variant)).collect::<Value>();
    json!({
        "kernel": new.name(),
        "old_symbol": old.symbol,
        "new_symbol": new.symbol,
        "signature": signature.as_ref().map(|change| json!({ "old": change.old, "new": change.new })),
        "variants": variants.iter().map(figures).collect::<Value>(),
        "variants_added": named(added),
        "variants_removed": named(removed),
    })
}

fn named(variant: &Variant) -> Value {
    json!({ "kind": variant.kind, "target": variant.target })
}

fn figures(changed: &ChangedVariant<'_>) -> Value {
    let figures = changed.figures.iter().map(|change| (change.figure.key().to_owned(), figure(*change)));
    joined(named(changed.variant), figures.collect())
}

fn figure(change: Change) -> Value {
    let is_least = |amount: Option<Amount>| amount.is_some_and(|amount| amount.is_least);
    json!({
        "old": change.old.map(|amount| amount.value),
        "new": change.new.map(|amount| amount.value),
        "old_is_least": is_least(change.old),
        "new_is_least": is_least(change.new),
        "difference": change.difference(),
        "percent": change.percent(),
    })
}

fn refusal(refusal: &Refusal<'_>) -> Value {
    let (variant, change) = match refusal {
        Refusal::Growth { variant, change, .. } => (Some(named(variant)), Some(change)),
        Refusal::Removed { .. } => (None, None),
    };
    json!({
        "kernel": refusal.kernel().name(),
        "variant": variant,
        "figure": change.map(|change| change.figure.key()),
        "old": change.and_then(|change| Some(change.old?.value)),
        "new": change.and_then(|change| Some(change.new?.value)),
        "limit": refusal.limit(),
        "message": format!("{}: {}", refusal.kernel().name(), refusal.what()),
    })
}
