//! Writes the comparison as a page: what was refused, a table with bars for each figure, and lists.

use std::fmt::Write as _;

use super::Report;
use super::comparison::{Changed, Comparison};
use super::figure::{Amount, Change, Figure};
use super::json;
use super::limits::Refusal;
use super::snapshot::{Kernel, Variant};
use crate::page::{self, Cell, Page, Table, Text};
use crate::plural::many;

const STYLE: &str = "\
.bars { display: block; width: clamp(5rem, 20vw, 12rem); text-align: left; }
.bars i { display: block; height: 0.55rem; min-width: 1px; margin: 0.15rem 0; border-radius: 0 0.125rem 0.125rem 0; }
.old { background: var(--mark-grey); }
.more { background: var(--mark-orange); }
.less { background: var(--mark-green); }
.legend i { display: inline-block; width: 1.5rem; height: 0.55rem; margin: 0 0.25rem 0 0.75rem; }
";

pub(super) fn page(report: &Report<'_>) -> String {
    let comparison = &report.comparison;
    let mut body = String::new();
    body += &refusals(&report.refusals);
    if !comparison.changed_figures().is_empty() {
        body += "<p class=\"legend\">Bars compare a kernel before and after:\
                 <i class=\"old\"></i>before<i class=\"more\"></i>after, more<i class=\"less\"></i>after, less. \
                 A click on a heading sorts.</p>\n";
    }
    for figure in comparison.changed_figures() {
        body += &figures(comparison, figure);
    }
    body += &signatures(comparison);
    body += &kernels("Added kernels", &comparison.added);
    body += &kernels("Removed kernels", &comparison.removed);
    body += &variants(comparison);
    if !report.notes.is_empty() {
        let notes: String = report.notes.iter().map(|note| format!("<li>{}</li>\n", Text(note))).collect();
        let _ = write!(body, "<h2>Notes</h2>\n<ul>\n{notes}</ul>\n");
    }
    body += &page::data("diff", &json::document(report));
    let summary = summary(report);
    Page { title: "GPU kernels before and after", style: STYLE, summary: &summary, body: &body }.to_string()
}

fn summary(report: &Report<'_>) -> String {
    let Report { comparison, refusals, .. } = report;
    let (old, new) = (comparison.old, comparison.new);
    let verdict = match refusals.len() {
        0 => String::new(),
        count => format!("<p class=\"bad\">{} beyond the limits</p>\n", many(count, "change")),
    };
    format!(
        "{verdict}<p>{}; images {}</p>\n<p class=\"faint\">Before: <code>{}</code>, {}. After: <code>{}</code>, {}.</p>",
        comparison.counts(),
        Text(comparison.image_bytes().replace("->", "→")),
        Text(&old.file),
        many(old.kernels.len(), "kernel"),
        Text(&new.file),
        many(new.kernels.len(), "kernel"),
    )
}

/// Its name with a capital.
fn title(figure: Figure) -> String {
    let (first, rest) = figure.name().split_at(1);
    first.to_ascii_uppercase() + rest
}

const fn explanation(figure: Figure) -> &'static str {
    match figure {
        Figure::Registers => "Registers of a thread",
        Figure::Frame => {
            "Bytes of local memory of a thread for the kernel itself: spilled registers and arrays"
        }
        Figure::Stack => "Bytes of local memory of a thread for the kernel and all that it calls",
        Figure::Shared => "Bytes of shared memory of a block",
        Figure::Code => "Bytes of machine code, or of the text in PTX",
    }
}

/// A heading, a sentence about it, and a table, which has the heading as its label. Nothing if there are no rows.
fn section(title: &str, about: &str, headings: &[&str], rows: Vec<Vec<Cell>>) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let about = match about {
        "" => String::new(),
        about => format!("<p class=\"faint\">{}.</p>\n", Text(about)),
    };
    format!("<h2>{}</h2>\n{about}{}", Text(title), Table { label: title, headings, rows })
}

fn refusals(refusals: &[Refusal<'_>]) -> String {
    let row = |refusal: &Refusal<'_>| {
        vec![
            Cell::code(refusal.kernel().name()),
            Cell::text(refusal.what().replace("->", "→")),
            Cell::code(refusal.limit()),
        ]
    };
    let rows = refusals.iter().map(row).collect();
    section("Refused", "Changes beyond the limits", &["kernel", "change", "limit"], rows)
}

