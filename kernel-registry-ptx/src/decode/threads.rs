//! Decodes control flow, barriers, and collectives of a warp.

use crate::decode::compute::atomic::update;
use crate::decode::declare::Place;
use crate::decode::decoder::{Decoder, Decoding};
use crate::decode::opcode::Opcode;
use crate::error::Reason;
use crate::op::{Callee, Collective, Intrinsic, Op, Shuffle, Sizes, Tally, Vote};
use crate::parse::syntax::Operand;
use crate::slot::Slot;
use crate::types::Type;

impl<'a> Decoder<'a, '_> {
    pub(crate) fn control(&mut self, opcode: &mut Opcode<'a>, operands: &[Operand<'a>]) -> Decoding<()> {
        opcode.ignore("uni");
        let op = match (opcode.name, operands) {
            ("bra", [Operand::Name(label)]) => Op::Branch { to: self.label(label)? },
            ("brx", [index, Operand::Name(table)]) if opcode.take("idx") => {
                Op::Switch { index: self.source(index, Type::U32)?, targets: self.table(table)? }
            }
            ("call", operands) => self.call(operands)?,
            ("ret", []) => Op::Return,
            ("exit", []) => Op::Exit,
            ("trap", []) => Op::Trap,
            _ => return Err(Reason::Operands),
        };
        self.emit(op);
        Ok(())
    }

    /// Decodes `call (results), function, (arguments), prototype`, where everything except the function may
    /// be missing.
    fn call(&mut self, operands: &[Operand<'a>]) -> Decoding<Op> {
        let (results, operands) = match operands {
            [Operand::List(results), rest @ ..] => (&results[..], rest),
            rest => (&[][..], rest),
        };
        let (name, arguments, prototype) = match operands {
            [Operand::Name(name)] => (*name, &[][..], None),
            [Operand::Name(name), Operand::List(arguments)] => (*name, &arguments[..], None),
            [Operand::Name(name), Operand::Name(prototype)] => (*name, &[][..], Some(*prototype)),
            [Operand::Name(name), Operand::List(arguments), Operand::Name(prototype)] => {
                (*name, &arguments[..], Some(*prototype))
            }
            _ => return Err(Reason::Instruction),
        };
        let (arguments, parameters) = self.passed(arguments)?;
        let (results, returns) = self.passed(results)?;
        let found = Sizes { parameters, returns };
        let (callee, expected) = match (self.lookup(name), prototype) {
            (Some(Place::Function(function)), None) => {
                (Callee::Known(function), self.shared.sizes(function).ok_or(Reason::Operands)?)
            }
            (Some(Place::Register(address, _)), Some(prototype)) => {
                let expected = self.prototype(prototype)?;
                (Callee::At(address, Box::new(expected.clone())), expected)
            }
            (None, None) => {
                let what = Intrinsic::named(name).ok_or_else(|| self.shared.unknown(name))?;
                let op = Op::Intrinsic { what, arguments, results };
                return if found == what.sizes() { Ok(op) } else { Err(Reason::Operands) };
            }
            _ => return Err(Reason::Operands),
        };
        if found == expected { Ok(Op::Call { callee, arguments, results }) } else { Err(Reason::Operands) }
    }

    /// Returns the offsets in the frame of the values that a call passes, and their sizes.
    fn passed(&mut self, list: &[Operand<'a>]) -> Decoding<(Box<[u64]>, Vec<u64>)> {
        let mut offsets = Vec::new();
        let mut sizes = Vec::new();
        for operand in list {
            let Operand::Name(name) = operand else { return Err(Reason::Operands) };
            let Some(Place::Frame(offset, size, _)) = self.lookup(name) else {
                return Err(Reason::Name((*name).to_owned()));
            };
            offsets.push(offset);
            sizes.push(size);
        }
        Ok((offsets.into(), sizes))
    }

    pub(crate) fn barrier(&mut self, opcode: &mut Opcode<'a>, operands: &[Operand<'a>]) -> Decoding<()> {
        opcode.ignore("cta aligned");
        if opcode.take("warp") {
            opcode.take("sync");
            let [members] = operands else { return Err(Reason::Operands) };
            let to = self.register();
            return self.emit_together(Collective::Sync, to, None, &[], members);
        }
        if opcode.take("cluster") {
            opcode.ignore("release acquire relaxed");
            let op = if opcode.take("arrive") { Op::ClusterArrive } else { Op::ClusterWait };
            opcode.take("wait");
            self.emit(op);
            return Ok(());
        }
        let (mut vote, mut operands) = (None, operands);
        let waits = !opcode.take("arrive");
        if opcode.take("red") {
            let tally = match opcode.take_any(&["popc", "and", "or"]).ok_or(Reason::Instruction)? {
                "popc" => Tally::Count,
                "and" => Tally::All,
                _ => Tally::Any,
            };
            opcode.kind();
            let [to, rest @ .., from] = operands else { return Err(Reason::Operands) };
            vote = Some((self.target(to)?, tally, self.source(from, Type::Pred)?));
            operands = rest;
        } else if waits && !opcode.take("sync") {
            return Err(Reason::Instruction);
        }
        let (id, count) = match operands {
            [id] => (id, None),
            [id, count] => (id, Some(self.source(count, Type::U32)?)),
            _ => return Err(Reason::Operands),
        };
        let id = self.source(id, Type::U32)?;
        self.emit(Op::Barrier { id, count, waits, vote });
        Ok(())
    }

    pub(crate) fn together(&mut self, opcode: &mut Opcode<'a>, operands: &[Operand<'a>]) -> Decoding<()> {
        let kind = opcode.kind().ok_or(Reason::Instruction)?;
        if opcode.name == "activemask" {
            let [to] = operands else { return Err(Reason::Operands) };
            let to = self.target(to)?;
            self.emit(Op::ActiveMask { to });
            return Ok(());
        }
        if !opcode.take("sync") {
            return Err(Reason::Instruction);
        }
        let mode = opcode.modifiers.pop().ok_or(Reason::Instruction)?;
        let what = match (opcode.name, mode) {
            ("shfl", "up") => Collective::Shuffle(Shuffle::Up),
            ("shfl", "down") => Collective::Shuffle(Shuffle::Down),
            ("shfl", "bfly") => Collective::Shuffle(Shuffle::Butterfly),
            ("shfl", "idx") => Collective::Shuffle(Shuffle::Index),
            ("vote", "all") => Collective::Vote(Vote::All),
            ("vote", "any") => Collective::Vote(Vote::Any),
            ("vote", "uni") => Collective::Vote(Vote::Uniform),
            ("vote", "ballot") => Collective::Vote(Vote::Ballot),
            ("match", "any" | "all") => Collective::Match { all: mode == "all", wide: kind.size() == 8 },
            ("redux", name) => Collective::Reduce(update(name, kind, false).ok_or(Reason::Instruction)?),
            _ => return Err(Reason::Instruction),
        };
        let [to, operands @ .., members] = operands else { return Err(Reason::Operands) };
        let (to, also) = match to {
            Operand::Pair(to, also) => (Operand::Name(to), Some(self.target(&Operand::Name(also))?)),
            to => (to.clone(), None),
        };
        let to = self.target(&to)?;
        self.emit_together(what, to, also, operands, members)
    }

    /// Decodes `elect.sync`, which elects the first of the members.
    pub(crate) fn elect(&mut self, opcode: &mut Opcode<'a>, operands: &[Operand<'a>]) -> Decoding<()> {
        let [Operand::Pair(to, elected), members] = operands else { return Err(Reason::Operands) };
        if !opcode.take("sync") {
            return Err(Reason::Instruction);
        }
        let (to, elected) = (self.target(&Operand::Name(to))?, self.target(&Operand::Name(elected))?);
        self.emit_together(Collective::Elect, to, Some(elected), &[], members)
    }

    fn emit_together(
        &mut self,
        what: Collective,
        to: Slot,
        also: Option<Slot>,
        from: &[Operand<'a>],
        members: &Operand<'a>,
    ) -> Decoding<()> {
        let mut operands = [self.bits(0); 3];
        for (slot, operand) in operands.iter_mut().zip(from) {
            *slot = self.source(operand, Type::U32)?;
        }
        let members = self.source(members, Type::U32)?;
        self.emit(Op::Collective { what, to, also, operands, members });
        Ok(())
    }
}
