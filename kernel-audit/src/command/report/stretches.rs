//! Says where the time of stretches went: in the text, on the page, and as marks of the timeline.

use std::cmp::Reverse;
use std::fmt::{self, Write};

use kernel_registry_command::many;
use serde_json::{Value, json};

use crate::command::process::{Audit, Process};
use crate::command::report::page::{Cell, Table, Text};
use crate::command::report::words::{Time, caller, paragraph, short};
use crate::record::{Spending, Spent, Stretch};

/// The most stretches of a process that are in the text, and the most lines of each.
const STRETCHES: usize = 4;
const LINES: usize = 9;

/// The part of a stretch, in hundredths, below which a line is not in the text.
const SMALL: u64 = 1;

/// The part of a stretch, in hundredths, above which times overlap.
const OVERLAP: u64 = 105;

/// The most stretches in the summary of the page, and the most lines of each.
const HEADLINES: usize = 3;
const HEADLINE_LINES: usize = 3;

/// The most rows of a table on the page.
const ROWS: usize = 50;

/// Writes where the time of a process's stretches went.
pub(super) fn write(f: &mut fmt::Formatter<'_>, process: &Process) -> fmt::Result {
    let stretches = &process.report.stretches;
    for stretch in stretches.iter().take(STRETCHES) {
        write_stretch(f, stretch)?;
    }
    match stretches.len().checked_sub(STRETCHES) {
        None | Some(0) => Ok(()),
        Some(more) => writeln!(f, "  and {}; `--json` has all", many(more, "more stretch")),
    }
}

fn write_stretch(f: &mut fmt::Formatter<'_>, stretch: &Stretch) -> fmt::Result {
    writeln!(f, "  {}:", title(stretch))?;
    writeln!(f, "  {:>10} {:>6}  WHAT", "TIME", "SHARE")?;
    let is_small = |spent: &&Spent| spent.took.saturating_mul(100) < stretch.took.saturating_mul(SMALL);
    let shown = stretch.spent.iter().take(LINES).take_while(|spent| !is_small(spent));
    let count = shown.clone().count();
    for spent in shown {
        let by = if spent.user.is_empty() { String::new() } else { format!("  by {}", spent.user) };
        let (took, share) = (Time(spent.took), share(spent, stretch));
        writeln!(f, "  {took:>10} {share:>5}%  {}{by}", what(spent))?;
    }
    if let Some(next) = stretch.spent.get(count) {
        let more = stretch.spent.len() - count;
        writeln!(f, "  {:>10} {:>6}  {more} more, each at most {}", "", "", Time(next.took))?;
    }
    if stretch.lost > 0 {
        writeln!(f, "! in {} of it something was seen that found no room", Time(stretch.lost))?;
    }
    let sum: u64 = stretch.spent.iter().map(|spent| spent.took).fold(0, u64::saturating_add);
    if sum.saturating_mul(100) > stretch.took.saturating_mul(OVERLAP) {
        paragraph(
            f,
            "    Several threads worked at the same time: a time is that in which at least one did this.",
        )?;
    }
    Ok(())
}

fn title(stretch: &Stretch) -> String {
    let (name, took, begun) = (short(&stretch.name), Time(stretch.took), Time(stretch.begun));
    format!("Where the {took} of `{name}` went, from {begun} on")
}

fn what(spent: &Spent) -> String {
    let function = if spent.function.is_empty() { String::new() } else { caller(&spent.function) };
    match (spent.what, &*function) {
        (Spending::Code, "") => "code whose place is not known".to_owned(),
        (Spending::Code, _) => function,
        (what, "") => what.as_str().to_owned(),
        (what, _) => format!("{}: {function}", what.as_str()),
    }
}

fn share(spent: &Spent, of: &Stretch) -> u64 {
    spent.took.saturating_mul(100).saturating_add(of.took / 2).checked_div(of.took).unwrap_or(0)
}

/// A stretch in the summary of the page.
pub(super) struct Headline {
    /// How long a thread of the process ran, or waited for the GPU, in nanoseconds.
    pub(super) weight: u64,
    /// A sentence, and a list of what took most of the time.
    pub(super) html: String,
}

