//! Sums up events by kernel, by the library that called, or by the function that called.

use std::collections::HashMap;

use serde::Serialize;

use crate::command::process::is_late;
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

    fn add(&mut self, event: &Event) {
        self.times += 1;
        self.total = self.total.saturating_add(event.took);
        self.longest = self.longest.max(event.took);
        self.late += usize::from(is_late(event));
    }

    /// Sums up events, whatever their names.
    pub(crate) fn sum(events: impl IntoIterator<Item = &'a Event>) -> Self {
        let mut sum = Group::empty("");
        events.into_iter().for_each(|event| sum.add(event));
        sum
    }
}

/// Sums up loads of kernels by kernel.
pub(crate) fn kernels<'a>(events: impl Iterator<Item = &'a Event>) -> Vec<Group<'a>> {
    sums(events.filter(|event| event.kind == Kind::Load), |event| &event.subject)
}

/// Sums up calls that loaded something, or were refused, by library.
pub(crate) fn libraries<'a>(events: impl Iterator<Item = &'a Event>) -> Vec<Group<'a>> {
    sums(loading(events), |event| &event.library)
}

/// Sums up calls that loaded something, or were refused, by function. Functions of stripped libraries have no names,
/// and are left out.
pub(crate) fn callers<'a>(events: impl Iterator<Item = &'a Event>) -> Vec<Group<'a>> {
    sums(loading(events).filter(|event| event.caller != event.library), |event| &event.caller)
}

fn loading<'a>(events: impl Iterator<Item = &'a Event>) -> impl Iterator<Item = &'a Event> {
    let loads =
        |kind| matches!(kind, Kind::Load | Kind::Image | Kind::Compile | Kind::Resize | Kind::Refused);
    events.filter(move |event| loads(event.kind) && !event.library.is_empty())
}

/// Sums up events by a key. Groups with calls after the program was ready come first, then groups with the longest
/// total time.
fn sums<'a>(events: impl Iterator<Item = &'a Event>, key: impl Fn(&'a Event) -> &'a str) -> Vec<Group<'a>> {
    let mut groups = HashMap::new();
    for event in events {
        let name = key(event);
        groups.entry(name).or_insert(Group::empty(name)).add(event);
    }
    let mut groups: Vec<_> = groups.into_values().collect();
    groups.sort_by(|a, b| (b.late > 0, b.total).cmp(&(a.late > 0, a.total)).then(a.name.cmp(b.name)));
    groups
}
