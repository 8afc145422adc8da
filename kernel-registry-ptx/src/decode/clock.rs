//! Finds the registers whose values depend on a clock.

use crate::address::Space;
use crate::op::Op;
use crate::program::Program;
use crate::slot::{Rows, Slot};

/// Marks in each function the registers that depend on a clock: a clock is read into them, or they are
/// computed from such registers. A loop that changes only such registers is waiting.
pub(crate) fn mark(program: &mut Program) {
    let clock = |function: usize| {
        program.instructions[program.range(function)].iter().any(|found| matches!(found.op, Op::Clock { .. }))
    };
    let clocks: Vec<bool> = (0..program.functions.len()).map(clock).collect();
    // A called function returns its results in the frame, so frames may hold clock values.
    let frames = program.functions.iter().zip(&clocks).any(|(function, clock)| *clock && !function.entry);
    for (index, clock) in clocks.into_iter().enumerate() {
        program.functions[index].timed = if clock || frames {
            timed(program, index, frames)
        } else {
            vec![false; program.functions[index].registers]
        };
    }
}

/// Returns for each register of a function whether it depends on a clock, or on the frame if `frames` may
/// hold clock values.
fn timed(program: &Program, function: usize, frames: bool) -> Vec<bool> {
    let mut timed = vec![false; program.functions[function].registers];
    let register = |slot: &Slot| matches!(slot.rows(), Rows::Register).then(|| slot.index());
    loop {
        let mut more = false;
        for instruction in &program.instructions[program.range(function)] {
            let (mut reads, writes) = instruction.op.touches();
            reads.extend(instruction.guard.map(|(slot, _)| slot));
            let from_clock = match &instruction.op {
                Op::Clock { .. } => true,
                Op::Load { address, .. } if frames && address.space == Space::Frame => true,
                _ => reads.iter().filter_map(register).any(|index| timed[index]),
            };
            for index in writes.iter().filter_map(register).filter(|_| from_clock) {
                more |= !timed[index];
                timed[index] = true;
            }
        }
        if !more {
            return timed;
        }
    }
}
