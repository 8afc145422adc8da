//! Estimates the registers of a kernel by a liveness analysis. A register is live while its value may still
//! be read. The estimate is the most registers that are live at once.
//!
//! The true number can differ: a compiler needs fewer registers if it recomputes values, and more if it loads
//! early. Without the estimate, every kernel would take the same share of a multiprocessor.

use crate::op::{Callee, Instruction, Op};
use crate::program::Program;
use crate::slot::{Rows, Slot};

/// Registers that the hardware needs: the stack pointer, and one that stays free.
const OWN: u32 = 2;

/// Registers are allocated in multiples of this number.
const STEP: u32 = 2;

/// The fewest and the most registers of a thread.
const FEWEST: u32 = 8;
const MOST: u32 = 255;

/// The most words of all liveness sets of a function. A larger function gets [`GUESS`] as its estimate.
const LARGEST: usize = 1 << 24;

/// The estimate for functions that are too large to analyse.
const GUESS: u32 = 32;

impl Program {
    /// Returns about how many registers a thread of a kernel takes. Only the driver's compiler knows the
    /// exact number.
    pub fn registers(&self, kernel: &str) -> Option<u32> {
        let kernel = self.kernels.get(kernel)?;
        Some(*kernel.registers.get_or_init(|| {
            let live = self.live_at_once(kernel.function, &mut Vec::new());
            let all = live.map_or(GUESS, |live| live.saturating_add(OWN));
            let threads = self.functions[kernel.function].max_threads.unwrap_or(1024).clamp(1, 1024) as u32;
            // A block of the largest size must fit on a multiprocessor.
            let most = ((64 << 10) / threads.next_multiple_of(128)).clamp(FEWEST, MOST);
            all.next_multiple_of(STEP).clamp(FEWEST, most)
        }))
    }

    /// Returns the most registers that are live at once in a function, including those of functions that it
    /// calls at that point. `None` if a function is too large.
    fn live_at_once(&self, function: usize, callers: &mut Vec<usize>) -> Option<u32> {
        if callers.contains(&function) {
            return Some(0);
        }
        let blocks = Blocks::find(self, function)?;
        let widths = &self.functions[function].widths;
        callers.push(function);
        let mut most = 0;
        for (index, block) in blocks.all.iter().enumerate() {
            let mut live = blocks.live_after(index);
            let mut sum: u32 = live.iter().map(|register| u32::from(widths[register])).sum();
            for instruction in self.instructions[block.clone()].iter().rev() {
                let (reads, writes) = touches(instruction);
                // A result needs its register even if nothing reads it.
                let written: u32 =
                    writes.iter().filter(|to| !live.has(**to)).map(|to| u32::from(widths[*to])).sum();
                let called = match instruction.op {
                    Op::Call { callee: Callee::Known(callee), .. } => self.live_at_once(callee, callers)?,
                    _ => 0,
                };
                most = most.max(sum + written.max(called));
                if instruction.guard.is_none() {
                    for to in writes.into_iter().filter(|to| live.remove(*to)) {
                        sum -= u32::from(widths[to]);
                    }
                }
                for from in reads.into_iter().filter(|from| live.insert(*from)) {
                    sum += u32::from(widths[from]);
                }
                most = most.max(sum);
            }
        }
        callers.pop();
        Some(most)
    }
}

/// Returns the registers that an instruction reads and writes.
fn touches(instruction: &Instruction) -> (Vec<usize>, Vec<usize>) {
    let registers = |slots: Vec<Slot>| -> Vec<usize> {
        let own = slots.into_iter().filter(|slot| matches!(slot.rows(), Rows::Register));
        own.map(Slot::index).collect()
    };
    let (mut reads, writes) = instruction.op.touches();
    reads.extend(instruction.guard.map(|(slot, _)| slot));
    (registers(reads), registers(writes))
}

/// A set of registers.
#[derive(Clone, PartialEq)]
struct Registers(Box<[u64]>);

impl Registers {
    fn none(count: usize) -> Self {
        Registers(vec![0; count.div_ceil(64)].into())
    }

    fn has(&self, register: usize) -> bool {
        self.0[register / 64] & 1 << (register % 64) != 0
    }