/// Returns the stretches in which most was done, the longest first.
pub(super) fn headlines(audit: &Audit) -> Vec<Headline> {
    let weight = |stretch: &Stretch| {
        let idle = stretch.spent.iter().filter(|spent| spent.what == Spending::Idle).map(|spent| spent.took);
        idle.fold(stretch.took, u64::saturating_sub)
    };
    let mut all: Vec<_> = of_processes(audit).map(|(its, stretch)| (weight(stretch), its, stretch)).collect();
    all.retain(|(weight, ..)| *weight > 0);
    all.sort_by_key(|(weight, ..)| Reverse(*weight));
    let headline = |(weight, process, stretch)| Headline { weight, html: headline(audit, process, stretch) };
    all.into_iter().take(HEADLINES).map(headline).collect()
}

fn headline(audit: &Audit, process: &Process, stretch: &Stretch) -> String {
    let of = if audit.processes.len() > 1 { format!(" of {}", process.name) } else { String::new() };
    let (name, took, of) = (Text(short(&stretch.name)), Time(stretch.took), Text(of));
    let line = |spent: &Spent| {
        let by = if spent.user.is_empty() { String::new() } else { format!(", by {}", spent.user) };
        format!("<li>{} {}{}</li>\n", Time(spent.took), Text(short(&what(spent))), Text(by))
    };
    let lines: String = stretch.spent.iter().take(HEADLINE_LINES).map(line).collect();
    let end = if lines.is_empty() { "." } else { ", most of it here:" };
    format!("<p><strong><code>{name}</code>{of} took {took}{end}</strong></p>\n<ul>\n{lines}</ul>\n")
}

fn of_processes(audit: &Audit) -> impl Iterator<Item = (&Process, &Stretch)> {
    audit.processes.iter().flat_map(|process| process.report.stretches.iter().map(move |its| (process, its)))
}

/// Writes a table for each stretch.
pub(super) fn write_tables(page: &mut String, audit: &Audit) -> fmt::Result {
    let all: Vec<_> = of_processes(audit).collect();
    if all.is_empty() {
        return Ok(());
    }
    page.write_str("<h2>Where the time went</h2>\n")?;
    for (process, stretch) in all.into_iter().take(ROWS) {
        let of = if audit.processes.len() > 1 { format!("{}: ", process.name) } else { String::new() };
        let label = format!("{of}{} of {}", Time(stretch.took), short(&stretch.name));
        writeln!(page, "<h3>{}</h3>", Text(&label))?;
        let row = |spent: &Spent| {
            vec![
                Cell::number(spent.took as f64, Time(spent.took)),
                Cell::number(share(spent, stretch) as f64, format!("{} %", share(spent, stretch))),
                Cell::folded(short(&what(spent)), format!("{}\n\n{}", what(spent), spent.stack.trim_end())),
                Cell::text(&spent.user),
            ]
        };
        let rows = stretch.spent.iter().take(ROWS).map(row).collect();
        let headings = ["Time", "Share", "What", "Called by"];
        write!(page, "{}", Table { label: &label, headings: &headings, rows })?;
    }
    Ok(())
}

/// Returns a mark for the beginning and the end of each stretch.
pub(super) fn marks(process: &Process) -> impl Iterator<Item = Value> {
    process.report.stretches.iter().enumerate().flat_map(|(id, stretch)| {
        let begun = process.on_axis(stretch.begun);
        let (pid, name) = (process.number, &*stretch.name);
        let spent: Vec<_> = stretch.spent.iter().take(LINES).map(|spent| format!("{} {}", Time(spent.took), what(spent))).collect();
        let mark = |phase, at: u64, args: &[String]| {
            json!({
                "ph": phase, "name": name, "cat": "stretch", "id": format!("{pid}-stretch-{id}"), "pid": pid, "tid": pid,
                "ts": at as f64 / 1e3, "args": { "spent": args },
            })
        };
        [mark("b", begun, &spent), mark("e", begun.saturating_add(stretch.took), &[])]
    })
}
