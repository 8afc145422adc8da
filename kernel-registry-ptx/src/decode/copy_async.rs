//! Decodes `cp.async`: asynchronous copies between global and shared memory. The copies are done at once,
//! which PTX allows.

use crate::address::Space;
use crate::decode::decoder::{Decoder, Decoding};
use crate::decode::opcode::Opcode;
use crate::decode::operands::{PREDICATE, WORD};
use crate::error::Reason;
use crate::op::Op;
use crate::parse::syntax::Operand;
use crate::slot::Address;
use crate::types::{Compute, Scalar, Type, each, lanes};

impl<'a> Decoder<'a, '_> {
    pub(crate) fn copy_async(&mut self, opcode: &mut Opcode<'a>, operands: &[Operand<'a>]) -> Decoding<()> {
        if !opcode.take("async") {
            return Err(Reason::Instruction);
        }
        if opcode.take("mbarrier") {
            return self.arrive_of_copies(opcode, operands);
        }
        let bulk = opcode.take("bulk");
        if bulk && opcode.take("prefetch") {
            opcode.modifiers.clear();
            self.emit(Op::Nothing);
            return Ok(());
        }
        if opcode.take("read") && !bulk {
            return Err(Reason::Instruction);
        }
        if let Some(what) = opcode.take_any(&["commit_group", "wait_group", "wait_all"]) {
            match (what, operands) {
                ("wait_group", [Operand::Integer(_)]) | ("commit_group" | "wait_all", []) => {}
                _ => return Err(Reason::Operands),
            }
            self.emit(Op::Nothing);
            return Ok(());
        }
        if bulk {
            return self.copy_bulk(opcode, operands);
        }
        opcode.ignore("ca cg L2::64B L2::128B L2::256B");
        if opcode.take_any(&["shared", "shared::cta"]).is_none() || !opcode.take("global") {
            return Err(Reason::Instruction);
        }
        let [to, from, Operand::Integer(size @ (4 | 8 | 16)), rest @ ..] = operands else {
            return Err(Reason::Operands);
        };
        let to = self.address(Space::Shared, to)?;
        let from = self.address(Space::Global, from)?;
        match rest {
            [] => self.copy_whole(to, from, *size),
            [Operand::Integer(all)] if all == size => self.copy_whole(to, from, *size),
            [some] => self.copy_some(to, from, *size, some)?,
            _ => return Err(Reason::Operands),
        }
        Ok(())
    }

    /// Decodes `cp.async.bulk` without a tensor: a copy into shared memory, for which a barrier counts the
    /// bytes, or out of shared memory.
    fn copy_bulk(&mut self, opcode: &mut Opcode<'a>, operands: &[Operand<'a>]) -> Decoding<()> {
        let counts = opcode.take("mbarrier::complete_tx::bytes");
        if !counts && !opcode.take("bulk_group") {
            return Err(Reason::Instruction);
        }
        let spaces = opcode.modifiers.split_off(0);
        let (to, from) = match spaces[..] {
            ["shared::cluster" | "shared::cta", "global"] if counts => (Space::Shared, Space::Global),
            ["shared::cluster", "shared::cta"] if counts => (Space::Shared, Space::Shared),
            ["global", "shared::cta"] if !counts => (Space::Global, Space::Shared),
            _ => return Err(Reason::Instruction),
        };
        let [to_place, from_place, size, barrier @ ..] = operands else { return Err(Reason::Operands) };
        let (to, from) = (self.address(to, to_place)?, self.address(from, from_place)?);
        let size = self.source(size, Type::U32)?;
        self.emit(Op::Copy { to, from, size });
        match barrier {
            [barrier] if counts => {
                let barrier = self.address(Space::Shared, barrier)?;
                self.complete(barrier, size);
                Ok(())
            }
            [] if !counts => Ok(()),
            _ => Err(Reason::Operands),
        }
    }

    /// Decodes `cp.async.mbarrier.arrive`. Without `noinc`, the instruction also raises the number of
    /// expected arrivals, so it changes nothing.
    fn arrive_of_copies(&mut self, opcode: &mut Opcode<'a>, operands: &[Operand<'a>]) -> Decoding<()> {
        let arrives = opcode.take("noinc");
        let shared = opcode.take_any(&["shared", "shared::cta"]).is_some();
        if !opcode.take("arrive") || opcode.kind() != Some(Type::U64) {
            return Err(Reason::Instruction);
        }
        let [barrier] = operands else { return Err(Reason::Operands) };
        let space = if shared { Space::Shared } else { Space::Generic };
        let address = self.address(space, barrier)?;
        if arrives {
            self.arrive_behind_copies(address);
        }
        Ok(())
    }

    fn copy_whole(&mut self, to: Address, from: Address, size: u64) {
        let parts: Box<[_]> = (0..size / 4).map(|_| self.register()).collect();
        self.emit(Op::Load { to: parts.clone(), kind: Type::U32, address: from });
        self.emit(Op::Store { from: parts, kind: Type::U32, address: to });
    }

    /// Copies as many bytes as a register says, and writes zeros after them. If the operand is a predicate
    /// instead, a true predicate means that no bytes are copied.
    fn copy_some(&mut self, to: Address, from: Address, size: u64, some: &Operand<'a>) -> Decoding<()> {
        let some = if self.fits(some, WORD, false).is_ok() {
            self.source(some, Type::U32)?
        } else {
            self.fits(some, PREDICATE, false)?;
            let (ignored, all, some) = (self.source(some, Type::Pred)?, self.bits(size), self.register());
            let count = lanes!(_, |ignored: bool, all: u32| if ignored { 0 } else { all });
            self.apply(count, some, &[ignored, all]);
            some
        };
        let guard = self.guard.take();
        let holds = match guard {
            Some((slot, true)) => self.negated(slot),
            Some((slot, false)) => slot,
            None => self.bits(1),
        };
        let (value, wanted, zero) = (self.register(), self.register(), self.bits(0));
        let mut parts = Vec::new();
        for byte in 0..size {
            let part = self.register();
            let number = self.bits(byte);
            self.guard = None;
            self.apply(
                lanes!(_, |some: u32, number: u32, holds: bool| holds && number < some),
                wanted,
                &[some, number, holds],
            );
            self.copy(part, zero);
            self.guard = Some((wanted, false));
            let address = Address { offset: from.offset + byte as i64, ..from };
            self.emit(Op::Load { to: [value].into(), kind: Type::U8, address });
            self.copy(part, value);
            parts.push(part);
        }
        self.guard = guard;
        for (byte, part) in (0..).zip(parts) {
            let address = Address { offset: to.offset + byte, ..to };
            self.emit(Op::Store { from: [part].into(), kind: Type::U8, address });
        }
        Ok(())
    }
}
