//! Follows the loops of a warp, to know which groups of threads poll.

use crate::address::{Place, Space};
use crate::op::Op;
use crate::program::Program;
use crate::run::fault::FaultKind;
use crate::run::poll::{MOST, Poll, Polling, Read, STUTTERS};
use crate::run::warp::{Context, Warp};
use crate::types::each;

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
