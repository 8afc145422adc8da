//! A stream: a queue of work, done one item after the other.

use std::collections::VecDeque;
use std::time::Duration;

use super::wait::{Behind, Seq};
use crate::driver::caller::arguments::HostFunction;
use crate::driver::graph::capture_state::Part;
use crate::driver::handles::Handle;
use crate::driver::launch::execution::Execution;
use crate::driver::launch::shape::Launch;
use crate::driver::launch::span::Span;
use crate::driver::memory::graph::Allocation;
use crate::driver::process::clock;
use crate::driver::report::texts::Launcher;

pub(crate) struct Stream {
    pub(crate) context: Handle,
    pub(crate) device: usize,
    /// The green context, and its multiprocessors.
    pub(crate) part: Option<(Handle, Span)>,
    pub(crate) order: Order,
    pub(crate) priority: i32,
    pub(crate) queue: VecDeque<Item>,
    /// Its place in a capture, while it is captured.
    pub(crate) capture: Option<Part>,
    /// Whether the caller has destroyed it. It stays until its work is done.
    pub(crate) closed: bool,
    /// When it last made progress, in simulated time.
    pub(crate) still_since: Duration,
}

/// Whether a stream waits for others of its context.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Order {
    /// The default stream: it and blocking streams wait for each other.
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
    /// A started kernel, between two turns.
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
        /// Bytes of the pattern.
        width: usize,
        count: usize,
    },
    Free(usize),
    /// A node of a graph allocates memory, or frees it.
    Appear(Allocation, bool),
    /// Records an event.
    Record(Handle),
    /// Waits until a stream has done all work up to this number.
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
    /// A copy of pageable memory, made when the work was submitted.
    Bytes(Vec<u8>),
}

/// How a word is compared with a value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Until {
    AtLeast,
    Equal,
    And,
    Nor,
}

impl Until {
    /// `CUstreamWaitValue_flags`.
    pub(crate) fn from_flags(flags: u32) -> Option<Self> {
        const FLUSH: u32 = 1 << 30;
        [Until::AtLeast, Until::Equal, Until::And, Until::Nor].get((flags & !FLUSH) as usize).copied()
    }

    pub(crate) fn holds(self, word: u32, value: u32) -> bool {
        match self {
            // The comparison is cyclic: it takes the sign of the difference.
            Until::AtLeast => word.wrapping_sub(value).cast_signed() >= 0,
            Until::Equal => word == value,
            Until::And => word & value != 0,
            Until::Nor => !(word | value) != 0,
        }
    }
}

impl Work {
    /// Whether it occupies the device, so that calls which wait for the device wait for it.
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

    /// Whether all work up to this number is done.
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
    fn words_are_compared_as_documented() {
        let holds = |until: Until, word, value| until.holds(word, value);
        assert!(holds(Until::AtLeast, 5, 5) && holds(Until::AtLeast, 6, 5) && !holds(Until::AtLeast, 4, 5));
        assert!(holds(Until::AtLeast, 1, 0xffff_ffff), "it wraps around");
        assert!(holds(Until::Equal, 1, 1) && !holds(Until::Equal, 0, 1));
        assert!(holds(Until::And, 6, 2) && !holds(Until::And, 4, 2));
        assert!(holds(Until::Nor, 6, 2) && !holds(Until::Nor, 0xffff_fffd, 2));
        assert_eq!(Until::from_flags(4), None);
    }
}
