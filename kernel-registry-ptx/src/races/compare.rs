//! Compares accesses: which are ordered, which may go on at once, and which race.

use std::collections::HashMap;

use super::clock::{Knowledge, Place, Work};
use super::kind::AccessKind;
use super::shadow::{Access, Word};
use crate::order::Scope;

/// What the host does, which is no work of a stream.
pub(crate) const HOST: Work = Work { stream: u32::MAX, number: u32::MAX };

/// The devices of work that isn't on the first one.
#[derive(Default)]
pub(crate) struct Devices(pub HashMap<Work, u32>);

impl Devices {
    /// Returns whether a scope, as seen by one thread, includes another.
    pub(crate) fn include(&self, scope: Scope, of: Place, other: Place) -> bool {
        match scope {
            Scope::Block | Scope::Cluster => (of.grid, of.block) == (other.grid, other.block),
            Scope::Device => self.are_same(of, other),
            Scope::System => true,
        }
    }

    /// Returns whether both are on one device.
    pub(crate) fn are_same(&self, one: Place, other: Place) -> bool {
        one.grid != HOST && other.grid != HOST && self.0.get(&one.grid) == self.0.get(&other.grid)
    }
}

/// Calls a function with each word of a range, and with the bytes of the word that are in the range.
pub(crate) fn for_each_word(address: u64, size: u64, mut visit: impl FnMut(u64, u8)) {
    let end = address.saturating_add(size);
    for word in address / 4..end.div_ceil(4) {
        let (from, to) = (address.max(word * 4) - word * 4, end.min(word * 4 + 4) - word * 4);
        visit(word, ((1 << to) - (1 << from)) as u8);
    }
}

/// Compares an access with those that a word remembers, which then remembers it, too. Returns an access with which it
/// races, without those of its lanes that don't.
pub(crate) fn compare(
    word: &mut Word,
    access: Access,
    known: &Knowledge,
    devices: &Devices,
) -> Option<Access> {
    // The access's own lanes.
    let own = |other: &Access| if other.at == access.at { access.lanes } else { 0 };
    let is_known = |other: &Access| known.knows(other.at, other.lanes & !own(other), other.clock);
    let races = |other: &&Access| may_race(other, &access, devices) && !is_known(other);
    let mut found = word.writes.iter().find(races).copied();
    if access.what.writes() {
        found = found.or_else(|| word.reads.iter().find(races).copied());
        word.reads.forget(access.bytes, is_known);
        // Of strong accesses that race with nobody, a later weak access has to be compared with all.
        word.writes.forget(access.bytes, |other| {
            other.strong.is_none() || access.strong.is_none() || is_known(other)
        });
        word.writes.add(access);
    } else {
        word.reads.forget(access.bytes, is_known);
        word.reads.add(access);
    }
    found.map(|mut other| {
        let is_unknown = |lane: &u32| !known.knows(other.at, 1 << lane, other.clock);
        let lanes = (0..32).filter(|lane| other.lanes & !own(&other) & 1 << lane != 0).filter(is_unknown);
        other.lanes = lanes.fold(0, |lanes, lane| lanes | 1 << lane);
        other
    })
}

/// Returns whether two accesses to a word race if nothing orders them.
pub(crate) fn may_race(one: &Access, two: &Access, devices: &Devices) -> bool {
    let bytes = one.bytes & two.bytes;
    let both_strong = || {
        one.strong.zip(two.strong).is_some_and(|(first, second)| {
            devices.include(first, one.at, two.at) && devices.include(second, two.at, one.at)
        })
    };
    // It doesn't matter which of two equal values is stored last.
    let are_equal = || {
        let mask = (0..4).fold(0, |mask, byte| mask | (u32::from(bytes >> byte & 1) * 0xff) << (8 * byte));
        let same = |(first, second): (u32, u32)| (first ^ second) & mask == 0;
        (one.what, two.what) == (AccessKind::Write, AccessKind::Write)
            && one.value.zip(two.value).is_some_and(same)
    };
    bytes != 0 && (one.what.writes() || two.what.writes()) && !both_strong() && !are_equal()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_compared_where_both_were_stored() {
        let write =
            |bytes, value| Access { what: AccessKind::Write, bytes, value: Some(value), ..Access::default() };
        let race = |one: &Access, two: &Access| may_race(one, two, &Devices::default());
        assert!(race(&write(0xf, 5), &write(0xf, 6)) && !race(&write(0xf, 5), &write(0xf, 5)));
        assert!(race(&write(0xf, 5), &write(0b10, 5 << 8)) && !race(&write(0xf, 5), &write(0b1, 0x705)));
        assert!(!race(&write(0b1, 1), &write(0b10, 2)));
        let unknown = Access { value: None, ..write(0xf, 5) };
        assert!(race(&unknown, &write(0xf, 5)) && race(&unknown, &unknown));
    }

    #[test]
    fn words_of_a_range_have_its_bytes() {
        let mut words = Vec::new();
        for_each_word(6, 5, |word, bytes| words.push((word, bytes)));
        assert_eq!(words, [(1, 0b1100), (2, 0b111)]);
        for_each_word(8, 0, |_, _| panic!("there is none"));
    }
}
