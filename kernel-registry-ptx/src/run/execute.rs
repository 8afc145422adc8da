//! Executes single instructions.

use std::sync::atomic::{Ordering, fence};

use crate::op::{Callee, Op};
use crate::program::function_at;
use crate::run::block::Votes;
use crate::run::fault::FaultKind;
use crate::run::warp::{Call, Context, Lane, Next, Split, Stopped, Wait, Warp, mask};
use crate::types::each;

impl Warp {
    /// Executes the next instruction of a split.
    #[inline]
    pub(crate) fn execute(&mut self, index: usize, context: &mut Context<'_>) -> Result<Next, Stopped> {
        let program = context.program;
        let Split { at, lanes: all, base, .. } = self.splits[index];
        let instruction = &program.instructions[at];
        let mut lanes = all;
        if let Some((slot, negated)) = instruction.guard {
            let row = self.row(context, base, slot);
            let set =
                row.iter().enumerate().fold(0, |set, (lane, bit)| set | ((bit.get() & 1) as u32) << lane);
            lanes &= if negated { !set } else { set };
            if lanes == 0 {
                self.splits[index].at += 1;
                return Ok(Next::Continue);
            }
        }
        let row = |slot| self.row(context, base, slot);
        match &instruction.op {
            Op::One(function, how, to, a) => function(*how, lanes, row(*to), row(*a)),
            Op::Two(function, how, to, [a, b]) => function(*how, lanes, row(*to), row(*a), row(*b)),
            Op::Three(function, how, to, [a, b, c]) => {
                function(*how, lanes, row(*to), row(*a), row(*b), row(*c))
            }
            Op::Four(function, how, to, from) => function(*how, lanes, row(*to), from.map(row)),
            Op::Frame { to, offset } => {
                let value = self.splits[index].local + offset;
                each(lanes, |lane| row(*to)[lane].set(value));
            }
            Op::Clock { to, cycles, shift } => {
                let now = if *cycles { context.memory.cycles() } else { context.memory.now() };
                each(lanes, |lane| row(*to)[lane].set(now >> shift));
            }
            Op::ActiveMask { to } => each(lanes, |lane| row(*to)[lane].set(u64::from(lanes))),
            Op::Fence => fence(Ordering::SeqCst),
            Op::Nothing => {}
            Op::Load { .. } | Op::Store { .. } | Op::Atomic { .. } | Op::Copy { .. } => {
                let (local, op) = (self.splits[index].local, &instruction.op);
                let changed = self
                    .access(context, op, lanes, base, local)
                    .map_err(|(lane, kind)| Stopped { at, lane, kind })?;
                if changed {
                    self.spin.restart();
                }
            }
            _ => {
                let next =
                    self.control(index, context, lanes).map_err(|(lane, kind)| Stopped { at, lane, kind })?;
                // Lanes whose guard is false were split off, so the scheduler has to choose again.
                return Ok(if lanes == all { next } else { Next::Yield });
            }
        }
        self.splits[index].at += 1;
        Ok(Next::Continue)
    }

