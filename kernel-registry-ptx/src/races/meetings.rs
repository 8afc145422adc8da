//! Finds the instructions before which the order of threads matters: strong accesses to a word that another warp accesses
//! too, one of them a write. Weak accesses that meet are races, which are found in any order.

use std::collections::{BTreeSet, HashMap};

use super::clock::{Knowledge, Place, Work};
use super::kind::AccessKind;

/// A word: of global memory, or of a block's shared memory.
pub(crate) type Word = (Option<(Work, u32)>, u64);

/// An instruction's access to a word, by some lanes of a warp.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Meeting {
    pub at: Place,
    /// The lanes that ran together, if the warp had diverged. 0 otherwise.
    pub lanes: u32,
    pub line: u32,
    pub what: AccessKind,
}

/// What strong accesses were to which words, and the instructions of those that met.
#[derive(Default)]
pub(crate) struct Meetings {
    words: HashMap<Word, Vec<Meeting>>,
    known: BTreeSet<(Work, u32)>,
    found: Vec<(Work, u32)>,
}

impl Meetings {
    /// Adds an access. `begins` is what the grid knew when it began.
    pub(crate) fn add(&mut self, word: Word, new: &Meeting, begins: &Knowledge) {
        let all = self.words.entry(word).or_default();
        if all.contains(new) {
            return;
        }
        let meets = |other: &&Meeting| {
            let same_warp = other.at == new.at;
            let is_other = !same_warp || other.lanes & new.lanes == 0 && other.lanes != 0 && new.lanes != 0;
            is_other
                && (other.what.writes() || new.what.writes())
                && (other.at.grid == new.at.grid || !begins.knows(other.at, !0, u32::MAX))
        };
        let met: Vec<_> = all.iter().filter(meets).map(|other| (other.at.grid, other.line)).collect();
        all.push(new.clone());
        if !met.is_empty() {
            met.into_iter().chain([(new.at.grid, new.line)]).for_each(|(grid, line)| self.note(grid, line));
        }
    }

    /// Notes an instruction of a grid.
    pub(crate) fn note(&mut self, grid: Work, line: u32) {
        if self.known.insert((grid, line)) {
            self.found.push((grid, line));
        }
    }

    /// Returns the instructions that were found since the last call.
    pub(crate) fn take(&mut self) -> Vec<(Work, u32)> {
        std::mem::take(&mut self.found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meeting(number: u32, warp: u8, line: u32, what: AccessKind) -> Meeting {
        let grid = Work { stream: 1, number };
        Meeting { at: Place { grid, block: 0, warp }, lanes: 0, line, what }
    }

    #[test]
    fn accesses_of_two_warps_meet_if_one_writes() {
        let (mut meetings, nothing) = (Meetings::default(), Knowledge::default());
        let mut add = |word: u64, meeting: Meeting| {
            meetings.add((None, word), &meeting, &nothing);
            meetings.take().into_iter().map(|(_, line)| line).collect::<Vec<_>>()
        };
        assert_eq!(add(1, meeting(0, 0, 10, AccessKind::Read)), []);
        assert_eq!(add(1, meeting(0, 1, 10, AccessKind::Read)), []);
        assert_eq!(add(1, meeting(0, 0, 20, AccessKind::Write)), [10, 20]);
        assert_eq!(add(2, meeting(0, 0, 30, AccessKind::Write)), []);
        assert_eq!(add(2, meeting(0, 0, 31, AccessKind::Write)), [], "it's the same warp");
        let diverged = |lanes, line| Meeting { lanes, ..meeting(0, 0, line, AccessKind::Write) };
        assert_eq!(add(2, diverged(1, 32)), [], "the warp had not diverged before");
        assert_eq!(add(2, diverged(2, 33)), [32, 33]);
    }

    #[test]
    fn a_grid_does_not_meet_one_that_ended_before() {
        let mut meetings = Meetings::default();
        let mut known = Knowledge::default();
        meetings.add((None, 1), &meeting(0, 0, 10, AccessKind::Write), &known);
        known.add_ended(Work { stream: 1, number: 0 });
        meetings.add((None, 1), &meeting(1, 0, 20, AccessKind::Write), &known);
        assert!(meetings.take().is_empty());
        meetings.add((None, 1), &meeting(2, 0, 30, AccessKind::Write), &Knowledge::default());
        assert_eq!(meetings.take().len(), 3);
    }
}