    /// Adds a register. Returns whether it is new.
    fn insert(&mut self, register: usize) -> bool {
        let is_new = !self.has(register);
        self.0[register / 64] |= 1 << (register % 64);
        is_new
    }

    /// Removes a register. Returns whether it was there.
    fn remove(&mut self, register: usize) -> bool {
        let was_there = self.has(register);
        self.0[register / 64] &= !(1 << (register % 64));
        was_there
    }

    fn add(&mut self, other: &Registers) {
        self.0.iter_mut().zip(&other.0).for_each(|(word, other)| *word |= other);
    }

    fn iter(&self) -> impl Iterator<Item = usize> {
        let words = self.0.iter().enumerate();
        words.flat_map(|(index, word)| {
            (0..64).filter(move |bit| word & 1 << bit != 0).map(move |bit| index * 64 + bit)
        })
    }
}

/// The basic blocks of a function, with their successors and the registers that are live at their starts.
struct Blocks {
    all: Vec<std::ops::Range<usize>>,
    next: Vec<Vec<usize>>,
    before: Vec<Registers>,
}

impl Blocks {
    /// Finds the basic blocks of a function, and the registers that are live at their starts. `None` if the
    /// function is too large.
    fn find(program: &Program, function: usize) -> Option<Self> {
        let range = program.range(function);
        let registers = program.functions[function].registers;
        let ops = &program.instructions[range.clone()];
        let mut starts = vec![range.start];
        for (index, instruction) in (range.start..).zip(ops) {
            let targets = targets(&instruction.op);
            if !targets.is_empty() || ends(&instruction.op) {
                starts.push(index + 1);
            }
            starts.extend(targets);
        }
        starts.retain(|start| range.contains(start));
        starts.sort_unstable();
        starts.dedup();
        if starts.len().saturating_mul(registers / 64 + 1) > LARGEST {
            return None;
        }
        let ends_at = starts.iter().skip(1).copied().chain([range.end]);
        let all: Vec<_> = starts.iter().copied().zip(ends_at).map(|(start, end)| start..end).collect();
        let block_at = |start: usize| starts.binary_search(&start).ok();
        let next = all.iter().map(|block| {
            let Some(last) = program.instructions[block.clone()].last() else { return Vec::new() };
            let mut next: Vec<usize> = targets(&last.op).into_iter().filter_map(block_at).collect();
            let is_always_taken = last.guard.is_none();
            if !(is_always_taken
                && (ends(&last.op) || matches!(last.op, Op::Branch { .. } | Op::Switch { .. })))
            {
                next.extend(block_at(block.end));
            }
            next
        });
        let next = next.collect();
        let before = vec![Registers::none(registers); all.len()];
        let mut blocks = Blocks { all, next, before };
        while blocks.advance(program) {}
        Some(blocks)
    }

    fn live_after(&self, block: usize) -> Registers {
        let mut live = Registers(vec![0; self.before[block].0.len()].into());
        self.next[block].iter().for_each(|next| live.add(&self.before[*next]));
        live
    }

    /// Does one round of the backward data-flow analysis. Returns whether it found more live registers.
    fn advance(&mut self, program: &Program) -> bool {
        let mut more = false;
        for index in (0..self.all.len()).rev() {
            let mut live = self.live_after(index);
            for instruction in program.instructions[self.all[index].clone()].iter().rev() {
                let (reads, writes) = touches(instruction);
                if instruction.guard.is_none() {
                    writes.into_iter().for_each(|to| _ = live.remove(to));
                }
                reads.into_iter().for_each(|from| _ = live.insert(from));
            }
            if live != self.before[index] {
                self.before[index] = live;
                more = true;
            }
        }
        more
    }
}

fn targets(op: &Op) -> Vec<usize> {
    match op {
        Op::Branch { to } => vec![*to as usize],
        Op::Switch { targets, .. } => targets.iter().map(|to| *to as usize).collect(),
        _ => Vec::new(),
    }
}

fn ends(op: &Op) -> bool {
    matches!(op, Op::Return | Op::Exit | Op::Trap)
}