/// The kernels for which a figure changed, those that grew most first.
fn figures(comparison: &Comparison<'_>, figure: Figure) -> String {
    let mut changes = Vec::new();
    for (kernel, changed) in comparison.changed_variants() {
        let change = changed.figures.iter().find(|change| change.figure == figure);
        changes.extend(change.filter(|c| c.is_there()).map(|c| (kernel, changed.variant, *c)));
    }
    let value = |amount: Option<Amount>| amount.map_or(0, |amount| amount.value);
    let largest = changes.iter().map(|(_, _, c)| value(c.old).max(value(c.new))).max().unwrap_or(0);
    changes.sort_by_key(|(_, _, change)| std::cmp::Reverse(change.difference().unwrap_or(i64::MAX)));
    let row = |(kernel, variant, change): (&Kernel, &Variant, Change)| {
        let amount = |amount: Option<Amount>| {
            Cell::number(value(amount).into(), amount.map_or(String::new(), |amount| amount.to_string()))
        };
        let signed = |value: Option<f64>, text: Option<String>| {
            // From zero on, and without a bound, it is the most of all.
            Cell::number(value.unwrap_or(1e12), text.unwrap_or_default())
        };
        let (difference, percent) = (change.difference(), change.percent());
        vec![
            Cell::code(kernel.name()),
            Cell::text(variant.name()),
            Cell::html(value(change.new).into(), bars(change, largest)),
            amount(change.old),
            amount(change.new),
            signed(difference.map(|by| by as f64), difference.map(|by| format!("{by:+}"))),
            signed(percent, percent.map(|percent| format!("{percent:+.1} %"))),
        ]
    };
    let headings = ["kernel", "variant", "bars", "before", "after", "change", "percent"];
    section(&title(figure), explanation(figure), &headings, changes.into_iter().map(row).collect())
}

/// Two bars whose lengths are parts of the largest value.
fn bars(change: Change, largest: u32) -> String {
    let width = |amount: Option<Amount>| {
        let value = amount.map_or(0, |amount| amount.value);
        f64::from(value) * 100.0 / f64::from(largest.max(1))
    };
    let class = if change.is_growth() { "more" } else { "less" };
    format!(
        "<span class=\"bars\" aria-hidden=\"true\"><i class=\"old\" style=\"width:{:.1}%\"></i>\
         <i class=\"{class}\" style=\"width:{:.1}%\"></i></span>",
        width(change.old),
        width(change.new)
    )
}

fn signatures(comparison: &Comparison<'_>) -> String {
    let row = |changed: &Changed<'_>| {
        let signature = changed.signature.as_ref()?;
        let [old, new] = [&signature.old, &signature.new].map(Cell::code);
        Some(vec![Cell::code(changed.new.name()), old, new])
    };
    let rows = comparison.changed.iter().filter_map(row).collect();
    let about = "Kernels that take other parameters than before";
    section("Signatures", about, &["kernel", "before", "after"], rows)
}

fn kernels(title: &str, kernels: &[&Kernel]) -> String {
    let row = |kernel: &&Kernel| {
        let signature = kernel.rust.as_ref().or(kernel.cuda.as_ref()).map_or("", String::as_str);
        let variants = kernel.variants.iter().map(Variant::name).collect::<Vec<_>>().join(", ");
        vec![Cell::code(kernel.name()), Cell::code(signature), Cell::text(variants)]
    };
    section(title, "", &["kernel", "signature", "variants"], kernels.iter().map(row).collect())
}

/// Which variants kernels of both builds gained and lost.
fn variants(comparison: &Comparison<'_>) -> String {
    let row = |(name, what, count): (String, &str, usize)| {
        vec![Cell::text(name), Cell::text(what), Cell::number(count as f64, count)]
    };
    let rows = comparison.variant_counts().into_iter().map(row).collect();
    let about = "Architectures for which kernels of both builds have code, or not any more";
    section("Variants", about, &["variant", "change", "kernels"], rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diff::comparison::tests::{kernel, snapshot};

    #[test]
    fn names_are_text_and_bars_are_to_scale() {
        let figures = |registers| [Some(registers), Some(0), Some(0), Some(0), Some(128)];
        let name = "<script>alert(1)</script>\"'";
        let old =
            snapshot([kernel(name, &[("sm_90", figures(20))]), kernel("less", &[("sm_90", figures(40))])]);
        let new =
            snapshot([kernel(name, &[("sm_90", figures(30))]), kernel("less", &[("sm_90", figures(10))])]);
        let comparison = Comparison::new(&old, &new);
        let page = page(&Report { comparison, refusals: Vec::new(), notes: vec!["<b>".to_owned()] });
        assert!(!page.contains("<script>alert") && !page.contains("<b>"), "{page}");
        assert!(page.contains("<code>&lt;script&gt;alert(1)&lt;/script&gt;&quot;&#39;</code>"), "{page}");
        assert!(
            page.contains("class=\"old\" style=\"width:50.0%\"></i><i class=\"more\" style=\"width:75.0%\""),
            "{page}"
        );
        assert!(
            page.contains("class=\"old\" style=\"width:100.0%\"></i><i class=\"less\" style=\"width:25.0%\""),
            "{page}"
        );
        // The other figures did not change.
        assert!(page.contains("<h2>Registers</h2>") && !page.contains("<h2>Code</h2>"), "{page}");
    }
}
