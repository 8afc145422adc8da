//! Vector clocks: which accesses of other threads happened before.
//!
//! A grid can have millions of threads, so a clock names nothing that something larger implies: of a stream, the work that
//! has ended, which is all before a number; of a block, the clock that all of its threads have reached; and only then single
//! threads.

use std::collections::BTreeMap;
use std::sync::Arc;

/// Work of a stream, such as a grid: streams do one after the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Work {
    /// The number of the stream.
    pub stream: u32,
    /// The number of the work in the stream.
    pub number: u32,
}

/// A warp of a grid: the grid, the number of the block in the grid, and that of the warp in the block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub grid: Work,
    pub block: u32,
    pub warp: u8,
}

/// The accesses that a thread, or work to come, knows: what it does now happens after them.
#[derive(Clone, Debug, Default)]
pub struct Knowledge {
    streams: BTreeMap<u32, Stream>,
}

/// The part of a stream's work that is known.
#[derive(Clone, Debug, Default)]
struct Stream {
    /// All work before this number.
    ended: u32,
    /// Blocks of work that has not ended.
    running: BTreeMap<u32, Arc<BTreeMap<u32, Block>>>,
}

/// The part of a block that is known: the clock that all threads have reached, and higher clocks of single threads, in their order.
#[derive(Clone, Debug, Default)]
struct Block {
    all: u32,
    threads: Vec<(u16, u32)>,
}

impl Block {
    fn knows(&self, warp: u8, lanes: u32, clock: u32) -> bool {
        let knows = |lane: usize| {
            let found = self.threads.binary_search_by_key(&thread(warp, lane), |(thread, _)| *thread);
            found.is_ok_and(|index| clock <= self.threads[index].1)
        };
        clock <= self.all || (0..32).filter(|lane| lanes & 1 << lane != 0).all(knows)
    }

    fn add_all(&mut self, clock: u32) {
        self.all = self.all.max(clock);
        // Threads that have gone on have their clocks above this one.
        self.threads.retain(|(_, own)| *own > self.all);
    }

    fn add_thread(&mut self, thread: u16, clock: u32) {
        if clock <= self.all {
            return;
        }
        match self.threads.binary_search_by_key(&thread, |(thread, _)| *thread) {
            Ok(index) => self.threads[index].1 = self.threads[index].1.max(clock),
            Err(index) => self.threads.insert(index, (thread, clock)),
        }
    }

    fn add(&mut self, other: &Block) {
        other.threads.iter().for_each(|(thread, clock)| self.add_thread(*thread, *clock));
        self.add_all(other.all);
    }
}

fn thread(warp: u8, lane: usize) -> u16 {
    u16::from(warp) * 32 + lane as u16
}

impl Knowledge {
    /// Returns whether an access at this clock of these lanes is known, for each of them.
    pub(crate) fn knows(&self, at: Place, lanes: u32, clock: u32) -> bool {
        if lanes == 0 {
            return true;
        }
        let Some(stream) = self.streams.get(&at.grid.stream) else { return false };
        let block = || stream.running.get(&at.grid.number)?.get(&at.block);
        at.grid.number < stream.ended || block().is_some_and(|block| block.knows(at.warp, lanes, clock))
    }

    /// Adds work that has ended, and with it all earlier work of its stream.
    pub fn add_ended(&mut self, work: Work) {
        let stream = self.streams.entry(work.stream).or_default();
        stream.ended = stream.ended.max(work.number + 1);
        stream.running.retain(|number, _| *number >= stream.ended);
    }

    /// Adds what all threads of a block did up to this clock.
    pub(crate) fn add_block(&mut self, grid: Work, block: u32, clock: u32) {
        if let Some(known) = self.block(grid, block) {
            known.add_all(clock);
        }
    }

    /// Adds what these lanes of a warp did up to these clocks.
    pub(crate) fn add_lanes(&mut self, at: Place, lanes: u32, clocks: &[u32; 32]) {
        if let Some(known) = self.block(at.grid, at.block) {
            let lanes = (0..32).filter(|lane| lanes & 1 << lane != 0);
            lanes.for_each(|lane| known.add_thread(thread(at.warp, lane), clocks[lane]));
        }
    }

    /// Returns what is known of a block, unless its whole grid is.
    fn block(&mut self, grid: Work, block: u32) -> Option<&mut Block> {
        let stream = self.streams.entry(grid.stream).or_default();
        if grid.number < stream.ended {
            return None;
        }
        let blocks = stream.running.entry(grid.number).or_default();
        Some(Arc::make_mut(blocks).entry(block).or_default())
    }

    /// Adds what another knows.
    pub fn add(&mut self, other: &Knowledge) {
        for (number, other) in &other.streams {
            let own = self.streams.entry(*number).or_default();
            if own.ended < other.ended {
                own.ended = other.ended;
                own.running.retain(|number, _| *number >= other.ended);
            }
            for (number, blocks) in other.running.range(own.ended..) {
                let own = own.running.entry(*number).or_default();
                if own.is_empty() {
                    own.clone_from(blocks);
                } else if !Arc::ptr_eq(own, blocks) {
                    let own = Arc::make_mut(own);
                    blocks.iter().for_each(|(block, known)| own.entry(*block).or_default().add(known));
                }
            }
        }
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

    fn at(number: u32, block: u32, warp: u8) -> Place {
        Place { grid: Work { stream: 7, number }, block, warp }
    }

    #[test]
    fn what_was_added_is_known() {
        let mut knowledge = Knowledge::default();
        let grid = at(1, 0, 0).grid;
        assert!(!knowledge.knows(at(1, 0, 0), 1, 1) && knowledge.knows(at(1, 0, 0), 0, 1));
        let mut clocks = [0; 32];
        clocks[3] = 5;
        knowledge.add_lanes(at(1, 2, 0), 1 << 3, &clocks);
        assert!(knowledge.knows(at(1, 2, 0), 1 << 3, 5) && !knowledge.knows(at(1, 2, 0), 1 << 3, 6));
        assert!(!knowledge.knows(at(1, 2, 0), 0b1001, 5) && !knowledge.knows(at(1, 2, 1), 1 << 3, 5));
        knowledge.add_block(grid, 2, 4);
        assert!(knowledge.knows(at(1, 2, 7), !0, 4) && knowledge.knows(at(1, 2, 0), 1 << 3, 5));
        knowledge.add_block(grid, 2, 9);
        assert!(knowledge.knows(at(1, 2, 0), !0, 9) && !knowledge.knows(at(1, 3, 0), 1, 1));

        let mut other = Knowledge::default();
        other.add_ended(grid);
        other.add_block(at(2, 0, 0).grid, 0, 1);
        knowledge.add(&other);
        assert!(knowledge.knows(at(1, 3, 0), !0, u32::MAX) && knowledge.knows(at(2, 0, 0), !0, 1));
        assert!(knowledge.knows(at(0, 3, 0), !0, 1), "streams do one after the other");
        knowledge.add_block(grid, 0, 1);
        assert!(knowledge.knows(at(1, 3, 0), !0, u32::MAX) && !knowledge.knows(at(2, 1, 0), 1, 1));
        let elsewhere = Place { grid: Work { stream: 8, number: 0 }, block: 0, warp: 0 };
        assert!(!knowledge.knows(elsewhere, 1, 1));
    }
}
