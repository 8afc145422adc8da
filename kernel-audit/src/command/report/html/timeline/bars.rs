//! Makes the bars of a lane: one for each event that can be seen alone, and one for several events that are too narrow.

use std::collections::BTreeMap;

use super::axis::{NARROWEST, Span, x};
use crate::command::process::is_late;
use crate::command::report::words::{Time, short, subject, while_resident};
use crate::record::{Event, Kind};

/// How an event is drawn. Later variants are drawn over earlier variants.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Look {
    Hang,
    Slow,
    Compile,
    Image,
    Resize,
    Load,
    Refused,
}

impl Look {
    fn for_event(event: &Event) -> Look {
        match event.kind {
            Kind::Load => Look::Load,
            Kind::Compile => Look::Compile,
            Kind::Image if event.subject.image().is_some_and(|image| image.format.is_compiled()) => {
                Look::Compile
            }
            Kind::Image => Look::Image,
            Kind::Resize => Look::Resize,
            Kind::Hang | Kind::Fault => Look::Hang,
            Kind::Refused | Kind::Deferred => Look::Refused,
            Kind::Slow
            | Kind::Unwatched
            | Kind::Waits
            | Kind::Preload
            | Kind::Kept
            | Kind::Stretch
            | Kind::Spent => Look::Slow,
        }
    }

    /// Returns the class in `audit.css`, and the words for several such events.
    fn words(self) -> (&'static str, &'static str) {
        match self {
            Look::Load => ("load", "kernels loaded"),
            Look::Compile => ("compile", "programs or PTX images compiled"),
            Look::Image => ("image", "images loaded"),
            Look::Resize => ("resize", "limits set"),
            Look::Slow => ("slow", "slow calls"),
            Look::Refused => ("refused", "calls refused or deferred"),
            Look::Hang => ("hang", "calls that did not return in time, or failed by a fault"),
        }
    }

    pub(super) fn class(self) -> &'static str {
        self.words().0
    }
}

/// One event or several, drawn as one bar.
pub(super) struct Bar<'a> {
    pub(super) look: Look,
    /// The left end in units of the timeline; `to` is the right end.
    pub(super) from: f64,
    pub(super) to: f64,
    count: usize,
    /// The time of all events, in nanoseconds.
    total: u64,
    longest: Span<'a>,
    first: u64,
}

impl Bar<'_> {
    /// Returns the text that appears when somebody points at the bar.
    pub(super) fn title(&self) -> String {
        let Event { call, caller, .. } = self.longest.event;
        let took = |span: &Span<'_>| Time(span.to - span.from);
        let name = short(&subject(self.longest.event));
        let what = if name.is_empty() { call.to_string() } else { format!("{name} ({call})") };
        let late = match self.longest.event {
            event if is_late(event) => ", after the program was ready".to_owned(),
            event => while_resident(event, ", "),
        };
        let longest = took(&self.longest);
        if self.count > 1 {
            let (count, several, first, total) =
                (self.count, self.look.words().1, Time(self.first), Time(self.total));
            return format!(
                "{count} {several} from {first}, {total} in all{late}; the longest: {what}, {longest}"
            );
        }
        let by = if caller.is_empty() { String::new() } else { format!(", by {}", short(caller)) };
        format!("{what}: at {}, took {longest}{by}{late}", Time(self.first))
    }
}

/// Returns the bars of events: for each look, at most one bar per few pixels.
pub(super) fn bars<'a>(spans: &[Span<'a>], end: u64) -> Vec<Bar<'a>> {
    let mut by_look = BTreeMap::<Look, Vec<Span<'_>>>::new();
    for span in spans {
        by_look.entry(Look::for_event(span.event)).or_default().push(*span);
    }
    let mut bars = Vec::<Bar<'_>>::new();
    for (look, mut spans) in by_look {
        spans.sort_by_key(|span| span.from);
        for span in spans {
            let (from, to) = (x(span.from, end), x(span.to, end));
            let took = span.to - span.from;
            // Only events that overlap a bar join it, and a bar covers at least a few pixels.
            if let Some(bar) = bars.last_mut().filter(|bar| bar.look == look && from < bar.to) {
                bar.to = bar.to.max(to);
                bar.count += 1;
                bar.total = bar.total.saturating_add(took);
                if took > bar.longest.to - bar.longest.from {
                    bar.longest = span;
                }
            } else {
                let to = to.max(from + NARROWEST);
                bars.push(Bar { look, from, to, count: 1, total: took, longest: span, first: span.from });
            }
        }
    }
    bars
}
