//! Defines a stream: a queue of work that is done item by item.

use std::collections::VecDeque;
use std::time::Duration;

use super::capture::Part;
use crate::driver::caller::arguments::HostFunction;
use crate::driver::clock;
use crate::driver::handles::Handle;
use crate::driver::launch::execution::Execution;
use crate::driver::launch::shape::Launch;
use crate::driver::launch::span::Span;
use crate::driver::memory::graph::Allocation;
use crate::driver::report::texts::Launcher;
use crate::driver::wait::{Behind, Seq};

pub(crate) struct Stream {
    pub(crate) context: Handle,
    pub(crate) device: usize,
    /// The green context of the stream, and its multiprocessors.
    pub(crate) part: Option<(Handle, Span)>,
    pub(crate) order: Order,
    pub(crate) priority: i32,
    pub(crate) queue: VecDeque<Item>,
    /// The position in a capture, while the stream is captured.
    pub(crate) capture: Option<Part>,
    /// Whether the caller has destroyed the stream. The stream is removed when its work is done.
    pub(crate) closed: bool,
    /// When the stream last made progress, in simulated time.
    pub(crate) still_since: Duration,
}

/// Whether a stream waits for other streams of its context.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Order {
    /// The legacy default stream. It and the blocking streams wait for each other.
    Legacy,
    Blocking,
    NonBlocking,
}

/// An item in the queue of a stream.
pub(crate) struct Item {
    pub(crate) seq: Seq,
    pub(crate) work: Work,
    /// Work of other streams that must end before this item starts.
    pub(crate) behind: Option<Behind>,
    pub(crate) state: Doing,
    pub(crate) launcher: Launcher,
}

pub(crate) enum Doing {
    Waiting,
    /// A started kernel between two turns.
    Running(Box<Execution>),
    /// A kernel during its turn, or a host function during its call.
    Stepping,
}

#[derive(Clone)]
pub(crate) enum Work {
    Nothing,
    Launch(Box<Launch>),
    Copy {
        to: usize,
        from: Source,
        bytes: usize,
    },
    Fill {
        to: usize,
        pattern: u32,
        /// The size of the pattern in bytes.
        width: usize,
        count: usize,
    },
    Free(usize),
    /// Allocates memory of a graph, or frees it if the flag is false.
    Appear(Allocation, bool),
    /// Records an event.
    Record(Handle),
    /// Waits until a stream has done all work up to the position `seq`.
    WaitFor {
        stream: Handle,
        seq: Seq,
    },
    WaitValue {
        address: usize,
        value: u32,
        until: Until,
    },
    WriteValue {
        address: usize,
        value: u32,
    },
    Call {
        function: HostFunction,
        data: usize,
    },
}

#[derive(Clone)]
pub(crate) enum Source {
    Address(usize),
    /// A copy of pageable memory that was made when the work was submitted.
    Bytes(Vec<u8>),
}

/// The condition for which a stream compares a word in memory with a value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Until {
    AtLeast,
    Equal,
    And,
    Nor,
}

impl Until {
    /// Returns the condition for `CUstreamWaitValue_flags`.
    pub(crate) fn from_flags(flags: u32) -> Option<Self> {
        const FLUSH: u32 = 1 << 30;
        [Until::AtLeast, Until::Equal, Until::And, Until::Nor].get((flags & !FLUSH) as usize).copied()
    }

    pub(crate) fn holds(self, word: u32, value: u32) -> bool {
        match self {
            // The comparison wraps around: it takes the sign of the difference.
            Until::AtLeast => word.wrapping_sub(value).cast_signed() >= 0,
            Until::Equal => word == value,
            Until::And => word & value != 0,
            Until::Nor => !(word | value) != 0,
        }
    }
}

impl Work {
    /// Returns whether the work occupies the device. Calls that wait for the device wait for such work.
    pub(crate) fn occupies(&self) -> bool {
        matches!(self, Work::Launch(_) | Work::WaitValue { .. })
    }
}

impl Stream {
    pub(crate) fn new(context: Handle, device: usize, order: Order) -> Self {
        Stream {
            context,
            device,
            part: None,
            order,
            priority: 0,
            queue: VecDeque::new(),
            capture: None,
            closed: false,
            still_since: clock::latest(),
        }
    }

    /// Returns whether all work up to the position `seq` is done.
    pub(crate) fn has_done(&self, seq: Seq) -> bool {
        self.queue.front().is_none_or(|item| item.seq > seq)
    }

    pub(crate) fn is_busy(&self, until: Seq) -> bool {
        self.queue.iter().take_while(|item| item.seq <= until).any(|item| item.work.occupies())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wait_conditions_are_as_documented() {
        let holds = |until: Until, word, value| until.holds(word, value);
        assert!(holds(Until::AtLeast, 5, 5) && holds(Until::AtLeast, 6, 5) && !holds(Until::AtLeast, 4, 5));
        assert!(holds(Until::AtLeast, 1, 0xffff_ffff), "it wraps around");
        assert!(holds(Until::Equal, 1, 1) && !holds(Until::Equal, 0, 1));
        assert!(holds(Until::And, 6, 2) && !holds(Until::And, 4, 2));
        assert!(holds(Until::Nor, 6, 2) && !holds(Until::Nor, 0xffff_fffd, 2));
        assert_eq!(Until::from_flags(4), None);
    }
}
