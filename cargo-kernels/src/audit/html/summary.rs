//! The beginning of the page, for readers who do not know how CUDA loads kernels.

use std::fmt::{self, Write as _};

use kernel_registry_audit::record::{Happened, Kind, PTX, Report};

use super::code;
use crate::audit::groups;
use crate::audit::process::{Audit, is_beside, is_late};
use crate::audit::words::{NOTHING_SEEN, Readable, Time, many, processes, short};
use crate::page::Text;

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
        to.write_str(
            "<p>A GPU program does not load all of its code when it starts: CUDA loads a kernel, which is a function that runs \
             on the GPU, when it is first used, and compiles some first. That takes milliseconds, sometimes seconds, of \
             whatever the program is doing then. And CUDA loads only when nothing runs on the GPU: if what \
             runs there waits for the very program that loads, both wait forever.</p>\n",
        )?;
        write_facts(to, audit)?;
        write_advice(to, audit)?;
    }
    for why in &audit.left_out {
        writeln!(to, "<p class=\"bad\">{}.</p>", Text(why))?;
    }
    Ok(())
}

/// The result in one sentence for each kind.
fn write_verdict(to: &mut String, audit: &Audit) -> fmt::Result {
    let of = |kind| audit.events().filter(move |event| event.kind == kind);
    let late = || audit.events().filter(|event| is_late(event));
    let beside = audit.events().filter(|event| is_beside(event)).count();
    let (hangs, refused) =
        (of(Kind::Hang).count(), late().filter(|event| event.kind == Kind::Refused).count());
    if hangs > 0 {
        let call = if hangs == 1 { "1 call to the driver" } else { &format!("{hangs} calls to the driver") };
        writeln!(
            to,
            "<p class=\"bad\">The program hung: {call} did not return in time. Why is explained below.</p>"
        )?;
    }
    if beside > 0 {
        let calls = if beside == 1 { "1 finding is a call" } else { &format!("{beside} findings are calls") };
        writeln!(
            to,
            "<p class=\"bad\">{calls} that would have waited for a kernel that stayed on the GPU.</p>"
        )?;
    }
    match late().count() {
        0 if audit.processes.iter().all(|process| process.report.ready.is_none()) => writeln!(
            to,
            "<p><strong>The program never said that it was ready, so nothing counts as late.</strong></p>"
        )?,
        0 => writeln!(to, "<p class=\"good\">Nothing was loaded after the program was ready.</p>")?,
        refused_only if refused_only == refused => {
            writeln!(
                to,
                "<p class=\"bad\">After the program was ready, {} that load or resize something were refused.</p>",
                many(refused, "call")
            )?;
        }
        count => {
            let took: Time = late().map(|event| event.took).sum();
            writeln!(
                to,
                "<p class=\"bad\">{} came late, after the program was ready, and cost {took}.</p>",
                many(count, "call")
            )?;
        }
    }
    Ok(())
}

/// Counts the loaded kernels and images, those that were late, and their time.
fn write_facts(to: &mut String, audit: &Audit) -> fmt::Result {
    writeln!(to, "<ul>")?;
    let count = |number: fn(&Report) -> u64| {
        audit.processes.iter().map(|process| number(&process.report)).fold(0, u64::saturating_add)
    };
    let (launches, calls) = (count(|report| report.launches), count(|report| report.calls));
    let of = processes(audit.processes.len());
    writeln!(
        to,
        "<li>{of} made {calls} calls that were watched, {launches} of them launches of kernels.</li>"
    )?;
    let is_ptx = |event: &&Happened| event.subject == PTX;
    let of = |kind| audit.events().filter(move |event| event.kind == kind);
    let facts: [(Vec<&Happened>, &str, &str); 8] = [
        (of(Kind::Load).collect(), "kernel was loaded", "kernels were loaded"),
        (
            of(Kind::Image).filter(is_ptx).collect(),
            "image of PTX was loaded, which the driver compiles",
            "images of PTX were loaded, which the driver compiles",
        ),
        (
            of(Kind::Image).filter(|event| !is_ptx(event)).collect(),
            "image of machine code was loaded",
            "images of machine code were loaded",
        ),
        (of(Kind::Resize).collect(), "limit of the GPU was set", "limits of the GPU were set"),
        (of(Kind::Refused).collect(), "call was refused", "calls were refused"),
        (of(Kind::Deferred).collect(), "call was put off", "calls were put off"),
        (
            of(Kind::Waits).collect(),
            "call waited for a kernel that stayed",
            "calls waited for a kernel that stayed",
        ),
        (of(Kind::Slow).collect(), "other call took long", "other calls took long"),
    ];
    for (events, one, several) in facts {
        let Some(longest) = events.iter().max_by_key(|event| event.took) else { continue };
        let total: Time = events.iter().map(|event| event.took).sum();
        let late = events.iter().filter(|event| is_late(event)).count();
        write!(to, "<li>{} {}", events.len(), if events.len() == 1 { one } else { several })?;
        match late {
            0 => {}
            1 if events.len() == 1 => write!(to, " <strong>after the program was ready</strong>")?,
            all if all == events.len() => {
                write!(to, ", <strong>all of them after the program was ready</strong>")?
            }
            late => write!(to, ", <strong>{late} of them after the program was ready</strong>")?,
        }
        if longest.took > 0 {
            write!(to, ": {total} in all, the longest {}", Time(longest.took))?;
            if longest.kind == Kind::Load {
                let name = Readable(&longest.subject).to_string();
                write!(to, " (<code>{}</code>)", Text(short(&name)))?;
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

fn write_advice(to: &mut String, audit: &Audit) -> fmt::Result {
    // The explanation of a hang has its own.
    let findings = audit.processes.iter().flat_map(|process| process.findings());
    let remedies = groups::remedies(findings.filter(|event| event.kind != Kind::Hang));
    let is_ready = audit.processes.iter().any(|process| process.report.ready.is_some());
    if remedies.is_empty() && is_ready {
        return Ok(());
    }
    writeln!(to, "<h3>What to do</h3>\n<ul>")?;
    for (remedy, count) in remedies {
        let first = remedy.chars().next().map(|first| first.to_uppercase().to_string()).unwrap_or_default();
        let rest: String = remedy.chars().skip(1).collect();
        writeln!(
            to,
            "<li>{}{} <span class=\"faint\">({})</span></li>",
            Text(first),
            code(&rest),
            many(count, "finding")
        )?;
    }
    if !is_ready {
        writeln!(
            to,
            "<li>Let the program say when it is ready to work, by calling <code>kernel_registry_audit_ready()</code>, or give a \
             time with <code>--ready-after</code>: then whatever loads later is reported here as late.</li>"
        )?;
    }
    writeln!(to, "</ul>")
}
