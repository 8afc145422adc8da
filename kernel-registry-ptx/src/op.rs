//! Defines the decoded instructions that the interpreter runs.

use crate::matrix::Together;
use crate::order::Order;
use crate::slot::{Address, Slot};
use crate::types::{Compute, How, Row, Type};

pub(crate) struct Instruction {
    /// The predicate that must be true for the instruction to execute, and whether it is negated.
    pub guard: Option<(Slot, bool)>,
    pub op: Op,
    pub line: u32,
    /// How memory is ordered, for accesses, fences and barriers.
    pub order: Order,
}

/// A function that computes the new value of an atomic update from the old value and two operands.
pub(crate) type Update = fn(u64, u64, u64) -> u64;

pub(crate) enum Op {
    One(Compute1, How, Slot, Slot),
    Two(Compute2, How, Slot, [Slot; 2]),
    Three(Compute3, How, Slot, [Slot; 3]),
    Four(Compute4, How, Slot, [Slot; 4]),
    /// Computes the address of a variable in the frame.
    Frame {
        to: Slot,
        offset: u64,
    },
    Load {
        to: Box<[Slot]>,
        kind: Type,
        address: Address,
    },
    Store {
        from: Box<[Slot]>,
        kind: Type,
        address: Address,
    },
    Atomic {
        to: Option<Slot>,
        update: Update,
        kind: Type,
        address: Address,
        operands: [Slot; 2],
    },
    /// Reads a clock. A changed clock doesn't count as progress.
    Clock {
        to: Slot,
        /// Whether the clock counts cycles rather than nanoseconds.
        cycles: bool,
        shift: u32,
    },
    ActiveMask {
        to: Slot,
    },
    /// Executes a collective for the lanes in the mask `members`.
    Collective {
        what: Collective,
        to: Slot,
        also: Option<Slot>,
        operands: [Slot; 3],
        members: Slot,
    },
    Barrier {
        id: Slot,
        count: Option<Slot>,
        waits: bool,
        vote: Option<(Slot, Tally, Slot)>,
    },
    Matrix(Box<Together>),
    /// Copies as many bytes as the register `size` says.
    Copy {
        to: Address,
        from: Address,
        size: Slot,
    },
    ClusterArrive,
    ClusterWait,
    Fence,
    Nothing,
    Branch {
        to: u32,
    },
    /// Branches to one of several targets.
    Switch {
        index: Slot,
        targets: Box<[u32]>,
    },
    /// Calls a function. Arguments and results are offsets in the caller's frame.
    Call {
        callee: Callee,
        arguments: Box<[u64]>,
        results: Box<[u64]>,
    },
    Intrinsic {
        what: Intrinsic,
        arguments: Box<[u64]>,
        results: Box<[u64]>,
    },
    Return,
    Exit,
    Trap,
}

/// The called function.
pub(crate) enum Callee {
    Known(usize),
    /// The function whose address is in a register. Its parameters and results must have these sizes.
    At(Slot, Box<Sizes>),
}

/// The sizes of a function's parameters and results.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Sizes {
    pub parameters: Vec<u64>,
    pub returns: Vec<u64>,
}

pub(crate) type Compute1 = fn(How, u32, &Row, &Row);
pub(crate) type Compute2 = fn(How, u32, &Row, &Row, &Row);
pub(crate) type Compute3 = fn(How, u32, &Row, &Row, &Row, &Row);
pub(crate) type Compute4 = fn(How, u32, &Row, [&Row; 4]);

impl Op {
    /// Makes an operation. Returns `None` if the function takes another number of operands.
    pub(crate) fn compute(function: Compute, how: How, to: Slot, from: &[Slot]) -> Option<Self> {
        Some(match (function, from) {
            (Compute::One(f), &[a]) => Self::One(f, how, to, a),
            (Compute::Two(f), &[a, b]) => Self::Two(f, how, to, [a, b]),
            (Compute::Three(f), &[a, b, c]) => Self::Three(f, how, to, [a, b, c]),
            (Compute::Four(f), &[a, b, c, d]) => Self::Four(f, how, to, [a, b, c, d]),
            _ => return None,
        })
    }

