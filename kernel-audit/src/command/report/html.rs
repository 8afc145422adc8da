//! Writes the report as a page of HTML.

mod lines;
mod summary;
mod timeline;

use std::cmp::Reverse;
use std::fmt::{self, Write as _};
use std::iter;

use kernel_registry_image::readable;

use self::lines::{code, write_lines};
use crate::command::process::{Audit, Process, is_late};
use crate::command::report::comparison::{self, compare_kernels};
use crate::command::report::groups::{self, Group};
use crate::command::report::hang;
use crate::command::report::page::{Cell, Page, Table, Text};
use crate::command::report::stretches;
use crate::command::report::words::{
    self, About, Time, described_image, image_of_kernel, processes, short, subject,
};
use crate::record::{Event, Kind};

/// The most processes whose timelines are drawn.
const TIMELINES: usize = 8;
/// The most rows of a table.
const ROWS: usize = 500;
/// The most hangs that are explained.
const HANGS: usize = 50;

pub(crate) fn page(audit: &Audit) -> String {
    let mut body = String::new();
    // Writing to a `String` does not fail.
    let _ = write_body(&mut body, audit);
    let summary = summary::html(audit);
    let style = include_str!("html/audit.css");
    Page { title: &title(audit), style, summary: &summary, body: &body }.to_string()
}

fn title(audit: &Audit) -> String {
    if audit.processes.is_empty() {
        return "Audit without a result".to_owned();
    }
    let commands = || audit.processes.iter().map(|process| process.report.known_command());
    match commands().next() {
        Some(first) if commands().all(|command| command == first) => format!("Audit of {}", short(first)),
        _ => format!("Audit of {}", processes(audit.processes.len())),
    }
}

fn write_body(page: &mut String, audit: &Audit) -> fmt::Result {
    if let [Process { report, .. }] = &*audit.processes {
        writeln!(
            page,
            "<details><summary>Command</summary><pre>{}</pre></details>",
            Text(report.known_command())
        )?;
    }
    write_hangs(page, audit)?;
    if !audit.processes.is_empty() {
        write_timelines(page, audit)?;
    }
    let late: Vec<_> = find_events(audit, is_late);
    if !late.is_empty() {
        page.write_str("<h2>Late after the program was ready</h2>\n")?;
        write_events(page, audit, "Late calls", late)?;
    }
    let waits = |event: &Event| event.is_finding && event.kind != Kind::Hang && event.waits_for_resident();
    let resident: Vec<_> = find_events(audit, waits);
    if !resident.is_empty() {
        page.write_str("<h2>Calls that would have waited for a resident kernel</h2>\n")?;
        write_events(page, audit, "Calls while a kernel was resident", resident)?;
    }
    stretches::write_tables(page, audit)?;
    write_preloaded(page, audit)?;
    if audit.processes.len() > 1 {
        write_comparison(page, audit)?;
    }
    write_groups(page, "Kernels that were loaded", "Kernel", groups::kernels(audit))?;
    write_groups(page, "Libraries that loaded something", "Library", groups::libraries(audit))?;
    write_groups(page, "Functions that loaded something", "Function", groups::callers(audit))?;
    let others: Vec<_> = find_events(audit, |event| !event.is_finding && event.kind != Kind::Hang);
    if !others.is_empty() {
        page.write_str("<h2>Other calls</h2>\n")?;
        write_events(page, audit, "Other calls", others)?;
    }
    Ok(())
}

/// Writes the preloads. Failed preloads come first, with the reason.
fn write_preloaded(page: &mut String, audit: &Audit) -> fmt::Result {
    let mut all: Vec<_> = audit.of_processes(|report| &report.preloaded).collect();
    if all.is_empty() {
        return Ok(());
    }
    page.write_str("<h2>Preloaded</h2>\n")?;
    all.sort_by_key(|(_, event)| event.result == 0);
    let row = |(process, event): &(&Process, &Event)| {
        vec![
            Cell::text(&process.name),
            name(subject(event)),
            Cell::text(event.subject.any_image().map(described_image).unwrap_or_default()),
            if event.result == 0 { time(event.took) } else { Cell::text(&event.reason) },
        ]
    };
    write_table(page, "Preloaded", &["Process", "What", "Of", "Took, or why not"], &all, row)
}

/// Finds events of all processes, each with its process.
fn find_events(audit: &Audit, which: impl Fn(&Event) -> bool) -> Vec<(&Process, &Event)> {
    audit.of_processes(|report| &report.events).filter(|(_, event)| which(event)).collect()
}

