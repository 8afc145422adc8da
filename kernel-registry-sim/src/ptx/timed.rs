//! Which registers hold what a clock decided.

use super::address::Space;
use super::op::{Op, Rows, Slot};
use super::program::Program;

/// Marks, in each function, the registers that depend on a clock: those it is read into, and all that is computed
/// from them. A loop that changes nothing but these waits for something else.
pub(super) fn mark(program: &mut Program) {
    let ends: Vec<usize> = program.functions.iter().skip(1).map(|function| function.start as usize).collect();
    let ends = ends.into_iter().chain([program.instructions.len()]);
    let ranges: Vec<_> = program.functions.iter().map(|f| f.start as usize).zip(ends).collect();
    let clock = |(start, end): &(usize, usize)| {
        program.instructions[*start..*end].iter().any(|found| matches!(found.op, Op::Clock { .. }))
    };
    let entries: Vec<usize> = program.kernels.values().map(|kernel| kernel.function).collect();
    // What a function returns comes back through the frame.
    let frames = ranges.iter().enumerate().any(|(index, range)| !entries.contains(&index) && clock(range));

    for (function, &(start, end)) in program.functions.iter_mut().zip(&ranges) {
        let mut timed = vec![false; function.registers];
        let register = |slot: &Slot| matches!(slot.rows(), Rows::Register).then(|| slot.index());
        loop {
            let mut more = false;
            for instruction in &program.instructions[start..end] {
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
                break;
            }
        }
        function.timed = timed;
    }
}