    /// Returns the slots that the operation reads and writes.
    pub(crate) fn touches(&self) -> (Vec<Slot>, Vec<Slot>) {
        match self {
            Self::One(_, _, to, a) => (vec![*a], vec![*to]),
            Self::Two(_, _, to, from) => (from.to_vec(), vec![*to]),
            Self::Three(_, _, to, from) => (from.to_vec(), vec![*to]),
            Self::Four(_, _, to, from) => (from.to_vec(), vec![*to]),
            Self::Load { to, address, .. } => (vec![address.base], to.to_vec()),
            Self::Store { from, address, .. } => {
                (from.iter().copied().chain([address.base]).collect(), vec![])
            }
            Self::Copy { to, from, size } => (vec![to.base, from.base, *size], vec![]),
            Self::Atomic { to, address, operands, .. } => {
                (vec![address.base, operands[0], operands[1]], to.iter().copied().collect())
            }
            Self::Collective { to, also, operands, members, .. } => {
                let reads = operands.iter().chain([members]).copied().collect();
                (reads, also.iter().copied().chain([*to]).collect())
            }
            Self::Matrix(together) => together.touches(),
            Self::Call { callee: Callee::At(address, _), .. } => (vec![*address], vec![]),
            Self::Switch { index, .. } => (vec![*index], vec![]),
            Self::Barrier { id, count, vote, .. } => {
                let voted = vote.iter().map(|(_, _, from)| *from);
                let reads = [*id].into_iter().chain(*count).chain(voted).collect();
                (reads, vote.iter().map(|(to, _, _)| *to).collect())
            }
            Self::Clock { to, .. } | Self::ActiveMask { to } | Self::Frame { to, .. } => (vec![], vec![*to]),
            _ => (vec![], vec![]),
        }
    }
}

/// How a barrier combines the predicates of a block's threads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Tally {
    Count,
    All,
    Any,
}

#[derive(Clone, Copy)]
pub(crate) enum Collective {
    /// `bar.warp.sync`.
    Sync,
    /// `elect.sync`.
    Elect,
    Shuffle(Shuffle),
    Vote(Vote),
    /// `match`. With `all`, the result is a match only if all members have the same value.
    Match {
        all: bool,
        wide: bool,
    },
    Reduce(Update),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Shuffle {
    Up,
    Down,
    Butterfly,
    Index,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Vote {
    All,
    Any,
    Uniform,
    Ballot,
}

/// A function that the driver provides to kernels.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Intrinsic {
    Printf,
    AssertFail,
    Malloc,
    Free,
    /// Returns memory for the arguments of a kernel that this kernel launches.
    ParameterBuffer,
    LaunchDevice,
}

impl Intrinsic {
    pub(crate) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "vprintf" => Self::Printf,
            "__assertfail" => Self::AssertFail,
            "malloc" => Self::Malloc,
            "free" => Self::Free,
            "cudaGetParameterBufferV2" | "__cudaCDP2GetParameterBufferV2" => Self::ParameterBuffer,
            "cudaLaunchDeviceV2" | "__cudaCDP2LaunchDeviceV2" => Self::LaunchDevice,
            _ => return None,
        })
    }

    pub(crate) fn sizes(self) -> Sizes {
        let (parameters, returns): (&[u64], &[u64]) = match self {
            Self::Printf => (&[8, 8], &[4]),
            Self::AssertFail => (&[8, 8, 4, 8, 8], &[]),
            Self::Malloc => (&[8], &[8]),
            Self::Free => (&[8], &[]),
            Self::ParameterBuffer => (&[8, 12, 12, 4], &[8]),
            Self::LaunchDevice => (&[8, 8], &[4]),
        };
        Sizes { parameters: parameters.to_vec(), returns: returns.to_vec() }
    }
}
