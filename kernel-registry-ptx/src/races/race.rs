//! Describes races for people.

use std::fmt;

use super::kind::AccessKind;
use super::shadow::Access;
use crate::order::Scope;

/// Two accesses to the same memory that nothing orders.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Race {
    /// Whether the memory is a block's shared memory, and not global.
    pub is_shared: bool,
    /// The address, or the offset in shared memory, of the word.
    pub address: u64,
    /// The access that came first in this run.
    pub first: Side,
    /// The other one.
    pub second: Side,
    /// How to order them.
    pub remedy: Remedy,
}

/// An access of a race.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Side {
    /// The kernel, as its image names it, or what else is done in a stream.
    pub kernel: String,
    /// `blockIdx` of the thread.
    pub block: [u32; 3],
    /// `threadIdx` of the thread.
    pub thread: [u32; 3],
    /// The kind of access.
    pub what: AccessKind,
    /// The scope of a strong access: an atomic, volatile or ordered one.
    pub scope: Option<Scope>,
    /// The line of the instruction in the PTX.
    pub line: u32,
    /// The text of that line. Empty for what isn't a kernel.
    pub instruction: String,
    /// File and line of the source, if the kernel was compiled with `-lineinfo`.
    pub place: Option<String>,
}

/// How to order the accesses of a race.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Remedy {
    /// Both threads are of a warp: `__syncwarp()`.
    SyncWarp,
    /// Both threads are of a block: `__syncthreads()`.
    SyncThreads,
    /// The scope of a strong access doesn't include the other thread.
    Scope(Scope),
    /// Both accesses are strong or could be, and one of them isn't.
    Atomic,
    /// A flag between blocks: a release after the first access, and an acquire before the second.
    Release(Scope),
    /// The grids are of different streams: an event, or the same stream.
    Streams,
}

impl Race {
    pub(super) fn new(
        is_shared: bool,
        address: u64,
        one: (Side, Access),
        two: (Side, Access),
        is_one_device: bool,
    ) -> Self {
        let ((first, a), (second, b)) = (one, two);
        let remedy = match (a.strong, b.strong) {
            (Some(one), Some(two)) if a.at != b.at => {
                let apart = if is_one_device { Scope::Device } else { Scope::System };
                if one.min(two) < apart { Remedy::Scope(apart) } else { Remedy::Atomic }
            }
            (Some(_), None) | (None, Some(_))
                if a.what == AccessKind::Update || b.what == AccessKind::Update =>
            {
                Remedy::Atomic
            }
            _ if a.at == b.at => Remedy::SyncWarp,
            _ if (a.at.grid, a.at.block) == (b.at.grid, b.at.block) => Remedy::SyncThreads,
            _ if a.at.grid == b.at.grid => Remedy::Release(Scope::Device),
            _ => Remedy::Streams,
        };
        Race { is_shared, address, first, second, remedy }
    }
}

impl Side {
    /// A read of the host.
    pub(super) fn of_host() -> Self {
        Side {
            kernel: "the host".to_owned(),
            block: [0; 3],
            thread: [0; 3],
            what: AccessKind::Read,
            scope: None,
            line: 0,
            instruction: String::new(),
            place: None,
        }
    }
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Side { kernel, block: [a, b, c], thread: [x, y, z], what, .. } = self;
        if self.instruction.is_empty() {
            return write!(f, "{kernel} {what} it");
        }
        write!(f, "`{kernel}`, block ({a}, {b}, {c}), thread ({x}, {y}, {z}), {what} it at ")?;
        match &self.place {
            Some(place) => f.write_str(place)?,
            None => write!(f, "line {} of the PTX: `{}`", self.line, self.instruction)?,
        }
        match self.scope {
            Some(scope) => write!(f, " (strong, at the scope of the {scope})"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Remedy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Remedy::SyncWarp => {
                f.write_str("call `__syncwarp()` between both: threads of a warp need not run together")
            }
            Remedy::SyncThreads => f.write_str("call `__syncthreads()` between both"),
            Remedy::Scope(scope) => {
                write!(f, "the scope has to include both threads: use that of the {scope}")
            }
            Remedy::Atomic => f.write_str("an atomic access doesn't order a plain one: make both atomic"),
            Remedy::Release(scope) => write!(
                f,
                "let the first thread release a flag at the scope of the {scope} after it, and the second acquire the flag before it \
                 (`cuda::atomic_ref`, or `__threadfence()` and a volatile flag on both sides)"
            ),
            Remedy::Streams => {
                f.write_str("put both into one stream, or let one stream wait for an event of the other")
            }
        }
    }
}

impl fmt::Display for Race {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Race { is_shared, address, first, second, remedy } = self;
        let memory = if *is_shared { "shared memory" } else { "global memory" };
        write!(
            f,
            "race on {memory} at {address:#x}: nothing orders two accesses. {first}. {second}. Remedy: {remedy}"
        )
    }
}