    /// Executes control flow, barriers and collectives.
    fn control(&mut self, index: usize, context: &mut Context<'_>, lanes: u32) -> Lane<Next> {
        let program = context.program;
        let Split { at, lanes: all, base, local, .. } = self.splits[index];
        let op = &program.instructions[at].op;
        if lanes != all {
            // Lanes whose guard is false continue after the instruction.
            self.split_off(index, all & !lanes, at + 1);
        }
        let first = lanes.trailing_zeros() as usize;
        let uniform =
            |warp: &Self, context: &Context<'_>, slot| warp.row(context, base, slot)[first].get() as u32;
        match op {
            Op::Branch { to } => {
                self.splits[index].at = *to as usize;
                if *to as usize <= at {
                    self.note_back_edge(program, *to as usize..at);
                    return Ok(Next::BackEdge);
                }
                return Ok(Next::Continue);
            }
            Op::Switch { index: by, targets } => {
                let mut left = lanes;
                while left != 0 {
                    let row = self.row(context, base, *by);
                    let lane = left.trailing_zeros() as usize;
                    let chosen = row[lane].get() as u32;
                    let target = *targets.get(chosen as usize).ok_or((lane, FaultKind::Trap))?;
                    let taken = left & mask(|lane| row[lane].get() as u32 == chosen);
                    self.split_off(index, taken, target as usize);
                    left &= !taken;
                }
                self.splits.swap_remove(index);
                self.note_back_edge(program, at..at);
                return Ok(Next::Yield);
            }
            Op::Call { callee, arguments, .. } => {
                let (number, lanes) = self.callee(index, context, callee)?;
                let caller = &program.functions[self.splits[index].function];
                let function = &program.functions[number];
                let inner = local + caller.frame;
                if inner + function.frame > self.local_size {
                    return Err((first, FaultKind::Stack { limit: self.local_size }));
                }
                for (from, (place, size)) in arguments.iter().zip(&function.parameters) {
                    self.copy_local(lanes, local + from, inner + place, *size);
                }
                self.reserve(base + caller.registers + function.registers);
                let split = &mut self.splits[index];
                split.calls.push(Call { at, function: split.function, base, local });
                split.function = number;
                split.base = base + caller.registers;
                split.local = inner;
                split.at = function.start as usize;
                return Ok(Next::Yield);
            }
            Op::Return => {
                let Some(call) = self.splits[index].calls.pop() else {
                    self.end(index, context);
                    return Ok(Next::Yield);
                };
                if let Op::Call { results, .. } = &program.instructions[call.at].op {
                    let function = &program.functions[self.splits[index].function];
                    for (to, (place, size)) in results.iter().zip(&function.returns) {
                        self.copy_local(lanes, local + place, call.local + to, *size);
                    }
                }
                let split = &mut self.splits[index];
                (split.at, split.function, split.base, split.local) =
                    (call.at + 1, call.function, call.base, call.local);
                return Ok(Next::Yield);
            }
            Op::Exit => {
                self.end(index, context);
                return Ok(Next::Yield);
            }
            Op::Trap => return Err((first, FaultKind::Trap)),
            Op::Intrinsic { what, arguments, results } => {
                self.intrinsic(context, *what, lanes, local, arguments, results)?;
                self.spin.restart();
            }
            Op::Collective { what, to, also, operands, members } => {
                return Ok(self.together(index, context, (*what, *to, *also, *operands, *members)));
            }
            Op::Barrier { id, count, waits, vote } => {
                let id = uniform(self, context, *id) as usize;
                // A barrier with a count counts whole warps, including lanes that are no threads or have
                // ended.
                let expected = count.map(|count| uniform(self, context, count));
                let arriving = if expected.is_some() && lanes == self.live { 32 } else { lanes.count_ones() };
                let votes = vote.map_or(Votes::default(), |(_, _, from)| {
                    let row = self.row(context, base, from);
                    let yes = mask(|lane| row[lane].get() & 1 == 1);
                    Votes { yes: (lanes & yes).count_ones(), no: (lanes & !yes).count_ones() }
                });
                let block = &mut context.blocks[self.block];
                let live = block.live;
                let barrier =
                    block.barriers.get_mut(id).ok_or((first, FaultKind::Barrier { id: id as u32 }))?;
                let generation = barrier.generation;
                barrier.arrive(arriving, votes, expected, live);
                if *waits {
                    let vote = vote.map(|(to, tally, _)| (to, tally));
                    self.splits[index].wait = Wait::Barrier { id, generation, vote };
                }
                self.spin.restart();
            }
            Op::Matrix(together) => return self.matrix(index, context, together),
            Op::ClusterArrive => {
                self.splits[index].arrived = context.barrier.generation;
                let live = context.blocks.iter().map(|block| block.live).sum();
                context.barrier.arrive(lanes.count_ones(), Votes::default(), None, live);
                self.spin.restart();
            }
            Op::ClusterWait => self.splits[index].wait = Wait::Cluster,
            _ => unreachable!("the other instructions move no threads"),
        }
        self.splits[index].at += 1;
        Ok(Next::Yield)
    }
}

impl Warp {
    /// Returns the function that the first lane of a split calls, and the lanes that call the same one.
    /// Splits the other lanes off to execute the call again.
    fn callee(&mut self, index: usize, context: &Context<'_>, callee: &Callee) -> Lane<(usize, u32)> {
        let Split { at, lanes, base, .. } = self.splits[index];
        let (slot, expected) = match callee {
            Callee::Known(function) => return Ok((*function, lanes)),
            Callee::At(slot, expected) => (*slot, expected),
        };
        let first = lanes.trailing_zeros() as usize;
        let row = self.row(context, base, slot);
        let address = row[first].get();
        let same = lanes & mask(|lane| row[lane].get() == address);
        let found =
            function_at(address).and_then(|number| Some((number, context.program.functions.get(number)?)));
        let Some((number, _)) = found.filter(|(_, function)| function.takes(expected)) else {
            return Err((first, FaultKind::Call { address }));
        };
        if same != lanes {
            self.split_off(index, lanes & !same, at);
        }
        Ok((number, same))
    }
}
