//! Writes the comparison as Markdown, for a comment of a pull request.

use std::io::{self, Write};

use kernel_registry_command::many;

use super::comparison::Comparison;
use super::figure::Change;
use super::limits::Refusal;
use super::report::Report;
use crate::output::table::shortened;

/// The most rows or items that are shown. Further rows and items are folded.
const SHOWN: usize = 20;

/// The most bytes of a list and of the table. There are six lists, and GitHub takes comments of 65,536 characters.
const LIST: usize = 5_000;
const TABLE: usize = 25_000;

pub(super) fn write(report: &Report<'_>, out: &mut impl Write) -> io::Result<()> {
    let Report { comparison, refusals, notes } = report;
    let (old, new) = (comparison.old, comparison.new);
    writeln!(out, "### GPU kernels: {}\n", comparison.counts())?;
    writeln!(
        out,
        "{} in {}, {} in {}; images {}\n",
        many(old.kernels.len(), "kernel"),
        code(&old.file),
        many(new.kernels.len(), "kernel"),
        code(&new.file),
        comparison.image_bytes()
    )?;
    let refused = |refusal: &Refusal<'_>| {
        let limit = code(&refusal.limit());
        format!("- {}: {} (the limit is {limit})", code(refusal.kernel().name()), refusal.what())
    };
    list("Refused", refusals.iter().map(refused), out)?;
    write_table(comparison, out)?;
    let signatures = comparison.changed.iter().filter_map(|changed| {
        let signature = changed.signature.as_ref()?;
        let (old, new) = (code(&signature.old), code(&signature.new));
        Some(format!("- {}: {old} → {new}", code(changed.new.name())))
    });
    list("Signatures", signatures, out)?;
    list("Added", comparison.added.iter().map(|kernel| format!("- {}", code(kernel.name()))), out)?;
    list("Removed", comparison.removed.iter().map(|kernel| format!("- {}", code(kernel.name()))), out)?;
    let variants = comparison.variant_counts().into_iter();
    let variants =
        variants.map(|(name, what, count)| format!("- {} {what} {}", code(&name), many(count, "kernel")));
    list("Variants", variants, out)?;
    list("Notes", notes.iter().map(|note| format!("- {}", escaped(note))), out)
}

/// Writes the figures of each variant in which a figure changed.
fn write_table(comparison: &Comparison<'_>, out: &mut impl Write) -> io::Result<()> {
    let columns = comparison.changed_figures();
    if columns.is_empty() {
        return Ok(());
    }
    let headings: Vec<_> = columns.iter().map(|figure| figure.heading()).collect();
    let head = format!(
        "| kernel | variant | {} |\n|---|---|{}",
        headings.join(" | "),
        "---|".repeat(headings.len())
    );
    let rows = comparison.changed_variants().map(|(kernel, changed)| {
        let figures = changed.figures.iter().filter(|change| columns.contains(&change.figure));
        let cell = |change: &Change| match change.is_there() {
            true => change.to_string().replace("->", "→"),
            false => String::new(),
        };
        let [kernel, variant] =
            [shortened(kernel.name()), changed.variant.name()].map(|name| in_cell(&code(&name)));
        format!("| {kernel} | {variant} | {} |", figures.map(cell).collect::<Vec<_>>().join(" | "))
    });
    folded("Resources", &head, rows, TABLE, out)
}

fn list(title: &str, items: impl Iterator<Item = String>, out: &mut impl Write) -> io::Result<()> {
    folded(title, "", items, LIST, out)
}

