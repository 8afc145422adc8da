//! Writes the beginning of the page, for readers who do not know how CUDA loads kernels.

use std::collections::HashSet;
use std::fmt::{self, Write as _};

use super::lines::{code, write_lines};
use crate::Cause;
use crate::causes::is_preloadable;
use crate::command::process::{Audit, Process, is_late};
use crate::command::report::groups::Group;
use crate::command::report::page::Text;
use crate::command::report::stretches::{self, Headline};
use crate::command::report::words::{About, NOTHING_SEEN, Time, processes, short, subject};
use crate::command::report::{fault, hang};
use crate::record::{Event, Kind, Report};
use crate::rules;
use kernel_registry_command::many;

/// The most causes that the summary names.
const CAUSES: usize = 3;

pub(super) fn html(audit: &Audit) -> String {
    let mut summary = String::new();
    // Writing to a `String` does not fail.
    let _ = write(&mut summary, audit);
    summary
}

fn write(to: &mut String, audit: &Audit) -> fmt::Result {
    if audit.processes.is_empty() {
        writeln!(to, "<p class=\"bad\">There is no result: {NOTHING_SEEN}.</p>")?;
    } else {
        write_verdict(to, audit)?;
        write_facts(to, audit)?;
        to.write_str(
            "<p>A GPU program does not load all of its code when it starts: CUDA loads a kernel, which is a function that runs \
             on the GPU, when it is first used, and compiles some first. That takes milliseconds, sometimes seconds, of \
             whatever the program is doing then. And CUDA loads only when nothing runs on the GPU: if what \
             runs there waits for the very program that loads, both wait forever.</p>\n",
        )?;
    }
    for why in &audit.left_out {
        writeln!(to, "<p class=\"bad\">{}.</p>", Text(why))?;
    }
    Ok(())
}

/// Returns the hangs. The summary explains the first.
pub(super) fn hangs(audit: &Audit) -> Vec<(&Process, &Event)> {
    let all = audit.of_processes(|report| &report.events);
    let mut hangs: Vec<_> = all.filter(|(_, event)| event.kind == Kind::Hang).collect();
    // A call that a preload prevents keeps the others waiting.
    hangs.sort_by_key(|(_, hang)| (hang.has_returned, !is_preloadable(hang)));
    hangs
}

/// Writes what is wrong, and what to do, in two sentences for each cause: hangs, calls that were refused, and then what
/// took the longest, also stretches.
fn write_verdict(to: &mut String, audit: &Audit) -> fmt::Result {
    let hangs = hangs(audit);
    if let [(process, hang), others @ ..] = &*hangs {
        let did = if hang.is_endless() { "hung" } else { "waited" };
        writeln!(to, "<p class=\"bad\">The program {did} for {}.</p>", About(hang.took))?;
        write_lines(to, &hang::lines(process, hang, &audit.run))?;
        let endless = others.iter().filter(|(_, other)| other.is_endless()).count();
        for (count, did) in
            [(endless, "did not return either"), (others.len() - endless, "waited long, and then returned")]
        {
            if count > 0 {
                writeln!(to, "<p class=\"bad\">{} {did}.</p>", many(count, "more call"))?;
            }
        }
    }
    for process in &audit.processes {
        for event in process.of_kind(Kind::Fault) {
            let (of, after) = (Text(&process.name), Time(event.begun));
            writeln!(
                to,
                "<p class=\"bad\">A kernel or a device failed {after} after the first call of {of}.</p>"
            )?;
            write_lines(to, &fault::lines(process, event, &audit.run))?;
        }
    }
    let mut said: HashSet<String> = hangs.iter().map(|(process, hang)| hang::cure(process, hang)).collect();
    let causes = audit.causes();
    let mut stretches = stretches::headlines(audit).into_iter().peekable();
    for cause in causes.iter().take(CAUSES) {
        let is_longer = |stretch: &Headline| cause.weight().is_some_and(|took| stretch.weight > took);
        while let Some(stretch) = stretches.next_if(is_longer) {
            to.write_str(&stretch.html)?;
        }
        writeln!(to, "<p class=\"bad\">{}.</p>", code(&cause.to_string()))?;
        if let Some(remedy) = cause.remedy().filter(|remedy| said.insert((*remedy).to_owned())) {
            what_to_do(to, remedy)?;
        }
    }
    if causes.len() > CAUSES {
        let findings: usize = causes[CAUSES..].iter().map(Cause::count).sum();
        writeln!(
            to,
            "<p class=\"bad\">{} have other causes; see below.</p>",
            many(findings, "more finding")
        )?;
    }
    stretches.try_for_each(|stretch| to.write_str(&stretch.html))?;
    if audit.processes.iter().all(|process| process.report.ready.is_none()) {
        // A program that hangs needs other help first.
        if !hangs.is_empty() {
            return Ok(());
        }
        writeln!(
            to,
            "<p><strong>The program never said that it was ready, so nothing counts as late.</strong> Let it call \
             <code>kernel_registry_audit_ready()</code> when it is ready to work, or give a time with <code>--ready-after</code>.</p>"
        )?;
    } else if hangs.is_empty() && !audit.events().any(is_late) {
        writeln!(to, "<p class=\"good\">Nothing was loaded after the program was ready.</p>")?;
    }
    Ok(())
}

fn what_to_do(to: &mut String, remedy: &str) -> fmt::Result {
    writeln!(to, "<p><strong>What to do:</strong> {}.</p>", code(remedy))
}

