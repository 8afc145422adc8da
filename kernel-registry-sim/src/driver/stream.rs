//! Streams: what is to be done, one thing after the other.

use std::collections::VecDeque;
use std::time::Instant;

use super::abi::HostFunction;
use super::capture::Part;
use super::execute::Execution;
use super::graph_memory::Allocation;
use super::handles::Handle;
use super::launch::Launch;
use super::wait::{Behind, Seq};

#[derive(Debug)]
pub(super) struct Stream {
    pub(super) context: Handle,
    pub(super) device: usize,
    pub(super) order: Order,
    pub(super) priority: i32,
    pub(super) queue: VecDeque<Item>,
    /// What it is given is captured, and not done.
    pub(super) capture: Option<Part>,
    /// Destroyed by its owner; it stays until all is done.
    pub(super) closed: bool,
    /// Since when nothing has moved here.
    pub(super) still_since: Instant,
}

/// How a stream goes with the others of its context.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Order {
    /// The default stream: it and blocking streams wait for each other.
    Legacy,
    Blocking,
    NonBlocking,
}

/// Something to do.
#[derive(Debug)]
pub(super) struct Item {
    pub(super) seq: Seq,
    pub(super) work: Work,
    /// What has to be over before, beside what is in front of it in its stream.
    pub(super) behind: Option<Behind>,
    pub(super) state: Doing,
}

#[derive(Debug)]
pub(super) enum Doing {
    Waiting,
    /// A kernel, which takes its turns.
    Running(Box<Execution>),
    /// A kernel whose turn it is now, or a function of the host that is being called.
    Stepping,
}

#[derive(Clone, Debug)]
pub(super) enum Work {
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
    /// Memory of graphs is there from now on, or not any more.
    Appear(Allocation, bool),
    /// Marks an event.
    Record(Handle),
    /// Until that stream has done everything up to there.
    WaitFor {
        stream: Handle,
        seq: Seq,
    },
    WaitValue {
        address: usize,
        wide: bool,
        value: u64,
        until: Until,
    },
    WriteValue {
        address: usize,
        wide: bool,
        value: u64,
    },
    Call {
        function: HostFunction,
        data: usize,
    },
}

#[derive(Clone, Debug)]
pub(super) enum Source {
    Address(usize),
    /// Memory that was not pinned was copied when the copy was asked for.
    Bytes(Vec<u8>),
}

/// What a word has to be like.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Until {
    AtLeast,
    Equal,
    And,
    Nor,
}

impl Until {
    /// `CUstreamWaitValue_flags`.
    pub(super) fn from_flags(flags: u32) -> Option<Self> {
        const FLUSH: u32 = 1 << 30;
        [Until::AtLeast, Until::Equal, Until::And, Until::Nor].get((flags & !FLUSH) as usize).copied()
    }

    pub(super) fn holds(self, word: u64, value: u64, wide: bool) -> bool {
        let mask = if wide { u64::MAX } else { u32::MAX.into() };
        match self {
            // Cyclic: the sign of the difference.
            Until::AtLeast if wide => word.wrapping_sub(value).cast_signed() >= 0,
            Until::AtLeast => (word as u32).wrapping_sub(value as u32).cast_signed() >= 0,
            Until::Equal => (word ^ value) & mask == 0,
            Until::And => word & value & mask != 0,
            Until::Nor => !(word | value) & mask != 0,
        }
    }
}

impl Work {
    /// Whether the driver waits for it where it waits for the device.
    pub(super) fn occupies(&self) -> bool {
        matches!(self, Work::Launch(_) | Work::WaitValue { .. })
    }
}

impl Stream {
    pub(super) fn new(context: Handle, device: usize, order: Order) -> Self {
        Stream {
            context,
            device,
            order,
            priority: 0,
            queue: VecDeque::new(),
            capture: None,
            closed: false,
            still_since: Instant::now(),
        }
    }

    /// Whether all is done that was submitted until then.
    pub(super) fn has_done(&self, seq: Seq) -> bool {
        self.queue.front().is_none_or(|item| item.seq > seq)
    }

    pub(super) fn is_busy(&self, until: Seq) -> bool {
        self.queue.iter().take_while(|item| item.seq <= until).any(|item| item.work.occupies())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_compared_as_the_manual_says() {
        let holds = |until: Until, word, value| until.holds(word, value, false);
        assert!(holds(Until::AtLeast, 5, 5) && holds(Until::AtLeast, 6, 5) && !holds(Until::AtLeast, 4, 5));
        assert!(holds(Until::AtLeast, 1, 0xffff_ffff), "it wraps around");
        assert!(holds(Until::Equal, 1, 1) && !holds(Until::Equal, 0, 1));
        assert!(holds(Until::And, 6, 2) && !holds(Until::And, 4, 2));
        assert!(holds(Until::Nor, 6, 2) && !holds(Until::Nor, 0xffff_fffd, 2));
        assert_eq!(Until::from_flags(4), None);
    }
}
