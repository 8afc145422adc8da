//! Names of those who can take a step.

use std::error::Error;
use std::fmt::{self, Display, Formatter};
use std::str::FromStr;

/// Someone who can take a step.
///
/// The text form is what plans and records contain. Parsing accepts exactly the texts that formatting produces.
///
/// ```
/// use kernel_registry_schedule::Party;
///
/// let threads = Party::Threads { grid: 1, block: 3, warp: 0, lane: 16 };
/// assert_eq!(threads.to_string(), "grid 1 block 3 warp 0 lane 16");
/// assert_eq!("grid 1 block 3 warp 0 lane 16".parse(), Ok(threads));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Party {
    /// A thread of the host program.
    Host(u32),
    /// The head of a stream's queue, which starts.
    Stream(u32),
    /// The same, but the kernel at the head gets room for only one block at a time.
    ///
    /// A kernel that waits for another of its own blocks hangs on a busy GPU. This party makes the GPU busy.
    Room(u32),
    /// A block that becomes resident.
    Block {
        /// Number of the grid.
        grid: u32,
        /// Number of the block in the grid.
        block: u32,
    },
    /// Threads of a warp that run together.
    Threads {
        /// Number of the grid.
        grid: u32,
        /// Number of the block in the grid.
        block: u32,
        /// Number of the warp in the block.
        warp: u32,
        /// The lowest lane of the threads.
        lane: u32,
    },
}

impl Display for Party {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Party::Host(host) => write!(f, "host {host}"),
            Party::Stream(stream) => write!(f, "stream {stream}"),
            Party::Room(stream) => write!(f, "stream {stream} in little room"),
            Party::Block { grid, block } => write!(f, "grid {grid} block {block}"),
            Party::Threads { grid, block, warp, lane } => {
                write!(f, "grid {grid} block {block} warp {warp} lane {lane}")
            }
        }
    }
}

impl FromStr for Party {
    type Err = ParsePartyError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        parse(text).ok_or_else(|| ParsePartyError { text: text.to_owned() })
    }
}

fn parse(text: &str) -> Option<Party> {
    let words: Vec<&str> = text.split(' ').collect();
    Some(match words[..] {
        ["host", host] => Party::Host(number(host)?),
        ["stream", stream] => Party::Stream(number(stream)?),
        ["stream", stream, "in", "little", "room"] => Party::Room(number(stream)?),
        ["grid", grid, "block", block] => Party::Block { grid: number(grid)?, block: number(block)? },
        ["grid", grid, "block", block, "warp", warp, "lane", lane] => Party::Threads {
            grid: number(grid)?,
            block: number(block)?,
            warp: number(warp)?,
            lane: number(lane)?,
        },
        _ => return None,
    })
}

/// Parses a number as it's formatted: without a sign or leading zeros.
fn number(text: &str) -> Option<u32> {
    text.parse().ok().filter(|number: &u32| number.to_string() == text)
}

/// A text names no [`Party`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParsePartyError {
    /// The text.
    pub text: String,
}

impl Display for ParsePartyError {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` names no host, stream, block or threads", self.text.escape_debug())
    }
}

impl Error for ParsePartyError {}