/// Writes the numbers of loaded kernels and images, how many were late, and how long they took.
fn write_facts(to: &mut String, audit: &Audit) -> fmt::Result {
    writeln!(to, "<ul>")?;
    let count = |number: fn(&Report) -> u64| {
        audit.processes.iter().map(|process| number(&process.report)).fold(0, u64::saturating_add)
    };
    let (launches, calls) = (count(|report| report.launches), count(|report| report.calls));
    let made_by = processes(audit.processes.len());
    writeln!(
        to,
        "<li>{made_by} made {calls} calls that were watched, {launches} of them launches of kernels.</li>"
    )?;
    let is_ptx = |event: &&Event| event.subject.image().is_some_and(|image| image.format.is_compiled());
    let of_kind = |kind| audit.events().filter(move |event| event.kind == kind);
    let facts: [(Vec<&Event>, &str, &str); 10] = [
        (of_kind(Kind::Load).collect(), "kernel was loaded", "kernels were loaded"),
        (
            of_kind(Kind::Image).filter(is_ptx).collect(),
            "image of PTX was loaded, which the driver compiles",
            "images of PTX were loaded, which the driver compiles",
        ),
        (
            of_kind(Kind::Image).filter(|event| !is_ptx(event)).collect(),
            "image of machine code was loaded",
            "images of machine code were loaded",
        ),
        (
            of_kind(Kind::Compile).collect(),
            "program was compiled by NVRTC",
            "programs were compiled by NVRTC",
        ),
        (
            of_kind(Kind::Kept).collect(),
            "result of NVRTC was given back, and not compiled again",
            "results of NVRTC were given back, and not compiled again",
        ),
        (of_kind(Kind::Resize).collect(), "limit of the GPU was set", "limits of the GPU were set"),
        (of_kind(Kind::Refused).collect(), "call was refused", "calls were refused"),
        (of_kind(Kind::Deferred).collect(), "call was deferred", "calls were deferred"),
        (
            of_kind(Kind::Waits).collect(),
            "call waited for a resident kernel",
            "calls waited for a resident kernel",
        ),
        (of_kind(Kind::Slow).collect(), "other call took long", "other calls took long"),
    ];
    for (events, one, several) in facts {
        let Some(longest) = events.iter().max_by_key(|event| event.took) else { continue };
        let Group { times, total, late, .. } = Group::sum(events.iter().copied());
        write!(to, "<li>{times} {}", if times == 1 { one } else { several })?;
        match late {
            0 => {}
            1 if times == 1 => write!(to, " <strong>after the program was ready</strong>")?,
            all if all == times => write!(to, ", <strong>all of them after the program was ready</strong>")?,
            late => write!(to, ", <strong>{late} of them after the program was ready</strong>")?,
        }
        if longest.took > 0 {
            write!(to, ": {} in all, the longest {}", Time(total), Time(longest.took))?;
            if longest.kind == Kind::Load {
                write!(to, " (<code>{}</code>)", Text(short(&subject(longest))))?;
            }
            if longest.kind == Kind::Slow && longest.waits_for_resident() {
                let because = rules::named(&longest.rule).map_or("it waits", |rule| rule.because);
                let why = format!(" (`{}` while `{}` ran: {because})", longest.call, longest.resident);
                to.write_str(&code(&why))?;
            }
        }
        writeln!(to, ".</li>")?;
    }
    for process in &audit.processes {
        for missing in process.missing() {
            writeln!(to, "<li class=\"bad\">{}: {}.</li>", Text(&process.name), code(&missing))?;
        }
    }
    writeln!(to, "</ul>")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::process::with_names;
    use crate::record::{Report, Spending, Spent, Stretch};

    fn spent(what: Spending, took: u64, function: &str) -> Spent {
        let mut spent = Spent::default();
        (spent.what, spent.took, spent.function) = (what, took, function.into());
        spent
    }

    #[test]
    fn headlines_come_in_the_order_of_their_weight() {
        const MS: u64 = 1_000_000;
        let finding = |kind, call: &str, took| {
            let mut event = Event::default();
            (event.kind, event.call, event.took, event.is_finding) = (kind, call.into(), took, true);
            event
        };
        let stretch = |name: &str, took, spent| {
            let mut stretch = Stretch::default();
            (stretch.name, stretch.took, stretch.spent) = (name.into(), took, spent);
            stretch
        };
        let mut report = Report::default();
        report.ready = Some(1);
        report.events = vec![
            finding(Kind::Load, "cuShort", MS * 6 / 10),
            finding(Kind::Compile, "nvrtcLong", 900 * MS),
            finding(Kind::Refused, "cuRefused", 0),
            finding(Kind::Hang, "cuHung", 1),
            finding(Kind::Fault, "cuFailed", 0),
        ];
        report.stretches = vec![
            stretch("asleep", 5000 * MS, vec![spent(Spending::Idle, 5000 * MS, "")]),
            stretch("<first>", 521 * MS, vec![spent(Spending::Loading, 480 * MS, "cuModuleLoadData")]),
        ];
        let audit = Audit { processes: with_names(vec![report]), ..Audit::default() };
        let html = html(&audit);
        let order = [
            "The program hung",
            "<code>cuFailed</code>, the first watched call",
            "cuRefused",
            "nvrtcLong",
            "<code>&lt;first&gt;</code> took 521.0 ms, most of it here:",
            "<li>480.0 ms loading: cuModuleLoadData</li>",
            "cuShort",
        ];
        let places: Vec<_> = order.iter().map(|part| html.find(part)).collect();
        assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{places:?}: {html}");
        assert!(!html.contains("asleep"), "nothing was done there: {html}");
    }
}
