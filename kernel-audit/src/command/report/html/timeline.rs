//! Draws timelines as SVG: a lane for each thread and each stream, or for each process.
//!
//! Events that are narrower than a few pixels share a bar with their neighbours, so that a timeline has a bounded
//! number of elements for any number of events.

mod axis;
mod bars;
mod beside;
mod launches;

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};

use self::axis::{NAMES, NARROWEST, Span, WIDTH, x};
use self::bars::{Bar, Look, bars};
use self::beside::Mark;
use crate::command::process::{Audit, Process};
use crate::command::report::page::Text;
use crate::command::report::streams::{self, Launches};
use crate::command::report::words::Time;
use crate::record::{Event, Kind};

/// The most lanes of threads or streams, and of processes. All further threads, streams or processes share one
/// more lane.
const LANES: usize = 16;
const PROCESSES: usize = 64;

/// Lengths in units of the timeline, which are pixels on a wide screen.
const MARGIN: f64 = 10.0;
const TOP: f64 = 40.0;
const LANE: f64 = 26.0;
/// The legend of all timelines: the colours, and the pattern of hangs.
pub(super) const LEGEND: &str = "\
<ul class=\"legend\">
<li><svg aria-hidden=\"true\"><rect class=\"load\" width=\"24\" height=\"16\"/></svg>kernel loaded</li>
<li><svg aria-hidden=\"true\"><rect class=\"compile\" width=\"24\" height=\"16\"/></svg>PTX image loaded, and compiled</li>
<li><svg aria-hidden=\"true\"><rect class=\"image\" width=\"24\" height=\"16\"/></svg>machine code loaded</li>
<li><svg aria-hidden=\"true\"><rect class=\"resize\" width=\"24\" height=\"16\"/></svg>limit set</li>
<li><svg aria-hidden=\"true\"><rect class=\"slow\" x=\"1\" y=\"1\" width=\"22\" height=\"14\"/></svg>other slow call</li>
<li><svg aria-hidden=\"true\"><rect class=\"launch\" y=\"4\" width=\"24\" height=\"12\"/></svg>launches; the higher, the more</li>
<li><svg aria-hidden=\"true\"><path class=\"refused\" d=\"M12 1l9 14h-18z\"/></svg>call refused or deferred</li>
<li><svg aria-hidden=\"true\"><defs><pattern id=\"hatch\" width=\"5\" height=\"5\" patternUnits=\"userSpaceOnUse\" \
patternTransform=\"rotate(45)\"><line class=\"hatching\" x2=\"0\" y2=\"5\"/></pattern></defs>\
<rect class=\"hang\" x=\"1\" y=\"1\" width=\"22\" height=\"14\"/></svg>call that did not return in time</li>
<li><svg aria-hidden=\"true\"><rect class=\"resident\" width=\"24\" height=\"16\"/></svg>kernel that runs while a call hangs</li>
<li><svg aria-hidden=\"true\"><line class=\"ready\" x1=\"12\" x2=\"12\" y2=\"16\"/></svg>the program was ready</li>
</ul>
<p class=\"faint\">Point at a bar for details. Bars too narrow to be seen alone are drawn as one.</p>
";

/// A row of the timeline.
#[derive(Default)]
struct Lane<'a> {
    name: String,
    events: Vec<Span<'a>>,
    /// The launches, if the lane is a stream.
    launches: Vec<Launches<'a>>,
    /// What stands beside hangs.
    marks: Vec<Mark>,
    /// When the process was ready, if the lane is a process.
    ready: Option<u64>,
}

impl Lane<'_> {
    fn count(&self) -> usize {
        self.events.len() + self.launches.len() + self.marks.len()
    }
}

/// Draws the timeline of a process: its threads and streams.
pub(super) fn draw_process(process: &Process) -> String {
    let report = &process.report;
    let end = end(process);
    let mut beside = beside::beside(process);
    let mut threads = BTreeMap::<u32, Lane<'_>>::new();
    for event in drawn(process) {
        threads.entry(event.thread).or_default().events.push(Span::new(event, 0));
    }
    for (thread, marks) in beside.threads {
        threads.entry(thread).or_default().marks = marks;
    }
    let named = |(thread, lane)| Lane { name: format!("thread {thread}"), ..lane };
    let mut lanes = bounded(threads.into_iter().map(named).collect(), LANES, "threads");
    let mut of_streams = BTreeMap::<u64, Lane<'_>>::new();
    for (stream, launches) in streams::launches(process) {
        let marks = beside.streams.remove(&stream).unwrap_or_default();
        of_streams.insert(stream, Lane { launches, marks, ..Lane::default() });
    }
    for hang in process.of_kind(Kind::Hang).filter(|hang| hang.stream > 0) {
        of_streams.entry(hang.stream).or_default().events.push(Span::new(hang, 0));
    }
    let named = |(stream, lane)| Lane { name: streams::name(stream), ..lane };
    lanes.extend(bounded(of_streams.into_iter().map(named).collect(), LANES, "streams"));
    draw(&format!("Timeline of {}", process.name), &lanes, end, report.ready)
}

