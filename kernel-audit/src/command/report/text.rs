//! Writes the report for people, in the terminal. The report is short for any number of events: events that are left
//! out are counted.

use std::fmt;

use kernel_registry_command::many;
use kernel_registry_image::readable;

use crate::causes;
use crate::causes::is_preloadable;
use crate::command::process::{Audit, Process, hang_key, is_late};
use crate::command::report::comparison::{self, compare_kernels};
use crate::command::report::compiled;
use crate::command::report::groups::{self, Group};
use crate::command::report::stretches;
use crate::command::report::words::{
    About, NOTHING_SEEN, Time, caller, paragraph, processes, short, subject, while_resident,
};
use crate::command::report::{fault, hang, preloaded};
use crate::command::together::Together;
use crate::record::{Event, Kind};

/// The most processes that are reported one by one.
const PROCESSES: usize = 8;
/// The most events that are listed for all processes together, and the least for which each process has room.
const LISTED: usize = 40;
const LISTED_OF_EACH: usize = 4;
/// The most hangs of each process that are explained, and the most calls in which it was last seen.
const HANGS: usize = 5;
/// The most lines of a table.
const LINES: usize = 10;
/// The remedy for late loads in programs that nobody can change.
const RECORD_IT: &str = "\nWithout a change to the program: `--record FILE` writes down what was late, and `--preload FILE` loads it at the start of \
                         the next run.";
/// The remedy for late loads that the preload did not have.
const RECORD_MORE: &str = "\nTo preload this, too: `--record FILE` with the file that `--preload` names.";
/// The most events for which the report needs no tables.
const HANDFUL: usize = 8;

impl fmt::Display for Audit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.processes.is_empty() && !self.left_out.is_empty() {
            return writeln!(f, "AUDIT: no record could be read");
        }
        if self.processes.is_empty() {
            return writeln!(f, "AUDIT: {NOTHING_SEEN}");
        }
        let (shown, rest) = self.split_processes(PROCESSES);
        let room = (LISTED / shown.len()).max(LISTED_OF_EACH);
        shown.iter().try_for_each(|process| write_process(f, self, process, room))?;
        if !rest.is_empty() {
            let events = rest.iter().map(|process| process.report.events.len()).sum();
            let findings = rest.iter().map(|process| process.findings().count()).sum();
            writeln!(
                f,
                "\nand {} more with {} and {}; `--json` has all",
                processes(rest.len()),
                many(events, "event"),
                many(findings, "finding")
            )?;
        }
        if self.events().count() > HANDFUL {
            table(f, "KERNEL", &groups::kernels(self))?;
            table(f, "LIBRARY THAT CALLED", &groups::libraries(self))?;
            table(f, "FUNCTION THAT CALLED", &groups::callers(self))?;
        }
        if self.processes.len() > 1 {
            write_comparison(f, self)?;
        }
        if let Some(together) = Together::find(&self.processes, &self.run, 1).filter(|_| !self.was_together) {
            write!(f, "\n{together}")?;
        }
        let is_load = |event: &Event| matches!(event.kind, Kind::Load | Kind::Image | Kind::Compile);
        let is_said = self.events().any(|event| event.kind == Kind::Hang && is_preloadable(event));
        if !is_said && self.events().any(|event| is_load(event) && is_late(event)) {
            let is_preloaded = self.processes.iter().any(|process| !process.report.preloaded.is_empty());
            paragraph(f, if is_preloaded { RECORD_MORE } else { RECORD_IT })?;
        }
        Ok(())
    }
}

