//! Describes threads that can't go on.

use std::fmt;

use crate::address::Place;
use crate::program::Program;
use crate::run::poll::Read;
use crate::run::warp::{Wait, Warp};

/// Threads of a warp that can't go on, and what they wait for.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stuck {
    /// `blockIdx`.
    pub block: [u32; 3],
    /// `threadIdx` of the first of the threads.
    pub thread: [u32; 3],
    /// How many threads there are.
    pub threads: u32,
    /// The source of the instruction, if the kernel was compiled with `-lineinfo`.
    pub place: Option<String>,
    /// The instruction, as it's in the PTX.
    pub instruction: String,
    /// What they wait for.
    pub waits: Waits,
}

/// What threads wait for.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Waits {
    /// Until a value in memory changes.
    Value {
        /// The address, in shared memory its offset.
        address: u64,
        /// Whether the address is in shared memory.
        is_shared: bool,
        /// The value now.
        value: u64,
    },
    /// Nothing: they are in a loop without end.
    Nothing,
    /// Until other threads of the block arrive at this barrier.
    Barrier {
        /// The number of the barrier.
        id: usize,
    },
    /// Until other threads of the warp arrive at an instruction that they execute together.
    Warp,
    /// Until other blocks of the cluster arrive at its barrier.
    Cluster,
    /// They can go on.
    Ready,
}

impl Stuck {
    pub(crate) fn new(program: &Program, warp: &Warp, index: usize, block: [u32; 3]) -> Self {
        let split = &warp.splits[index];
        let poll = warp.polls(index);
        let read =
            poll.and_then(|poll| poll.reads.iter().find(|read| !matches!(read.place, Place::Local(_))));
        let line = read.map_or(program.instructions[split.at].line, |read| read.line);
        let waits = match (split.wait, poll) {
            (Wait::Barrier { id, .. }, _) => Waits::Barrier { id },
            (Wait::Lanes, _) => Waits::Warp,
            (Wait::Cluster, _) => Waits::Cluster,
            (Wait::No, Some(_)) => read.map_or(Waits::Nothing, waits_for),
            (Wait::No, None) => Waits::Ready,
        };
        Stuck {
            block,
            thread: warp.thread(split.lanes.trailing_zeros() as usize),
            threads: split.lanes.count_ones(),
            place: program.place(line),
            instruction: program.source(line).to_owned(),
            waits,
        }
    }
}

fn waits_for(read: &Read) -> Waits {
    let (address, is_shared) = match read.place {
        Place::Global(address) | Place::Parameter(address) | Place::Local(address) => (address, false),
        Place::Shared(_, address) => (address, true),
    };
    Waits::Value { address, is_shared, value: read.value }
}

impl fmt::Display for Stuck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Stuck { block: [a, b, c], thread: [x, y, z], threads, .. } = self;
        write!(f, "block ({a}, {b}, {c}), thread ({x}, {y}, {z})")?;
        if *threads > 1 {
            write!(f, " and {} more of its warp", threads - 1)?;
        }
        let verb = |one, many| if *threads > 1 { many } else { one };
        write!(f, ", {}", verb("waits", "wait"))?;
        match self.place.as_deref() {
            Some(place) => write!(f, " at {place}")?,
            None => write!(f, " at `{}`", self.instruction)?,
        }
        match self.waits {
            Waits::Value { address, is_shared: true, value } => {
                write!(f, " for the word at {address:#x} of shared memory to change, which is {value}")
            }
            Waits::Value { address, value, .. } => {
                write!(f, " for the word at {address:#x} to change, which is {value}")
            }
            Waits::Nothing => f.write_str(" in a loop that nothing ends"),
            Waits::Barrier { id } => write!(f, " for other threads of the block at barrier {id}"),
            Waits::Warp => f.write_str(" for other threads of the warp"),
            Waits::Cluster => f.write_str(" for other blocks of the cluster"),
            Waits::Ready => f.write_str(", but could go on"),
        }
    }
}