/// Draws the timeline of all processes, a lane for each.
pub(super) fn draw_processes<'a>(audit: &'a Audit) -> String {
    let end = audit.processes.iter().map(|process| process.on_axis(end(process))).max().unwrap_or(0);
    let lane = |process: &'a Process| Lane {
        name: process.name.clone(),
        events: drawn(process).map(|event| Span::new(event, process.offset)).collect(),
        ready: process.ready_at(),
        ..Lane::default()
    };
    let lanes = bounded(audit.processes.iter().map(lane).collect(), PROCESSES, "processes");
    draw("Timeline of all processes", &lanes, end, None)
}

fn drawn(process: &Process) -> impl Iterator<Item = &Event> {
    process.report.events.iter().filter(|event| event.kind != Kind::Unwatched)
}

/// Returns the time of the last event, sample or ready mark of a process.
fn end(process: &Process) -> u64 {
    let events = process.report.events.iter().map(|event| event.begun.saturating_add(event.took));
    let samples = process.report.activity.iter().map(|sample| sample.at);
    events.chain(samples).chain(process.report.ready).max().unwrap_or(0)
}

/// Returns the `room` lanes with the most events, in their order, and one lane for the rest of the lanes.
fn bounded<'a>(lanes: Vec<Lane<'a>>, room: usize, of: &str) -> Vec<Lane<'a>> {
    if lanes.len() <= room {
        return lanes;
    }
    let mut counts: Vec<_> = lanes.iter().map(Lane::count).collect();
    counts.sort_unstable_by(|a, b| b.cmp(a));
    let least = counts[room - 1];
    let mut ties = room - counts.iter().filter(|count| **count > least).count();
    let (mut own, others): (Vec<_>, Vec<_>) = lanes.into_iter().partition(|lane| {
        let is_tie = lane.count() == least && ties > 0;
        ties -= usize::from(is_tie);
        lane.count() > least || is_tie
    });
    let name = format!("{} other {of}", others.len());
    let mut shared = Lane { name, ..Lane::default() };
    for lane in others {
        shared.events.extend(lane.events);
        shared.launches.extend(lane.launches);
        shared.marks.extend(lane.marks);
    }
    shared.launches.sort_by_key(|launches| launches.from);
    own.push(shared);
    own
}

