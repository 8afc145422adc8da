//! Compares accesses to ranges, such as those of copies, which can be as large as the memory: of pages that no kernel has
//! accessed, only the range is remembered.

use std::collections::BTreeMap;
use std::ops::Range;

use super::clock::Knowledge;
use super::compare::{Devices, compare, for_each_word, may_race};
use super::shadow::{Access, Shadow, WORDS};

const PAGE: u64 = 4 * WORDS as u64;

/// Compares an access to a range with earlier accesses, and records it. Returns at most one racing access for each page, with
/// its address.
pub(crate) fn touch(
    shadow: &mut Shadow,
    range: &Range<u64>,
    access: Access,
    known: &Knowledge,
    devices: &Devices,
) -> Vec<(u64, Access)> {
    let mut found = BTreeMap::new();
    let mut words = |shadow: &mut Shadow, start: u64, end: u64| {
        for_each_word(start, end.saturating_sub(start), |number, bytes| {
            if let Some(other) = compare(shadow.word(number), Access { bytes, ..access }, known, devices) {
                found.entry(number / WORDS as u64).or_insert((number * 4, other));
            }
        });
    };
    let whole = range.start.div_ceil(PAGE)..range.end / PAGE;
    if whole.is_empty() {
        words(shadow, range.start, range.end);
        return found.into_values().collect();
    }
    words(shadow, range.start, whole.start * PAGE);
    words(shadow, whole.end * PAGE, range.end);
    for page in shadow.made(&whole) {
        words(shadow, page * PAGE, (page + 1) * PAGE);
    }
    let access = Access { bytes: 0xf, ..access };
    let is_known = |its: &Access| known.knows(its.at, its.lanes, its.clock);
    for (other, its) in &shadow.ranges {
        let at = other.start.max(whole.start);
        if at < other.end.min(whole.end) && may_race(its, &access, devices) && !is_known(its) {
            found.entry(at).or_insert((at * PAGE, *its));
        }
    }
    let is_over = |other: &Range<u64>, its: &Access| {
        let is_inside = whole.start <= other.start && other.end <= whole.end;
        is_inside && (access.what.writes() || !its.what.writes()) && is_known(its)
    };
    shadow.ranges.retain(|(other, its)| !is_over(other, its));
    shadow.ranges.push((whole, access));
    found.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::races::clock::{Place, Work};
    use crate::races::kind::AccessKind;

    fn access(number: u32, what: AccessKind) -> Access {
        let grid = Work { stream: number, number: 0 };
        Access { at: Place { grid, block: 0, warp: 0 }, lanes: 1, clock: 1, what, ..Access::default() }
    }

    #[test]
    fn a_range_races_with_words_and_ranges_that_are_not_known() {
        let (mut shadow, devices, mut known) = (Shadow::default(), Devices::default(), Knowledge::default());
        let range = 100..20 * PAGE + 8;
        let touch_by = |shadow: &mut Shadow, number, what, known: &Knowledge| {
            touch(shadow, &range, access(number, what), known, &devices).len()
        };
        assert_eq!(touch_by(&mut shadow, 1, AccessKind::Write, &known), 0);
        assert_eq!(shadow.made(&(0..100)).len(), 2, "only the ends have words");
        // A page that is made later has the access, and others are compared with the range.
        assert_eq!(shadow.word(5 * WORDS as u64).writes.iter().count(), 1);
        assert_eq!(touch_by(&mut shadow, 2, AccessKind::Read, &known), 4);
        known.add_ended(Work { stream: 1, number: 0 });
        assert_eq!(touch_by(&mut shadow, 3, AccessKind::Read, &known), 0);
        assert!(touch_by(&mut shadow, 4, AccessKind::Write, &known) > 0, "the reads aren't known");
        (2..5).for_each(|stream| known.add_ended(Work { stream, number: 0 }));
        assert_eq!(touch_by(&mut shadow, 5, AccessKind::Write, &known), 0);
        assert_eq!(shadow.ranges.len(), 1, "what is known and overwritten is forgotten");
    }
}
