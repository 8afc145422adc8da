//! Where events end on a timeline.

use std::collections::{HashMap, HashSet};

use kernel_registry_audit::record::{Event, Kind};

use super::Span;
use crate::audit::process::Process;

/// When the calls of a process returned.
pub(super) struct Ends<'a> {
    /// By thread and function, in the order in which calls began: when each did, and the latest end of it and those before.
    calls: HashMap<(u32, &'a str), Vec<(u64, u64)>>,
    /// The threads whose call never returned.
    in_progress: HashSet<u32>,
}

impl<'a> Ends<'a> {
    pub(super) fn new(process: &'a Process) -> Self {
        let report = &process.report;
        let mut calls = HashMap::<_, Vec<_>>::new();
        for event in &report.events {
            calls.entry((event.thread, &*event.call)).or_default().push((event.begun, end(event)));
        }
        for calls in calls.values_mut() {
            calls.sort_unstable();
            let mut latest = 0;
            for (_, end) in calls {
                latest = latest.max(*end);
                *end = latest;
            }
        }
        let in_progress = report.in_progress.iter().filter(|_| !report.ended).map(|(_, thread)| *thread);
        Ends { calls, in_progress: in_progress.collect() }
    }

    /// The place of an event. A hang goes on until the call returned, or to the end if it never did.
    pub(super) fn span(&self, event: &'a Event, offset: u64, last: u64) -> Span<'a> {
        let seen = end(event);
        let to = match event.kind {
            Kind::Hang if self.in_progress.contains(&event.thread) => last,
            Kind::Hang => offset.saturating_add(self.latest(event, seen)),
            _ => offset.saturating_add(seen),
        };
        Span { event, from: offset.saturating_add(event.begun), to }
    }

    /// The latest end of the calls of this function in this thread that began until a time.
    fn latest(&self, event: &Event, until: u64) -> u64 {
        let calls = self.calls.get(&(event.thread, &*event.call)).map_or(&[][..], Vec::as_slice);
        let began = calls.partition_point(|(begun, _)| *begun <= until);
        calls[..began].last().map_or(until, |(_, latest)| *latest)
    }
}

fn end(event: &Event) -> u64 {
    event.begun.saturating_add(event.took)
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use kernel_registry_audit::record::Report;

    use super::*;
    use crate::audit::process::named;

    fn event(kind: Kind, thread: u32, call: &str, begun: u64, took: u64) -> Event {
        let mut event = Event::default();
        (event.kind, event.thread, event.begun, event.took) = (kind, thread, begun, took);
        event.call = call.into();
        event
    }

    fn process(events: Vec<Event>, in_progress: Vec<(u32, u32)>) -> Process {
        let mut report = Report::default();
        (report.events, report.in_progress) = (events, in_progress);
        named(vec![report]).remove(0)
    }

    #[test]
    fn a_hang_ends_when_its_call_returned() {
        let events = vec![
            event(Kind::Hang, 1, "cuModuleLoadData", 100, 50),
            event(Kind::Slow, 1, "cuModuleLoadData", 100, 400),
            event(Kind::Slow, 1, "cuModuleLoadData", 600, 400),
            event(Kind::Slow, 1, "cuStreamSynchronize", 120, 5000),
            event(Kind::Hang, 2, "cuModuleLoadData", 100, 50),
            event(Kind::Hang, 3, "cuModuleLoadData", 100, 50),
        ];
        let process = process(events, vec![(7, 2)]);
        let ends = Ends::new(&process);
        let to = |index: usize| ends.span(&process.report.events[index], 10, 9000).to;
        assert_eq!([to(0), to(1), to(4), to(5)], [510, 510, 9000, 160]);
    }

    #[test]
    fn many_hangs_take_little_time() {
        let hang = |number: u64| event(Kind::Hang, 1, "cuModuleLoadData", number, 10);
        let process = process((0..200_000).map(hang).collect(), Vec::new());
        let start = Instant::now();
        let page = super::super::of_one(&process);
        assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
        assert!(page.contains("200000 calls that did not return in time"), "{page}");
    }
}
