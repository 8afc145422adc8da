//! Detects threads that poll: a loop that repeats without an effect until a value in memory changes. Unlike [`Spin`], which
//! is there to give turns to others, this knows which values those are, of each group of threads.
//!
//! [`Spin`]: super::spin::Spin

use crate::address::Place;

/// More reads than these between two equal states aren't a poll.
pub(crate) const MOST: usize = 256;

/// A loop that reads the same values so often in a row polls, even if it counts how often.
pub(crate) const STUTTERS: u32 = 16;

/// A read of a lane, and its value.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Read {
    pub lane: u8,
    pub place: Place,
    pub size: u64,
    pub value: u64,
    pub line: u32,
    /// Whether the access is atomic, volatile or ordered, so that other threads may write the word at the same time.
    pub is_strong: bool,
}

/// How a loop can end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Polling {
    /// It isn't known to poll.
    No,
    /// Only if a value changes, or a clock goes on.
    Forever,
    /// It counts its iterations, and may end by itself.
    Counting,
}

/// The loop of a group of threads.
pub(crate) struct Poll {
    pub lanes: u32,
    /// The registers at an earlier backward jump.
    hash: u64,
    /// How many jumps were compared with that, and with how many it's compared.
    compared: u32,
    limit: u32,
    /// The reads since then.
    pub reads: Vec<Read>,
    /// The index of the first read of this iteration.
    iteration: usize,
    previous: Vec<Read>,
    stutters: u32,
    /// Whether a clock was read.
    pub is_timed: bool,
    /// Whether the loop passes a barrier, so that other warps take part in it.
    pub has_barrier: bool,
    pub polling: Polling,
}

impl Poll {
    pub(crate) fn new(lanes: u32, hash: u64) -> Self {
        Poll {
            lanes,
            hash,
            compared: 0,
            limit: 1,
            reads: Vec::new(),
            iteration: 0,
            previous: Vec::new(),
            stutters: 0,
            is_timed: false,
            has_barrier: false,
            polling: Polling::No,
        }
    }

    pub(crate) fn jump(&mut self, hash: u64, patience: u32) {
        let iteration = &self.reads[self.iteration.min(self.reads.len())..];
        let is_same = iteration.iter().any(|read| read.is_strong) && iteration == self.previous;
        self.stutters = if is_same { self.stutters + 1 } else { 0 };
        self.previous = iteration.to_vec();
        self.iteration = self.reads.len();
        if hash == self.hash {
            // Warps that pass the same barrier may count.
            self.polling = if self.has_barrier { Polling::Counting } else { Polling::Forever };
        } else if self.stutters >= patience {
            (self.polling, self.stutters) = (Polling::Counting, 0);
            self.reads = std::mem::take(&mut self.previous);
        } else {
            self.compared += 1;
            if self.compared >= self.limit || self.reads.len() > MOST {
                let limit = (self.limit * 2).min(64);
                let stutters = (std::mem::take(&mut self.previous), self.stutters);
                *self = Poll { limit, has_barrier: self.has_barrier, ..Poll::new(self.lanes, hash) };
                (self.previous, self.stutters) = stutters;
            }
        }
    }
}
