//! Joins stretches with what they were spent on: a record has an event for each, in any order.

use std::cmp::Reverse;
use std::collections::HashMap;

use super::stretch::{Spent, Stretch};

/// Joins stretches with their parts. Both come with the number of the stretch.
pub(super) fn stretches(stretches: Vec<(u64, Stretch)>, parts: Vec<(u64, Spent)>) -> Vec<Stretch> {
    let mut spent_in = HashMap::<u64, Vec<Spent>>::new();
    for (number, spent) in parts {
        spent_in.entry(number).or_default().push(spent);
    }
    let whole = |(number, stretch): (u64, Stretch)| {
        let mut spent = spent_in.remove(&number).unwrap_or_default();
        spent.sort_by_key(|spent| Reverse(spent.took));
        Stretch { spent, ..stretch }
    };
    let mut stretches: Vec<_> = stretches.into_iter().map(whole).collect();
    stretches.sort_by_key(|stretch| stretch.begun);
    stretches
}