fn draw(label: &str, lanes: &[Lane<'_>], end: u64, ready: Option<u64>) -> String {
    let mut svg = String::new();
    // Writing to a `String` does not fail.
    let _ = write_svg(&mut svg, label, lanes, end.max(1), ready);
    svg
}

fn write_svg(svg: &mut String, label: &str, lanes: &[Lane<'_>], end: u64, ready: Option<u64>) -> fmt::Result {
    let bottom = TOP + LANE * lanes.len() as f64;
    let (width, height) = (NAMES + WIDTH + 4.0 * MARGIN, bottom + MARGIN);
    let label = Text(label);
    writeln!(
        svg,
        "<div class=\"wide\" tabindex=\"0\" role=\"region\" aria-label=\"{label}\">\n\
         <svg class=\"timeline\" viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"{label}\">"
    )?;
    if let Some(ready) = ready {
        let x = x(ready, end);
        writeln!(
            svg,
            "<rect class=\"after\" x=\"{x:.1}\" y=\"{TOP}\" width=\"{:.1}\" height=\"{:.1}\"/>",
            NAMES + WIDTH - x,
            bottom - TOP
        )?;
    }
    write_axis(svg, end, bottom)?;
    for (index, lane) in lanes.iter().enumerate() {
        write_lane(svg, lane, TOP + LANE * index as f64, end)?;
    }
    if let Some(ready) = ready {
        let x = x(ready, end);
        // The text does not reach beyond the right end.
        let (at, anchor) = if x > NAMES + WIDTH / 2.0 { (x - 4.0, "end") } else { (x + 4.0, "start") };
        writeln!(
            svg,
            "<line class=\"ready\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"4\" y2=\"{bottom}\"/>\n\
             <text class=\"says\" x=\"{at:.1}\" y=\"14\" text-anchor=\"{anchor}\">ready after {}</text>",
            Time(ready)
        )?;
    }
    writeln!(svg, "</svg>\n</div>")
}

/// Writes lines at round times.
fn write_axis(svg: &mut String, end: u64, bottom: f64) -> fmt::Result {
    let (unit, name) = match end {
        0..10_000 => (1e3, "us"),
        10_000..10_000_000_000 => (1e6, "ms"),
        _ => (1e9, "s"),
    };
    let whole = end as f64 / unit;
    let power = 10_f64.powf((whole / 8.0).log10().floor());
    let step =
        [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power).into_iter().find(|step| whole / step <= 8.0);
    let step = step.unwrap_or(whole);
    for tick in 0.. {
        let value = tick as f64 * step;
        if value > whole {
            break;
        }
        let x = NAMES + value / whole * WIDTH;
        // Removes the rounding errors of the product.
        let value = (value * 1e6).round() / 1e6;
        writeln!(
            svg,
            "<line class=\"grid\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{}\" y2=\"{bottom}\"/>\
             <text class=\"tick\" x=\"{x:.1}\" y=\"{}\" text-anchor=\"middle\">{value} {name}</text>",
            TOP - 4.0,
            TOP - 8.0
        )?;
    }
    Ok(())
}

fn write_lane(svg: &mut String, lane: &Lane<'_>, top: f64, end: u64) -> fmt::Result {
    let line = top + LANE;
    writeln!(
        svg,
        "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>\
         <line class=\"grid\" x1=\"0\" x2=\"{}\" y1=\"{line}\" y2=\"{line}\"/>",
        NAMES - MARGIN,
        line - 8.0,
        Text(&lane.name),
        NAMES + WIDTH
    )?;
    for Mark { from, to, class, title } in &lane.marks {
        let (from, to) = (x(*from, end), x(*to, end));
        writeln!(
            svg,
            "<rect class=\"{class}\" x=\"{from:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\"><title>{}</title></rect>",
            top + 1.0,
            (to - from).max(NARROWEST),
            LANE - 2.0,
            Text(title)
        )?;
    }
    for bar in bars(&lane.events, end) {
        write_bar(svg, &bar, top)?;
    }
    let launches = launches::bars(&lane.launches, end);
    let most = launches.iter().map(launches::Bar::rate).fold(0.0, f64::max);
    for bar in launches {
        let height = 3.0 + (LANE - 8.0) * bar.rate() / most;
        writeln!(
            svg,
            "<rect class=\"launch\" x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{height:.1}\"><title>{}</title></rect>",
            bar.from,
            line - height,
            bar.to - bar.from,
            Text(bar.title())
        )?;
    }
    if let Some(ready) = lane.ready {
        let x = x(ready, end);
        writeln!(
            svg,
            "<line class=\"ready\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{top}\" y2=\"{line}\"><title>{} was ready after {}</title></line>",
            Text(&lane.name),
            Time(ready)
        )?;
    }
    Ok(())
}

fn write_bar(svg: &mut String, bar: &Bar<'_>, top: f64) -> fmt::Result {
    let (class, title) = (bar.look.class(), Text(bar.title()));
    let (x, width) = (bar.from, bar.to - bar.from);
    match bar.look {
        Look::Refused => {
            let (x, y) = (x + width / 2.0, top + 5.0);
            writeln!(svg, "<path class=\"{class}\" d=\"M{x:.1} {y}l8 16h-16z\"><title>{title}</title></path>")
        }
        look => {
            let (inset, height) = if look == Look::Hang { (1.0, LANE - 2.0) } else { (6.0, LANE - 12.0) };
            let y = top + inset;
            writeln!(
                svg,
                "<rect class=\"{class}\" x=\"{x:.1}\" y=\"{y}\" width=\"{width:.1}\" height=\"{height}\"><title>{title}</title></rect>"
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use crate::record::Report;

    use super::*;
    use crate::command::process::with_names;

    #[test]
    fn many_hangs_take_little_time() {
        let hang = |number: u64| {
            let mut event = Event::default();
            (event.kind, event.thread, event.begun, event.took) = (Kind::Hang, 1, number, 10);
            event
        };
        let mut report = Report::default();
        report.events = (0..200_000).map(hang).collect();
        let start = Instant::now();
        let page = draw_process(&with_names(vec![report])[0]);
        assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
        assert!(page.contains("200000 calls that did not return in time"), "{page}");
    }
}
