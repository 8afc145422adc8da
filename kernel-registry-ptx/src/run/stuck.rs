//! Describes threads that can't go on.

use std::fmt;

use crate::address::Place;
use crate::program::Program;
use crate::run::poll::Read;
use crate::run::warp::{Wait, Warp};

/// Of the words that threads read again and again, these many are named.
const MOST: usize = 3;

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
    /// Until one of these words in memory changes. Without any, they are in a loop that nothing ends.
    Change(Vec<Polled>),
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

/// A word in memory that threads read again and again.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Polled {
    /// The address, in shared memory its offset.
    pub address: u64,
    /// Whether the address is in shared memory.
    pub is_shared: bool,
    /// The value now.
    pub value: u64,
}

impl Stuck {
    pub(crate) fn new(program: &Program, warp: &Warp, index: usize, block: [u32; 3]) -> Self {
        let split = &warp.splits[index];
        let poll = warp.polls(index);
        let read = poll.and_then(|poll| poll.reads.iter().find(|read| is_others(read)));
        let line = read.map_or(program.instructions[split.at].line, |read| read.line);
        let waits = match (split.wait, poll) {
            (Wait::Barrier { id, .. }, _) => Waits::Barrier { id },
            (Wait::Lanes, _) => Waits::Warp,
            (Wait::Cluster, _) => Waits::Cluster,
            (Wait::No, Some(poll)) => Waits::Change(polled(&poll.reads)),
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

/// Returns whether others can write what was read.
fn is_others(read: &Read) -> bool {
    matches!(read.place, Place::Global(_) | Place::Shared(..))
}

/// Returns the words that were read, each once.
fn polled(reads: &[Read]) -> Vec<Polled> {
    let mut words = Vec::new();
    for read in reads {
        let (address, is_shared) = match read.place {
            Place::Global(address) => (address, false),
            Place::Shared(_, address) => (address, true),
            Place::Parameter(_) | Place::Local(_) => continue,
        };
        let word = Polled { address, is_shared, value: read.value };
        if !words.contains(&word) {
            words.push(word);
        }
    }
    words
}

impl fmt::Display for Polled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let memory = if self.is_shared { " of shared memory" } else { "" };
        write!(f, "the word at {:#x}{memory}, which is {}", self.address, self.value)
    }
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
        match &self.waits {
            Waits::Change(words) if words.is_empty() => f.write_str(" in a loop that nothing ends"),
            Waits::Change(words) => {
                f.write_str(" for a change of ")?;
                for (index, word) in words.iter().take(MOST).enumerate() {
                    write!(f, "{}{word}", if index > 0 { ", or of " } else { "" })?;
                }
                if words.len() > MOST { write!(f, ", or of {} more", words.len() - MOST) } else { Ok(()) }
            }
            Waits::Barrier { id } => write!(f, " for other threads of the block at barrier {id}"),
            Waits::Warp => f.write_str(" for other threads of the warp"),
            Waits::Cluster => f.write_str(" for other blocks of the cluster"),
            Waits::Ready => f.write_str(", but could go on"),
        }
    }
}