fn write_hangs(page: &mut String, audit: &Audit) -> fmt::Result {
    let hangs = summary::hangs(audit);
    if hangs.is_empty() {
        return Ok(());
    }
    page.write_str("<h2>Calls that did not return in time</h2>\n")?;
    for (index, (process, event)) in hangs.iter().take(HANGS).enumerate() {
        let (call, name, at) = (Text(&event.call), Text(&process.name), About(event.begun));
        writeln!(page, "<h3><code>{call}</code> in {name}, thread {}, since {at}</h3>", event.thread)?;
        if index == 0 {
            page.write_str("<p>Explained at the top of this page.</p>\n")?;
        } else {
            write_lines(page, &hang::lines(process, event, &audit.run))?;
        }
        let details: Vec<_> = hang::details(process, event).iter().map(|detail| code(detail)).collect();
        writeln!(page, "<p class=\"faint\">{}</p>", details.join("<br>"))?;
        if !event.stack.is_empty() {
            writeln!(
                page,
                "<details><summary>Stack of the thread</summary><pre>{}</pre></details>",
                Text(&event.stack)
            )?;
        }
    }
    left_out(page, hangs.len(), HANGS)
}

fn left_out(page: &mut String, count: usize, room: usize) -> fmt::Result {
    match count.checked_sub(room) {
        None | Some(0) => Ok(()),
        Some(more) => {
            writeln!(page, "<p>And {more} more, which the report as JSON (<code>--json</code>) lists.</p>")
        }
    }
}

/// Writes a table of the longest events, in the order of time.
fn write_events(
    page: &mut String,
    audit: &Audit,
    label: &str,
    mut events: Vec<(&Process, &Event)>,
) -> fmt::Result {
    events.sort_by_key(|(_, event)| Reverse(event.took));
    let count = events.len();
    events.truncate(ROWS);
    events.sort_by_key(|(process, event)| process.on_axis(event.begun));
    let several = audit.processes.len() > 1;
    let mut headings = vec!["At", "Took", "Kind", "What", "Call", "Called by"];
    let resident = events.iter().any(|(_, event)| event.waits_for_resident());
    if resident {
        headings.push("Resident kernel");
    }
    if several {
        headings.insert(0, "Process");
    }
    let row = |(process, event): (&Process, &Event)| {
        let mut row = vec![
            time(event.begun),
            time(event.took),
            Cell::text(event.kind.as_str()),
            name(subject(event)),
            Cell::code(&event.call),
            caller(event),
        ];
        if resident {
            row.push(name(readable(&event.resident)));
        }
        if several {
            row.insert(0, Cell::text(&process.name));
        }
        row
    };
    let rows = events.into_iter().map(row).collect();
    write!(page, "{}", Table { label, headings: &headings, rows })?;
    left_out(page, count, ROWS)
}

/// Writes a table of the first items, and says how many are left out.
fn write_table<T>(
    page: &mut String,
    label: &str,
    headings: &[&str],
    items: &[T],
    row: impl Fn(&T) -> Vec<Cell>,
) -> fmt::Result {
    let rows = items.iter().take(ROWS).map(row).collect();
    write!(page, "{}", Table { label, headings, rows })?;
    left_out(page, items.len(), ROWS)
}

fn time(nanoseconds: u64) -> Cell {
    Cell::number(nanoseconds as f64, Time(nanoseconds))
}

/// Returns a cell with the caller; the kernel's image and the stack are folded below.
fn caller(event: &Event) -> Cell {
    if event.caller.is_empty() && event.stack.is_empty() {
        return Cell::text("");
    }
    let by = words::caller(&event.caller);
    let image = image_of_kernel(event).map_or(String::new(), |image| format!("of {image}\n"));
    Cell::folded(short(&by), format!("{by}\n{image}\n{}", event.stack.trim_end()))
}

/// Returns a cell with a name from code. The name of a template instance can have a thousand characters, so long names
/// are folded.
fn name(name: String) -> Cell {
    let beginning = short(&name);
    if beginning == name { Cell::code(name) } else { Cell::folded(beginning, name) }
}

fn write_groups(page: &mut String, title: &str, of: &str, groups: Vec<Group<'_>>) -> fmt::Result {
    if groups.is_empty() {
        return Ok(());
    }
    writeln!(page, "<h2>{title}</h2>")?;
    let row = |group: &Group<'_>| {
        vec![
            name(words::caller(group.name)),
            Cell::number(group.times as f64, group.times),
            time(group.total),
            time(group.longest),
            Cell::number(group.late as f64, group.late),
        ]
    };
    write_table(page, title, &[of, "Times", "Total", "Longest", "After ready"], &groups, row)
}

