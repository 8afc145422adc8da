//! The report for people.

use std::fmt;

use kernel_registry_audit::record::{Happened, Kind, Report};

/// All processes of a program.
pub(super) struct Audit<'a>(pub(super) &'a [Report]);

impl fmt::Display for Audit<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return writeln!(
                f,
                "AUDIT: no call to the driver was seen, because the program made none, or opened the driver by its whole path"
            );
        }
        self.0.iter().try_for_each(|report| process(f, report))
    }
}

fn process(f: &mut fmt::Formatter<'_>, report: &Report) -> fmt::Result {
    let Report { process, command, ready, launches, calls, ended, events, dropped, .. } = report;
    let end = if *ended { "" } else { ", killed or still running" };
    let ready = match ready {
        Some(at) => format!("ready after {}", Time(*at)),
        None => "never said to be ready".to_owned(),
    };
    writeln!(
        f,
        "\nAUDIT of process {process}, `{command}`: {launches} launches, {calls} calls, {ready}{end}"
    )?;
    let count = |kind| events.iter().filter(move |event| event.kind == kind);
    for (kind, one) in
        [(Kind::Load, "kernel loaded"), (Kind::Image, "image loaded"), (Kind::Resize, "limit set")]
    {
        let took = count(kind).map(|event| event.took).sum();
        let number = count(kind).count();
        if number > 0 {
            writeln!(f, "  {number} x {one}, {} in all", Time(took))?;
        }
    }
    if *dropped > 0 {
        writeln!(f, "  {dropped} further events found no room in the record")?;
    }
    let listed = || events.iter().filter(|event| event.kind != Kind::Hang);
    if listed().next().is_some() {
        writeln!(f, "  {:>10} {:>10}  {:<9} {:<30} WHAT", "AT", "TOOK", "KIND", "CALL")?;
    }
    for event in listed() {
        let Happened { kind, begun, took, call, subject, caller, is_finding, .. } = event;
        let mark = if *is_finding { '!' } else { ' ' };
        let by = if caller.is_empty() { String::new() } else { format!("  by {caller}") };
        writeln!(
            f,
            "{mark} {:>10} {:>10}  {:<9} {call:<30} {subject}{by}",
            Time(*begun).to_string(),
            Time(*took).to_string(),
            kind.as_str()
        )?;
    }
    for event in count(Kind::Hang) {
        writeln!(f, "! HANG at {}: {}", Time(event.begun), event.text)?;
    }
    Ok(())
}

/// Nanoseconds as people read them.
struct Time(u64);

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            nanoseconds @ 0..1_000_000 => write!(f, "{:.1} us", nanoseconds as f64 / 1e3),
            nanoseconds @ 1_000_000..1_000_000_000 => write!(f, "{:.1} ms", nanoseconds as f64 / 1e6),
            nanoseconds => write!(f, "{:.2} s", nanoseconds as f64 / 1e9),
        }
    }
}