fn write_process(f: &mut fmt::Formatter<'_>, audit: &Audit, process: &Process, room: usize) -> fmt::Result {
    let report = &process.report;
    let hangs: Vec<_> = process.of_kind(Kind::Hang).collect();
    let ready = match report.ready {
        Some(at) => format!(", ready after {}", Time(at)),
        // The program may have hung before it was ready.
        None if !hangs.is_empty() => String::new(),
        None => ", never said to be ready".to_owned(),
    };
    let end = audit.end_of(process).map(|end| format!(", {end}")).unwrap_or_default();
    writeln!(
        f,
        "\nAUDIT of {}, `{}`: {} launches, {} calls{ready}{end}",
        process.name,
        short(report.known_command()),
        report.launches,
        report.calls
    )?;
    let last = process.last_calls();
    last.iter().take(HANGS).try_for_each(|last| writeln!(f, "  {last}"))?;
    if last.len() > HANGS {
        writeln!(f, "  and in {}; `--json` has all", many(last.len() - HANGS, "more call"))?;
    }
    for event in hangs.iter().take(HANGS) {
        write_hang(f, audit, process, event)?;
    }
    if hangs.len() > HANGS {
        writeln!(f, "! and {}; `--json` has all", many(hangs.len() - HANGS, "more hang"))?;
    }
    for event in process.of_kind(Kind::Fault) {
        write!(f, "! FAULT at {}\n{}", Time(event.begun), fault::lines(process, event, &audit.run))?;
    }
    for cause in causes([report]) {
        paragraph(f, &format!("! {}.", with_signatures(&cause.to_string())))?;
        // A hang has said it.
        let is_said = |remedy: &str| hangs.iter().take(HANGS).any(|its| hang::cure(process, its) == remedy);
        if let Some(remedy) = cause.remedy().filter(|remedy| !is_said(remedy)) {
            paragraph(f, &format!("  Remedy: {remedy}."))?;
        }
    }
    for (kind, one) in [
        (Kind::Load, "kernel loaded"),
        (Kind::Image, "image loaded"),
        (Kind::Compile, "compiled by NVRTC"),
        (Kind::Kept, "given back from an earlier compilation by NVRTC"),
        (Kind::Resize, "limit set"),
        (Kind::Refused, "call refused"),
        (Kind::Deferred, "call deferred"),
        (Kind::Waits, "call that waited"),
        (Kind::Slow, "other call that took long"),
    ] {
        let events: Vec<_> = process.of_kind(kind).collect();
        if events.is_empty() {
            continue;
        }
        let Group { times, total, late, .. } = Group::sum(events.iter().copied());
        write!(f, "  {times} x {one}, {} in all", Time(total))?;
        let resident = events.iter().filter(|event| event.waits_for_resident()).count();
        for (count, when) in [(late, "after it was ready"), (resident, "while a kernel was resident")] {
            if count > 0 {
                write!(f, ", {count} {when}")?;
            }
        }
        writeln!(f)?;
        if kind == Kind::Compile {
            compiled::write(f, &events)?;
        }
    }
    preloaded::write(f, process)?;
    stretches::write(f, process)?;
    for missing in process.missing() {
        writeln!(f, "! {missing}")?;
    }
    let (findings, others): (Vec<_>, Vec<_>) =
        report.events.iter().filter(|event| event.kind != Kind::Hang).partition(|event| event.is_finding);
    // A few events are listed in the order of time. If there are many events, the findings come first.
    if findings.len() + others.len() <= room {
        let mut all = [findings, others].concat();
        all.sort_by_key(|event| event.begun);
        list(f, &all)?;
    } else {
        let of_findings = if others.is_empty() { room } else { room / 2 };
        let of_others = if findings.is_empty() { room } else { room / 4 };
        list_longest(f, &findings, of_findings, "more findings")?;
        list_longest(f, &others, of_others, "more events")?;
    }
    Ok(())
}

/// Explains a hang. If the hang was explained when it happened, only says which it was.
fn write_hang(f: &mut fmt::Formatter<'_>, audit: &Audit, process: &Process, event: &Event) -> fmt::Result {
    let what = if event.is_endless() { "HANG" } else { "WAIT" };
    write!(f, "! {what} at {}, for {}", About(event.begun), About(event.took))?;
    if hang_key(process, event).is_some_and(|key| audit.said.contains(&key)) {
        let place =
            if event.caller.is_empty() { String::new() } else { format!(", in {}", caller(&event.caller)) };
        return writeln!(f, "{place}: explained above");
    }
    write!(f, "\n{}", hang::in_words(process, event, &audit.run))
}

/// Returns a text with the kernels' names in it, which are between backticks, as in C++.
fn with_signatures(text: &str) -> String {
    let parts: Vec<_> = text.split('`').map(readable).collect();
    parts.join("`")
}

/// Lists the longest events in the order of time, and counts the rest.
fn list_longest(f: &mut fmt::Formatter<'_>, events: &[&Event], room: usize, more: &str) -> fmt::Result {
    let mut longest = events.to_vec();
    longest.sort_by(|a, b| b.took.cmp(&a.took).then(a.begun.cmp(&b.begun)));
    let rest = longest.split_off(room.min(longest.len()));
    longest.sort_by_key(|event| event.begun);
    list(f, &longest)?;
    if let Some(next) = rest.first() {
        let took: Time = rest.iter().map(|event| event.took).sum();
        writeln!(
            f,
            "  and {} {more}, none longer than {}, {took} in all; `--json` has all",
            rest.len(),
            Time(next.took)
        )?;
    }
    Ok(())
}

