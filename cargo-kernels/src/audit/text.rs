//! The report for people.

use std::fmt;

use kernel_registry_audit::record::{Happened, Kind, Report};
use kernel_registry_image::Signature;

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
    let others: Vec<_> = events.iter().filter(|event| event.kind != Kind::Hang).collect();
    let (listed, left_out) = longest(&others);
    if !listed.is_empty() {
        writeln!(f, "  {:>10} {:>10}  {:<9} {:<24} WHAT", "AT", "TOOK", "KIND", "CALL")?;
    }
    for Happened { kind, begun, took, call, subject, caller, is_finding, .. } in listed {
        let mark = if *is_finding { '!' } else { ' ' };
        let by = if caller.is_empty() { String::new() } else { format!("  by {caller}") };
        let (at, took) = (Time(*begun).to_string(), Time(*took).to_string());
        writeln!(f, "{mark} {at:>10} {took:>10}  {:<9} {call:<24} {}{by}", kind.as_str(), Readable(subject))?;
    }
    if left_out > 0 {
        writeln!(f, "  and {left_out} more, each shorter than these; `--json` lists all")?;
    }
    for event in count(Kind::Hang) {
        writeln!(f, "! HANG at {}: {}", Time(event.begun), event.text)?;
    }
    Ok(())
}

/// How many events are listed, besides findings.
const LISTED: usize = 40;

/// All findings and the longest of the others, in the order of time, and how many there are besides.
fn longest<'a>(events: &[&'a Happened]) -> (Vec<&'a Happened>, usize) {
    let mut sorted: Vec<_> =
        events.iter().filter(|event| !event.is_finding).map(|event| event.took).collect();
    sorted.sort_unstable_by(|a, b| b.cmp(a));
    let shortest = sorted.get(LISTED - 1).copied().unwrap_or(0);
    let mut room = LISTED;
    let mut fits = |event: &&&Happened| {
        let fits = event.is_finding || event.took >= shortest && room > 0;
        room -= usize::from(fits && !event.is_finding);
        fits
    };
    let mut listed: Vec<_> = events.iter().filter(|event| fits(event)).copied().collect();
    let left_out = events.len() - listed.len();
    listed.sort_by_key(|event| event.begun);
    (listed, left_out)
}

/// A kernel's name as in C++, and other texts as they are.
struct Readable<'a>(&'a str);

impl fmt::Display for Readable<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match Signature::of(self.0) {
            Some(signature) => write!(f, "{signature}"),
            None => f.write_str(self.0),
        }
    }
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