/// Writes lines below a title and the head of a table: the first lines, further lines folded, and the number of lines without room.
fn folded(
    title: &str,
    head: &str,
    lines: impl Iterator<Item = String>,
    mut room: usize,
    out: &mut impl Write,
) -> io::Result<()> {
    let mut lines = lines.peekable();
    if lines.peek().is_none() {
        return Ok(());
    }
    let start = |out: &mut dyn Write| if head.is_empty() { Ok(()) } else { writeln!(out, "{head}") };
    writeln!(out, "**{title}**\n")?;
    start(out)?;
    let mut shown = 0;
    let mut left_out = 0;
    let mut more = Vec::new();
    for line in lines {
        // A line that is too long is not shown either.
        if line.len() >= room {
            left_out += 1;
            continue;
        }
        room -= line.len() + 1;
        if shown < SHOWN {
            shown += 1;
            writeln!(out, "{line}")?;
        } else {
            more.push(line);
        }
    }
    writeln!(out)?;
    if !more.is_empty() {
        writeln!(out, "<details><summary>and {} more</summary>\n", more.len())?;
        start(out)?;
        more.iter().try_for_each(|line| writeln!(out, "{line}"))?;
        writeln!(out, "\n</details>\n")?;
    }
    if left_out > 0 {
        writeln!(out, "There is no room for {left_out} more; `--json` has all.\n")?;
    }
    Ok(())
}

/// Writes a name as code. Characters that would end the code are replaced.
fn code(text: &str) -> String {
    let safe = |c| match c {
        '`' => '\'',
        '\\' => '/',
        c => c,
    };
    format!("`{}`", text.chars().map(safe).collect::<String>())
}

/// Escapes text in the cell of a table, where a `|` would begin the next cell, in code too.
fn in_cell(text: &str) -> String {
    text.replace('|', "\\|")
}

/// Escapes a sentence, so that its characters, except backquotes, mean nothing in Markdown or HTML.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for (index, part) in text.split('`').enumerate() {
        // Between backquotes is code.
        if index % 2 == 1 {
            escaped.push_str(&code(part));
            continue;
        }
        for c in part.chars() {
            if matches!(c, '\\' | '*' | '_' | '[' | ']' | '<' | '>' | '#' | '|' | '&' | '@' | '~') {
                escaped.push('\\');
            }
            escaped.push(c);
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::diff::comparison::tests::{kernel, snapshot};

    fn written(report: &Report<'_>) -> String {
        let mut out = Vec::new();
        write(report, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    fn figures(registers: u32) -> [Option<u32>; 5] {
        [Some(registers), Some(0), Some(0), Some(0), Some(128)]
    }

    #[test]
    fn hostile_names_stay_names() {
        let name = "a|b`<script>";
        let (old, new) = (
            snapshot([kernel(name, &[("sm_90", figures(20))])]),
            snapshot([kernel(name, &[("sm_90", figures(24))]), kernel("</details>|", &[])]),
        );
        let comparison = Comparison::new(&old, &new);
        let report =
            Report { comparison, refusals: Vec::new(), notes: vec!["of `x|y` *all* <b>".to_owned()] };
        let text = written(&report);
        assert!(text.contains("\n| `a\\|b'<script>` | `sm_90` | 20 → 24 (+4, +20.0%) |\n"), "{text}");
        assert!(text.contains("\n- `</details>|`\n"), "{text}");
        assert!(text.contains("\n- of `x|y` \\*all\\* \\<b\\>\n"), "{text}");
    }

    #[test]
    fn long_tables_are_folded_and_bounded() {
        let build = |count: usize, registers| {
            snapshot(
                (0..count)
                    .map(|index| kernel(&format!("kernels::k{index:05}"), &[("sm_90", figures(registers))])),
            )
        };
        let text = |count| {
            let (old, new) = (build(count, 20), build(count, 24));
            let comparison = Comparison::new(&old, &new);
            written(&Report { comparison, refusals: Vec::new(), notes: Vec::new() })
        };
        let rows = |text: &str| text.matches("\n| `kernels::").count();
        let few = text(20);
        assert!(rows(&few) == 20 && !few.contains("<details>"), "{few}");
        let more = text(50);
        assert!(rows(&more) == 50 && more.contains("<summary>and 30 more</summary>\n\n| kernel |"), "{more}");
        let many = text(5000);
        assert!(many.len() < 60_000 && many.contains("There is no room for "), "{}", many.len());
    }
}