fn list(f: &mut fmt::Formatter<'_>, events: &[&Event]) -> fmt::Result {
    if !events.is_empty() {
        writeln!(f, "  {:>10} {:>10}  {:<9} {:<24} WHAT", "AT", "TOOK", "KIND", "CALL")?;
    }
    for event in events {
        let Event { kind, begun, took, call, is_finding, .. } = event;
        let mark = if *is_finding { '!' } else { ' ' };
        let by = match &*event.caller {
            "" => String::new(),
            by => format!("  by {}", caller(by)),
        };
        let (at, took, kind) = (Time(*begun), Time(*took), kind.as_str());
        writeln!(
            f,
            "{mark} {at:>10} {took:>10}  {kind:<9} {call:<24} {}{}{by}",
            subject(event),
            while_resident(event, "  ")
        )?;
    }
    Ok(())
}

fn table(f: &mut fmt::Formatter<'_>, of: &str, groups: &[Group<'_>]) -> fmt::Result {
    if groups.is_empty() {
        return Ok(());
    }
    writeln!(f, "\n  {:>8} {:>10} {:>10} {:>12}  {of}", "TIMES", "TOTAL", "LONGEST", "AFTER READY")?;
    let (shown, rest) = groups.split_at(LINES.min(groups.len()));
    for Group { name, times, total, longest, late } in shown {
        writeln!(f, "  {times:>8} {:>10} {:>10} {late:>12}  {}", Time(*total), Time(*longest), caller(name))?;
    }
    if !rest.is_empty() {
        let sum = |number: fn(&Group<'_>) -> usize| rest.iter().map(number).sum::<usize>();
        let total: Time = rest.iter().map(|group| group.total).sum();
        let longest = rest.iter().map(|group| group.longest).max().unwrap_or(0);
        let (times, late) = (sum(|group| group.times), sum(|group| group.late));
        writeln!(f, "  {times:>8} {:>10} {:>10} {late:>12}  {} more", total, Time(longest), rest.len())?;
    }
    Ok(())
}

fn write_comparison(f: &mut fmt::Formatter<'_>, audit: &Audit) -> fmt::Result {
    let columns = ["READY AFTER", "LATER BY", "LOADED", "AFTER READY", "TOOK"];
    let line = |cells: [String; 5]| cells.map(|cell| format!("{cell:>12}")).join(" ");
    writeln!(f, "\n  {}  PROCESS", line(columns.map(str::to_owned)))?;
    let first_ready = audit.processes.iter().filter_map(Process::ready_at).min().unwrap_or(0);
    for process in audit.processes.iter().take(LINES) {
        let loads = Group::sum(process.of_kind(Kind::Load));
        let ready = process.report.ready.map_or("never".to_owned(), |at| Time(at).to_string());
        let behind = process.ready_at().map_or(String::new(), |at| Time(at - first_ready).to_string());
        let took = Time(loads.total).to_string();
        let cells = [ready, behind, loads.times.to_string(), loads.late.to_string(), took];
        writeln!(f, "  {}  {}", line(cells), process.name)?;
    }
    if audit.processes.len() > LINES {
        writeln!(f, "  and {} more; `--json` has all", processes(audit.processes.len() - LINES))?;
    }
    let kernels = compare_kernels(audit);
    let differ: Vec<_> =
        kernels.iter().filter(|kernel| kernel.loads.len() > 1 || kernel.late().next().is_some()).collect();
    if differ.is_empty() {
        return Ok(());
    }
    writeln!(
        f,
        "\n  {:>12} {:>10} {:>10}  KERNEL ON SEVERAL PROCESSES",
        "LAST - FIRST", "SHORTEST", "LONGEST"
    )?;
    for kernel in differ.iter().take(LINES) {
        let ((last, behind), (shortest, longest)) = (kernel.last(), kernel.took());
        let (behind, shortest, longest) = (Time(behind), Time(shortest), Time(longest));
        write!(f, "  {behind:>12} {shortest:>10} {longest:>10}  {}", readable(kernel.kernel))?;
        write!(f, ": loaded on {} of {}", kernel.loads.len(), audit.processes.len())?;
        if kernel.loads.len() > 1 {
            write!(f, ", last on {}", last)?;
        }
        match kernel.late().next() {
            Some(_) => writeln!(f, "; after it was ready on {}", comparison::names(kernel.late()))?,
            None => writeln!(f)?,
        }
    }
    if differ.len() > LINES {
        writeln!(f, "  and {} more; `--json` has all", differ.len() - LINES)?;
    }
    Ok(())
}
