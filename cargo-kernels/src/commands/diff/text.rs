//! Writes the comparison as text: lists, a table of the figures that changed, and a line with the counts.

use std::io::{self, Write};

use kernel_registry_command::many;

use super::comparison::Changed;
use super::report::Report;
use super::signature::SignatureChange;
use crate::output::table;

pub(super) fn write(report: &Report<'_>, out: &mut impl Write) -> io::Result<()> {
    let Report { comparison, refusals, notes } = report;
    for (word, snapshot) in [("old", comparison.old), ("new", comparison.new)] {
        writeln!(out, "{word}: {}, {}", snapshot.file, many(snapshot.kernels.len(), "kernel"))?;
    }
    write_lists(report, out)?;
    write_table(report, out)?;
    if !refusals.is_empty() || !notes.is_empty() {
        writeln!(out)?;
    }
    for note in notes {
        writeln!(out, "note: {note}")?;
    }
    for refusal in refusals {
        writeln!(out, "refused by {}: {}: {}", refusal.limit(), refusal.kernel().name(), refusal.what())?;
    }
    writeln!(out)?;
    writeln!(out, "{}; images {}", comparison.counts(), comparison.image_bytes())
}

/// Writes the added and removed kernels, and the changes of signatures and variants.
fn write_lists(report: &Report<'_>, out: &mut impl Write) -> io::Result<()> {
    let comparison = &report.comparison;
    let mut lines = Vec::new();
    lines.extend(comparison.added.iter().map(|kernel| format!("added      {}", kernel.name())));
    lines.extend(comparison.removed.iter().map(|kernel| format!("removed    {}", kernel.name())));
    for Changed { new, signature, .. } in &comparison.changed {
        if let Some(SignatureChange { old, new: changed }) = signature {
            lines.push(format!("signature  {}: {old} -> {changed}", new.name()));
        }
    }
    for (name, what, count) in comparison.variant_counts() {
        lines.push(format!("variant    {name} {what} {}", many(count, "kernel")));
    }
    if !lines.is_empty() {
        writeln!(out)?;
    }
    lines.iter().try_for_each(|line| writeln!(out, "{line}"))
}

/// Writes the figures of each variant in which a figure changed. Columns without a change are left out.
fn write_table(report: &Report<'_>, out: &mut impl Write) -> io::Result<()> {
    let columns = report.comparison.changed_figures();
    if columns.is_empty() {
        return Ok(());
    }
    let headings = columns.iter().map(|figure| figure.heading().to_uppercase());
    let mut rows =
        vec![["KERNEL", "VARIANT"].map(str::to_owned).into_iter().chain(headings).collect::<Vec<_>>()];
    for (kernel, changed) in report.comparison.changed_variants() {
        let mut row = vec![table::shortened(kernel.name()), changed.variant.name()];
        let figures = changed.figures.iter().filter(|change| columns.contains(&change.figure));
        row.extend(figures.map(ToString::to_string));
        rows.push(row);
    }
    writeln!(out)?;
    table::columns(&rows, "", out)
}
