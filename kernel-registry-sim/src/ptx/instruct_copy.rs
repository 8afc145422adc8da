//! Copies from global to shared memory that go on beside the kernel: here they are done at once, as they may be.

use super::address::Space;
use super::decode::{Decoder, Decoding, Emit};
use super::error::Reason;
use super::op::{Address, Op};
use super::opcode::Opcode;
use super::operands::{PREDICATE, WORD};
use super::syntax::Operand;
use super::types::{Function, Scalar, Type, each, lanes};

impl<'a> Decoder<'a, '_> {
    pub(super) fn copy_async(
        &mut self,
        opcode: &mut Opcode<'a>,
        operands: &[Operand<'a>],
        emit: &mut Emit,
    ) -> Decoding<()> {
        if !opcode.take("async") {
            return Err(Reason::Instruction);
        }
        if let Some(what) = opcode.take_any(&["commit_group", "wait_group", "wait_all"]) {
            match (what, operands) {
                ("wait_group", [Operand::Integer(_)]) | ("commit_group" | "wait_all", []) => {}
                _ => return Err(Reason::Operands),
            }
            self.emit(emit, Op::Nothing);
            return Ok(());
        }
        opcode.ignore(&["ca", "cg", "L2::64B", "L2::128B", "L2::256B"]);
        if opcode.take_any(&["shared", "shared::cta"]).is_none() || !opcode.take("global") {
            return Err(Reason::Instruction);
        }
        let [to, from, Operand::Integer(size @ (4 | 8 | 16)), rest @ ..] = operands else {
            return Err(Reason::Operands);
        };
        let to = self.address(Space::Shared, to, emit)?;
        let from = self.address(Space::Global, from, emit)?;
        match rest {
            [] => self.copy_whole(to, from, *size, emit),
            [Operand::Integer(all)] if all == size => self.copy_whole(to, from, *size, emit),
            [some] => self.copy_some(to, from, *size, some, emit)?,
            _ => return Err(Reason::Operands),
        }
        Ok(())
    }

    fn copy_whole(&mut self, to: Address, from: Address, size: u64, emit: &Emit) {
        let parts: Box<[_]> = (0..size / 4).map(|_| self.register()).collect();
        self.emit(emit, Op::Load { to: parts.clone(), kind: Type::U32, address: from });
        self.emit(emit, Op::Store { from: parts, kind: Type::U32, address: to });
    }

    /// Copies as many bytes as a register says, and writes zeros behind them; none of all if it is a predicate that holds.
    fn copy_some(
        &mut self,
        to: Address,
        from: Address,
        size: u64,
        some: &Operand<'a>,
        emit: &mut Emit,
    ) -> Decoding<()> {
        let some = if self.fits(some, WORD, false).is_ok() {
            self.source(some, Type::U32, emit)?
        } else {
            self.fits(some, PREDICATE, false)?;
            let (ignored, all, some) =
                (self.source(some, Type::Pred, emit)?, self.bits(size), self.register());
            let count = lanes!(_, |ignored: bool, all: u32| if ignored { 0 } else { all });
            self.apply(count, some, &[ignored, all], emit);
            some
        };
        let guard = match emit.guard {
            Some((guard, true)) => self.negated(guard, &Emit { guard: None, line: emit.line }),
            Some((guard, false)) => guard,
            None => self.bits(1),
        };
        let (value, wanted, zero) = (self.register(), self.register(), self.bits(0));
        let mut parts = Vec::new();
        for byte in 0..size {
            let part = self.register();
            let number = self.bits(byte);
            let always = Emit { guard: None, line: emit.line };
            self.apply(
                lanes!(_, |some: u32, number: u32, guard: bool| guard && number < some),
                wanted,
                &[some, number, guard],
                &always,
            );
            self.copy(part, zero, &always);
            let address = Address { offset: from.offset + byte as i64, ..from };
            let guarded = Emit { guard: Some((wanted, false)), line: emit.line };
            self.emit(&guarded, Op::Load { to: [value].into(), kind: Type::U8, address });
            self.copy(part, value, &guarded);
            parts.push(part);
        }
        for (byte, part) in (0..).zip(parts) {
            let address = Address { offset: to.offset + byte, ..to };
            self.emit(emit, Op::Store { from: [part].into(), kind: Type::U8, address });
        }
        Ok(())
    }
}