fn write_timelines(page: &mut String, audit: &Audit) -> fmt::Result {
    page.write_str("<h2>Timeline</h2>\n")?;
    page.write_str(timeline::LEGEND)?;
    if audit.processes.len() > 1 {
        write!(page, "<h3>All processes</h3>\n{}", timeline::draw_processes(audit))?;
    }
    let (drawn, rest) = audit.split_processes(TIMELINES);
    for process in &drawn {
        let timeline = timeline::draw_process(process);
        if audit.processes.len() == 1 {
            page.write_str(&timeline)?;
        } else {
            let (name, command) = (Text(&process.name), Text(short(process.report.known_command())));
            writeln!(
                page,
                "<details><summary>{name}: <code>{command}</code></summary>\n{timeline}</details>"
            )?;
        }
    }
    if rest.is_empty() {
        return Ok(());
    }
    let rest = processes(rest.len());
    writeln!(
        page,
        "<p>{rest} more are not drawn one by one: <code>--trace</code> has the threads of all.</p>"
    )
}

/// Returns how a process ended, and in which calls it was last seen.
fn end(audit: &Audit, process: &Process) -> String {
    let end = audit.end_of(process).unwrap_or("ended").to_owned();
    let all: Vec<_> = iter::once(end).chain(process.last_calls().into_iter().take(HANGS)).collect();
    all.join("; ").replace('`', "")
}

fn write_comparison(page: &mut String, audit: &Audit) -> fmt::Result {
    page.write_str("<h2>Processes compared</h2>\n")?;
    let first_ready = audit.processes.iter().filter_map(Process::ready_at).min().unwrap_or(0);
    let row = |process: &Process| {
        let loads = Group::sum(process.of_kind(Kind::Load));
        let behind = process.ready_at().map(|at| at - first_ready);
        let time_or_never = |at: Option<u64>| at.map_or(Cell::number(-1.0, "never"), time);
        vec![
            Cell::text(&process.name),
            time_or_never(process.report.ready),
            time_or_never(behind),
            Cell::number(process.report.launches as f64, process.report.launches),
            Cell::number(loads.times as f64, loads.times),
            Cell::number(loads.late as f64, loads.late),
            time(loads.total),
            Cell::text(end(audit, process)),
        ]
    };
    let rows = audit.processes.iter().map(row).collect();
    let headings = [
        "Process",
        "Ready after",
        "Later than the first",
        "Launches",
        "Kernels loaded",
        "After ready",
        "Loads took",
        "End",
    ];
    write!(page, "{}", Table { label: "Processes", headings: &headings, rows })?;

    let kernels = compare_kernels(audit);
    if kernels.is_empty() {
        return Ok(());
    }
    page.write_str(
        "<h3>Kernels by process</h3>\n\
         <p class=\"faint\">How much later the last process loaded a kernel than the first one, by the clocks of their machines.</p>\n",
    )?;
    let row = |kernel: &comparison::KernelLoads<'_>| {
        let ((last, behind), (shortest, longest)) = (kernel.last(), kernel.took());
        let loaded = kernel.loads.len();
        vec![
            name(readable(kernel.kernel)),
            Cell::number(loaded as f64, format!("{loaded} of {}", audit.processes.len())),
            Cell::text(comparison::names(kernel.late())),
            time(behind),
            Cell::text(if loaded > 1 { last } else { "" }),
            time(shortest),
            time(longest),
        ]
    };
    let headings = [
        "Kernel",
        "Loaded on",
        "After ready on",
        "Last after first",
        "Last on",
        "Took at least",
        "Took at most",
    ];
    write_table(page, "Kernels by process", &headings, &kernels, row)
}

#[cfg(test)]
mod tests {
    use crate::record::Report;

    use super::*;
    use crate::command::process::with_names;

    /// Returns the headings of the tables that list a call.
    fn tables<'p>(page: &'p str, call: &str) -> Vec<&'p str> {
        let parts = page.split("<h2>").filter(|part| part.contains(call));
        let headings = parts.filter_map(|part| Some(part.split_once("</h2>")?.0));
        headings.filter(|heading| *heading != "Timeline").collect()
    }

    #[test]
    fn each_call_beside_a_resident_kernel_is_in_one_table() {
        let event = |kind, call: &str, is_finding| {
            let mut event = Event::default();
            (event.kind, event.is_finding) = (kind, is_finding);
            (event.call, event.resident) = (call.into(), "spin".into());
            event
        };
        let mut report = Report::default();
        report.events =
            vec![event(Kind::Slow, "cuMemFree_v2", false), event(Kind::Waits, "cuMemHostRegister_v2", true)];
        let audit = Audit { processes: with_names(vec![report]), ..Audit::default() };
        let mut body = String::new();
        write_body(&mut body, &audit).expect("a string has room");
        assert_eq!(tables(&body, "cuMemFree_v2"), ["Other calls"]);
        let waited = "Calls that would have waited for a resident kernel";
        assert_eq!(tables(&body, "cuMemHostRegister_v2"), [waited]);
    }
}
