//! Sums up events by kernel, by the library that called, or by the function that called.

use std::collections::HashMap;

use serde::Serialize;

use crate::causes::is_preloadable;
use crate::command::process::{Audit, Process, is_late};
use crate::command::report::words::milliseconds;
use crate::record::{Event, Kind};

/// The sums of events with the same name.
#[derive(Clone, Copy, Serialize)]
pub(crate) struct Group<'a> {
    /// A kernel's symbol, a library, or a library and a function in it.
    #[serde(rename = "caller")]
    pub(crate) name: &'a str,
    pub(crate) times: usize,
    /// The time of all events in nanoseconds, as is `longest`.
    #[serde(rename = "total_ms", serialize_with = "milliseconds")]
    pub(crate) total: u64,
    #[serde(rename = "longest_ms", serialize_with = "milliseconds")]
    pub(crate) longest: u64,
    /// The number of events after the program was ready.
    #[serde(rename = "after_ready")]
    pub(crate) late: usize,
}

impl<'a> Group<'a> {
    fn empty(name: &'a str) -> Self {
        Group { name, times: 0, total: 0, longest: 0, late: 0 }
    }

    fn add(&mut self, event: &Event, is_late: bool) {
        self.times += 1;
        self.total = self.total.saturating_add(event.took);
        self.longest = self.longest.max(event.took);
        self.late += usize::from(is_late);
    }

    /// Sums up events, whatever their names.
    pub(crate) fn sum(events: impl IntoIterator<Item = &'a Event>) -> Self {
        let mut sum = Group::empty("");
        events.into_iter().for_each(|event| sum.add(event, is_late(event)));
        sum
    }
}

/// Sums up loads of kernels by kernel.
pub(crate) fn kernels(audit: &Audit) -> Vec<Group<'_>> {
    let kernel =
        |event: &Event| matches!(event.kind, Kind::Load | Kind::Hang) && event.subject.kernel().is_some();
    sums(loading(audit).filter(|(_, event)| kernel(event)), |event| {
        event.subject.kernel().map_or("", |symbol| symbol)
    })
}

/// Sums up calls that loaded something, or were refused, by library.
pub(crate) fn libraries(audit: &Audit) -> Vec<Group<'_>> {
    sums(loading(audit).filter(has_library), |event| &event.library)
}

/// Sums up calls that loaded something, or were refused, by function. Functions of stripped libraries have no names,
/// and are left out.
pub(crate) fn callers(audit: &Audit) -> Vec<Group<'_>> {
    let is_named = |(_, event): &(_, &Event)| event.caller != event.library;
    sums(loading(audit).filter(has_library).filter(is_named), |event| &event.caller)
}

fn has_library((_, event): &(&Process, &Event)) -> bool {
    !event.library.is_empty()
}

/// Returns the calls that load something, each with its process: also those that never returned from it.
fn loading(audit: &Audit) -> impl Iterator<Item = (&Process, &Event)> {
    let loads = |event: &Event| match event.kind {
        Kind::Hang => event.is_endless() && is_preloadable(event) && !event.subject.is_nothing(),
        kind => matches!(kind, Kind::Load | Kind::Image | Kind::Compile | Kind::Resize | Kind::Refused),
    };
    audit.of_processes(|report| &report.events).filter(move |(_, event)| loads(event))
}

/// Sums up events by a key. Groups with calls after the program was ready come first, then groups with the longest
/// total time.
fn sums<'a>(
    events: impl Iterator<Item = (&'a Process, &'a Event)>,
    key: impl Fn(&'a Event) -> &'a str,
) -> Vec<Group<'a>> {
    let mut groups = HashMap::new();
    for (process, event) in events {
        let name = key(event);
        let hung_late =
            event.kind == Kind::Hang && process.report.ready.is_some_and(|ready| event.begun >= ready);
        groups.entry(name).or_insert(Group::empty(name)).add(event, is_late(event) || hung_late);
    }
    let mut groups: Vec<_> = groups.into_values().collect();
    groups.sort_by(|a, b| (b.late > 0, b.total).cmp(&(a.late > 0, a.total)).then(a.name.cmp(b.name)));
    groups
}
