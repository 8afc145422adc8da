//! Vector clocks: which accesses of other threads happened before.
//!
//! A grid can have millions of threads, so a clock names no thread that nothing else is known of: of grids that
//! have ended it knows that, of blocks the clock that all of their threads have reached, and only of warps those
//! of single threads.

use std::collections::BTreeMap;
use std::sync::Arc;

/// A number of a grid or of another piece of work, in the order in which they began.
pub type Work = u32;

/// A warp of a grid: the numbers of the grid, of the block in the grid, and of the warp in the block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub grid: Work,
    pub block: u32,
    pub warp: u8,
}

/// The accesses that a thread, or work to come, knows: what it does now happens after them.
#[derive(Clone, Debug, Default)]
pub struct Knowledge {
    /// All work before this is known.
    below: Work,
    works: BTreeMap<Work, Known>,
}

/// What is known of a grid.
#[derive(Clone, Debug)]
enum Known {
    /// All of it: it has ended.
    All,
    Blocks(Arc<BTreeMap<u32, Block>>),
}

/// What is known of a block: the clock that all threads have reached, and that of the lanes of single warps.
#[derive(Clone, Debug, Default)]
struct Block {
    all: u32,
    warps: BTreeMap<u8, [u32; 32]>,
}

impl Block {
    fn clock(&self, warp: u8, lane: usize) -> u32 {
        self.all.max(self.warps.get(&warp).map_or(0, |lanes| lanes[lane]))
    }

    fn add(&mut self, other: &Block) {
        self.all = self.all.max(other.all);
        for (warp, lanes) in &other.warps {
            let own = self.warps.entry(*warp).or_insert([0; 32]);
            own.iter_mut().zip(lanes).for_each(|(own, other)| *own = (*own).max(*other));
        }
    }
}

impl Knowledge {
    /// Returns whether an access at this clock of these lanes is known, for each of them.
    pub(crate) fn knows(&self, at: Place, lanes: u32, clock: u32) -> bool {
        match self.works.get(&at.grid) {
            _ if lanes == 0 || at.grid < self.below => true,
            None => false,
            Some(Known::All) => true,
            Some(Known::Blocks(blocks)) => blocks.get(&at.block).is_some_and(|block| {
                clock <= block.all
                    || (0..32).all(|lane| lanes & 1 << lane == 0 || clock <= block.clock(at.warp, lane))
            }),
        }
    }

    /// Adds all of a grid, or of other work, that has ended.
    pub fn add_ended(&mut self, work: Work) {
        if work >= self.below {
            self.works.insert(work, Known::All);
            self.shorten();
        }
    }

    fn shorten(&mut self) {
        while matches!(self.works.first_key_value(), Some((work, Known::All)) if *work == self.below) {
            self.works.pop_first();
            self.below += 1;
        }
    }

    /// Adds what all threads of a block did up to this clock.
    pub(crate) fn add_block(&mut self, grid: Work, block: u32, clock: u32) {
        if let Some(known) = self.block(grid, block) {
            // Threads that go on have their clocks above this one.
            known.warps.retain(|_, lanes| lanes.iter().any(|lane| *lane > clock));
            known.all = known.all.max(clock);
        }
    }

    /// Adds what these lanes of a warp did up to these clocks.
    pub(crate) fn add_lanes(&mut self, at: Place, lanes: u32, clocks: &[u32; 32]) {
        if let Some(known) = self.block(at.grid, at.block) {
            let own = known.warps.entry(at.warp).or_insert([0; 32]);
            for lane in (0..32).filter(|lane| lanes & 1 << lane != 0) {
                own[lane] = own[lane].max(clocks[lane]);
            }
        }
    }

    /// Returns what is known of a block, unless its whole grid is.
    fn block(&mut self, grid: Work, block: u32) -> Option<&mut Block> {
        if grid < self.below {
            return None;
        }
        let empty = || Known::Blocks(Arc::default());
        match self.works.entry(grid).or_insert_with(empty) {
            Known::All => None,
            Known::Blocks(blocks) => Some(Arc::make_mut(blocks).entry(block).or_default()),
        }
    }

    /// Adds what another knows.
    pub fn add(&mut self, other: &Knowledge) {
        if self.below < other.below {
            self.below = other.below;
            self.works = self.works.split_off(&other.below);
        }
        for (work, known) in other.works.range(self.below..) {
            match (self.works.get_mut(work), known) {
                (None, known) => drop(self.works.insert(*work, known.clone())),
                (Some(Known::All), _) => {}
                (Some(own), Known::All) => *own = Known::All,
                (Some(Known::Blocks(own)), Known::Blocks(others)) => {
                    if Arc::ptr_eq(own, others) {
                        continue;
                    }
                    let own = Arc::make_mut(own);
                    for (block, known) in others.iter() {
                        own.entry(*block).or_default().add(known);
                    }
                }
            }
        }
        self.shorten();
    }

    /// Adds what another knows, if that is shared with many.
    pub(crate) fn add_shared(own: &mut Arc<Knowledge>, other: &Arc<Knowledge>) {
        if !Arc::ptr_eq(own, other) {
            Arc::make_mut(own).add(other);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(grid: Work, block: u32, warp: u8) -> Place {
        Place { grid, block, warp }
    }

    #[test]
    fn what_was_added_is_known() {
        let mut knowledge = Knowledge::default();
        assert!(!knowledge.knows(at(1, 0, 0), 1, 1));
        let mut clocks = [0; 32];
        clocks[3] = 5;
        knowledge.add_lanes(at(1, 2, 0), 1 << 3, &clocks);
        assert!(knowledge.knows(at(1, 2, 0), 1 << 3, 5) && !knowledge.knows(at(1, 2, 0), 1 << 3, 6));
        assert!(!knowledge.knows(at(1, 2, 0), 0b1001, 5) && !knowledge.knows(at(1, 2, 1), 1 << 3, 5));
        knowledge.add_block(1, 2, 4);
        assert!(knowledge.knows(at(1, 2, 7), !0, 4) && knowledge.knows(at(1, 2, 0), 1 << 3, 5));
        knowledge.add_block(1, 2, 9);
        assert!(knowledge.knows(at(1, 2, 0), !0, 9) && !knowledge.knows(at(1, 3, 0), 1, 1));

        let mut other = Knowledge::default();
        other.add_ended(1);
        other.add_block(2, 0, 1);
        knowledge.add(&other);
        assert!(knowledge.knows(at(1, 3, 0), !0, u32::MAX) && knowledge.knows(at(2, 0, 0), !0, 1));
        knowledge.add_block(1, 0, 1);
        assert!(knowledge.knows(at(1, 3, 0), !0, u32::MAX));
        knowledge.add_ended(0);
        assert!(
            knowledge.below == 2 && knowledge.knows(at(0, 0, 0), 1, 1) && !knowledge.knows(at(2, 1, 0), 1, 1)
        );
        other.add_ended(0);
        other.add_ended(2);
        knowledge.add(&other);
        assert!(knowledge.below == 3 && knowledge.works.is_empty());
    }
}
