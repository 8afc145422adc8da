//! Defines a running block: its shared memory and its barriers.

use crate::op::Tally;
use crate::types::{Row, row};

pub(crate) struct Block {
    /// `blockIdx`.
    pub index: [u32; 3],
    /// The special registers of the block.
    pub rows: [Row; 10],
    pub shared: Vec<u8>,
    /// The number of threads that have not ended.
    pub live: u32,
    pub barriers: [Barrier; 16],
}

/// How many threads have voted yes, and how many no.
#[derive(Clone, Copy, Default)]
pub(crate) struct Votes {
    pub yes: u32,
    pub no: u32,
}

/// A barrier of a block or of a cluster.
#[derive(Clone, Copy, Default)]
pub(crate) struct Barrier {
    /// How often the barrier was passed.
    pub generation: u64,
    arrived: u32,
    /// How many threads must arrive. `None` means all threads that have not ended.
    expected: Option<u32>,
    votes: Votes,
    /// The votes of the generation that was passed last.
    last: Votes,
}

impl Block {
    pub(crate) fn new(shared: usize) -> Self {
        Self {
            index: [0; 3],
            rows: [const { 0 }; 10].map(row),
            shared: vec![0; shared],
            live: 0,
            barriers: [Barrier::default(); 16],
        }
    }

    /// Starts the block at an index of the grid. Fills the last `reserved` bytes of its shared memory with
    /// zeros.
    pub(crate) fn start(&mut self, index: [u32; 3], special: [u32; 10], threads: u32, reserved: usize) {
        self.index = index;
        let own = self.shared.len() - reserved;
        self.shared[own..].fill(0);
        for (row, value) in self.rows.iter().zip(special) {
            row.iter().for_each(|lane| lane.set(u64::from(value)));
        }
        self.live = threads;
        self.barriers = [Barrier::default(); 16];
    }

    /// Counts threads that have ended. Barriers for all threads no longer wait for them.
    pub(crate) fn end(&mut self, threads: u32) {
        self.live -= threads;
        for barrier in &mut self.barriers {
            barrier.pass(self.live);
        }
    }
}

impl Barrier {
    /// Counts arriving threads, and their votes if they vote.
    pub(crate) fn arrive(&mut self, threads: u32, votes: Votes, expected: Option<u32>, live: u32) {
        self.arrived += threads;
        self.votes.yes += votes.yes;
        self.votes.no += votes.no;
        self.expected = expected;
        self.pass(live);
    }

    /// Lets the waiting threads pass if the last thread has arrived.
    pub(crate) fn pass(&mut self, live: u32) {
        if self.arrived > 0 && self.arrived >= self.expected.unwrap_or(live) {
            self.last = std::mem::take(&mut self.votes);
            self.generation += 1;
            self.arrived = 0;
        }
    }

    /// Returns the result of the vote at the generation that was passed last.
    pub(crate) fn result(&self, tally: Tally) -> u64 {
        match tally {
            Tally::Count => u64::from(self.last.yes),
            Tally::All => u64::from(self.last.no == 0),
            Tally::Any => u64::from(self.last.yes > 0),
        }
    }
}
