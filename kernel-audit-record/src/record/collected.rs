//! Collects stretches from the events of a record: a stretch is an event, and each of what it was spent on is another.

use std::cmp::Reverse;
use std::collections::HashMap;

use super::model::{Event, Kind};
use super::stretch::{Spending, Spent, Stretch};

/// Collects stretches. Their events can be in any order.
pub(super) fn stretches(events: &[Event]) -> Vec<Stretch> {
    let mut spent_in = HashMap::<u64, Vec<Spent>>::new();
    for event in events.iter().filter(|event| event.kind == Kind::Spent) {
        spent_in.entry(event.context).or_default().push(spent(event));
    }
    let of_stretch = |event: &Event| {
        let mut spent = spent_in.remove(&event.context).unwrap_or_default();
        spent.sort_by_key(|spent| Reverse(spent.took));
        let Event { subject: name, begun, took, .. } = event.clone();
        Stretch { name, begun, took, looks: event.bytes, lost: event.stream, spent }
    };
    let stretches = events.iter().filter(|event| event.kind == Kind::Stretch);
    let mut stretches: Vec<_> = stretches.map(of_stretch).collect();
    stretches.sort_by_key(|stretch| stretch.begun);
    stretches
}

fn spent(event: &Event) -> Spent {
    Spent {
        what: Spending::from_number(event.result),
        took: event.took,
        looks: event.bytes,
        function: event.caller.clone(),
        user: event.image.clone(),
        stack: event.text.clone(),
    }
}
