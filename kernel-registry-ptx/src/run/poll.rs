//! Detects threads that poll: a loop that repeats without an effect until a value in memory changes. Unlike [`Spin`], which
//! is there to give turns to others, this knows which values those are, of each group of threads.
//!
//! [`Spin`]: super::spin::Spin

use crate::address::{Place, Space};
use crate::op::Op;
use crate::program::Program;
use crate::run::fault::FaultKind;
use crate::run::warp::{Context, Warp};
use crate::types::each;

/// More reads than these between two equal states aren't a poll.
const MOST: usize = 256;

/// A loop that reads the same values so often in a row polls, even if it counts how often.
const STUTTERS: u32 = 16;

/// A read of a lane, and its value.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Read {
    pub lane: u8,
    pub place: Place,
    pub size: u64,
    pub value: u64,
    pub line: u32,
    /// Whether the access is atomic, volatile or ordered, so that others may write meanwhile.
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
    fn new(lanes: u32, hash: u64) -> Self {
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

    fn jump(&mut self, hash: u64, patience: u32) {
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

impl Warp {
    /// Returns the poll of a split, if it polls.
    pub(crate) fn polls(&self, index: usize) -> Option<&Poll> {
        let lanes = self.splits[index].lanes;
        self.polls.iter().find(|poll| poll.lanes == lanes && poll.polling != Polling::No)
    }

    /// Forgets the polls of these lanes: they have had an effect.
    pub(crate) fn forget_polls(&mut self, lanes: u32) {
        if !self.polls.is_empty() {
            self.polls.retain(|poll| poll.lanes & lanes == 0);
        }
    }

    /// Notes that lanes have arrived at a barrier.
    pub(crate) fn note_barrier(&mut self, lanes: u32) {
        self.polls.iter_mut().filter(|poll| poll.lanes & lanes != 0).for_each(|poll| poll.has_barrier = true);
    }

    /// Remembers what the next instruction of a split is about to read.
    pub(crate) fn note_reads(&mut self, index: usize, context: &mut Context<'_>) {
        let split = &self.splits[index];
        let (lanes, base, frame) = (split.lanes, split.base, split.local);
        let Some(poll) = self.polls.iter().position(|poll| poll.lanes == lanes) else { return };
        let program = context.program;
        let instruction = &program.instructions[split.at];
        let (address, size) = match &instruction.op {
            Op::Load { to, kind, address } => (address, kind.size() * to.len() as u64),
            Op::Atomic { kind, address, .. } => (address, kind.size()),
            Op::Clock { .. } => {
                self.polls[poll].is_timed = true;
                return;
            }
            _ => return,
        };
        if matches!(address.space, Space::Frame | Space::Parameter) || self.polls[poll].reads.len() > MOST {
            return;
        }
        let is_strong = instruction.order.is_strong();
        let lanes = self.guarded(index, context);
        let addresses = self.addresses(context, address, lanes, base).0;
        let mut reads = Vec::new();
        each(lanes, |lane| {
            let place = address.space.place(addresses[lane], frame);
            // Of a vector, eight bytes at a time.
            for offset in (0..size).step_by(8) {
                let (place, size) = (beyond(place, offset), (size - offset).min(8));
                if let Ok(value) = self.read_at(context, lane, place, size) {
                    reads.push(Read {
                        lane: lane as u8,
                        place,
                        size,
                        value,
                        line: instruction.line,
                        is_strong,
                    });
                }
            }
        });
        self.polls[poll].reads.append(&mut reads);
    }

    /// Notes that a split has jumped backward, over these instructions.
    pub(crate) fn note_jump(&mut self, index: usize, program: &Program) {
        let lanes = self.splits[index].lanes;
        let hash = self.hash_of_split(index, program);
        match self.polls.iter_mut().find(|poll| poll.lanes == lanes) {
            Some(poll) => poll.jump(hash, STUTTERS << self.releases.min(20)),
            None => {
                self.forget_polls(lanes);
                self.polls.push(Poll::new(lanes, hash));
            }
        }
    }

    /// Ends the polls that read other values now.
    pub(crate) fn end_polls(&mut self, context: &mut Context<'_>) {
        let polls = std::mem::take(&mut self.polls);
        let mut same = |read: &Read| {
            self.read_at(context, read.lane.into(), read.place, read.size) == Ok::<u64, FaultKind>(read.value)
        };
        let stays = |poll: &Poll| poll.polling == Polling::No || poll.reads.iter().all(&mut same);
        let mut stays = stays;
        let left = polls.into_iter().filter(|poll| stays(poll)).collect();
        self.polls = left;
    }

    /// Returns a hash of the position and the registers of a split, without registers that depend on a clock.
    fn hash_of_split(&self, index: usize, program: &Program) -> u64 {
        let mut hash = 0u64;
        let mut add = |value: u64| hash = (hash.rotate_left(5) ^ value).wrapping_mul(0x517c_c1b7_2722_0a95);
        let split = &self.splits[index];
        add(split.at as u64);
        split.calls.iter().for_each(|call| add(call.at as u64));
        let function = &program.functions[split.function];
        let own = self.rows[split.base..].iter().take(function.registers).zip(&function.timed);
        let own = own.filter(|(_, timed)| !**timed).map(|(row, _)| row);
        for row in self.rows[..split.base].iter().chain(own) {
            each(split.lanes, |lane| add(row[lane].get()));
        }
        hash
    }
}

fn beyond(place: Place, offset: u64) -> Place {
    match place {
        Place::Global(address) => Place::Global(address + offset),
        Place::Shared(block, address) => Place::Shared(block, address + offset),
        Place::Local(address) => Place::Local(address + offset),
        Place::Parameter(address) => Place::Parameter(address + offset),
    }
}
