//! Decodes a statement into instructions: moves, memory accesses and arithmetic.

use crate::address::{LOCAL_WINDOW, SHARED_WINDOW, Space};
use crate::decode::compute::arithmetic::function;
use crate::decode::compute::atomic::update;
use crate::decode::compute::bits;
use crate::decode::declare::Place;
use crate::decode::decoder::{Decoder, Decoding};
use crate::decode::opcode::Opcode;
use crate::error::Reason;
use crate::op::Op;
use crate::order::Order;
use crate::parse::syntax::{Instruction, Operand};
use crate::slot::Address;
use crate::types::{Compute, How, Scalar, Type, each, lanes};

impl<'a> Decoder<'a, '_> {
    pub(crate) fn instruction(&mut self, instruction: &Instruction<'a>) -> Decoding<()> {
        let mut operands = &instruction.operands[..];
        let mut parts: Vec<&str> = instruction.opcode.split('.').collect();
        // The last operand is a cache policy, which has no effect here.
        if let Some(hint) = parts.iter().position(|part| *part == "L2::cache_hint") {
            parts.remove(hint);
            operands = operands.split_last().ok_or(Reason::Operands)?.1;
        }
        self.check(&parts, operands, instruction.guard)?;
        (self.guard, self.line, self.order) = (None, instruction.line, Order::from_opcode(&parts));
        if let Some((name, negated)) = instruction.guard {
            let slot = self.source(&Operand::Name(name), Type::Pred)?;
            self.guard = Some((slot, negated));
        }
        let mut opcode = Opcode::new(&parts);
        if matches!(opcode.name, "mma" | "wmma" | "ldmatrix" | "stmatrix" | "movmatrix") {
            return self.matrix(&parts, operands);
        }
        self.dispatch(&mut opcode, operands)?;
        if opcode.understood() { Ok(()) } else { Err(Reason::Instruction) }
    }

    fn dispatch(&mut self, opcode: &mut Opcode<'a>, operands: &[Operand<'a>]) -> Decoding<()> {
        let carries = matches!(opcode.name, "add" | "sub" | "mad") && opcode.take("cc");
        match opcode.name {
            "mov" => self.mov(opcode, operands),
            "st" | "red" if opcode.modifiers.contains(&"async") => Err(Reason::Instruction),
            "ld" | "ldu" => self.access(opcode, operands, true),
            "st" => self.access(opcode, operands, false),
            "atom" | "red" => self.atomic(opcode, operands),
            "cp" => self.copy_async(opcode, operands),
            "setp" | "set" => self.set(opcode, operands),
            "cvta" => self.cvta(opcode, operands),
            "isspacep" => {
                let space = opcode.modifiers.pop().ok_or(Reason::Instruction)?;
                let function = bits::in_space(space).ok_or(Reason::Instruction)?;
                self.compute(function, How::default(), operands, Type::U64)
            }
            _ if carries => self.with_carry(opcode, operands),
            "addc" | "subc" | "madc" => self.with_carry(opcode, operands),
            "bra" | "brx" | "call" | "ret" | "exit" | "trap" => self.control(opcode, operands),
            "bar" | "barrier" => self.barrier(opcode, operands),
            "mbarrier" => self.mbarrier(opcode, operands),
            "elect" => self.elect(opcode, operands),
            "shfl" | "vote" | "match" | "redux" | "activemask" => self.together(opcode, operands),
            "membar" | "fence" => {
                let of_map = opcode.take("tensormap::generic");
                if opcode.modifiers.is_empty() || !of_map && !operands.is_empty() {
                    return Err(Reason::Form);
                }
                opcode.ignore(
                    "cta cluster gl gpu sys sc acq_rel acquire release proxy alias async async::global \
                     async::generic async::shared::cta async::shared::cluster global shared::cta shared::cluster mbarrier_init",
                );
                self.emit(Op::Fence);
                Ok(())
            }
            // These instructions give hints on time, caches, registers and dependent kernels, and have no
            // effect here.
            "nanosleep" | "prefetch" | "prefetchu" | "applypriority" | "discard" | "griddepcontrol"
            | "setmaxnreg" => {
                opcode.modifiers.clear();
                opcode.kind();
                self.emit(Op::Nothing);
                Ok(())
            }
            "createpolicy" => {
                opcode.modifiers.clear();
                opcode.kind();
                let [to, ..] = operands else { return Err(Reason::Operands) };
                let (to, zero) = (self.target(to)?, self.bits(0));
                self.copy(to, zero);
                Ok(())
            }
            _ => {
                let kind = opcode.types.last().copied().unwrap_or(Type::U32);
                let (function, how) = function(opcode).ok_or(Reason::Instruction)?;
                self.compute(function, how, operands, kind)
            }
        }
    }

    /// Decodes an instruction that computes one result from its operands.
    fn compute(&mut self, function: Compute, how: How, operands: &[Operand<'a>], kind: Type) -> Decoding<()> {
        let [to, from @ ..] = operands else { return Err(Reason::Operands) };
        let to = self.target(to)?;
        let from = from.iter().map(|operand| self.source(operand, kind)).collect::<Decoding<Vec<_>>>()?;
        let op = Op::compute(function, how, to, &from).ok_or(Reason::Operands)?;
        self.emit(op);
        Ok(())
    }

    fn mov(&mut self, opcode: &mut Opcode<'a>, operands: &[Operand<'a>]) -> Decoding<()> {
        let kind = opcode.kind().ok_or(Reason::Instruction)?;
        let [to, from] = operands else { return Err(Reason::Operands) };
        if let [Operand::Vector(_), Operand::Vector(_)] = operands {
            return Err(Reason::Operands);
        }
        let (to, from) = (only(to), only(from));
        if let Operand::Name(name) = from
            && let Some((cycles, shift)) = clock(name)
        {
            let to = self.target(to)?;
            self.emit(Op::Clock { to, cycles, shift });
            return Ok(());
        }
        let from = self.source(from, kind)?;
        let Operand::Vector(parts) = to else {
            let to = self.target(to)?;
            self.copy(to, from);
            return Ok(());
        };
        // Unpacks a copy, because the source register may also be one of the parts.
        let whole = self.register();
        self.copy(whole, from);
        let size = kind.size() * 8 / parts.len().max(1) as u64;
        for (index, part) in parts.iter().enumerate() {
            let to = self.target(part)?;
            let shift = self.bits(size * index as u64);
            let function = match size {
                8 => lanes!(_, |a: u64, by: u32| (a >> by) as u8),
                16 => lanes!(_, |a: u64, by: u32| (a >> by) as u16),
                32 => lanes!(_, |a: u64, by: u32| (a >> by) as u32),
                _ => return Err(Reason::Operands),
            };
            self.apply(function, to, &[whole, shift]);
        }
        Ok(())
    }

    fn space(&self, opcode: &mut Opcode<'a>) -> Space {
        let spaces =
            ["global", "const", "shared", "shared::cta", "shared::cluster", "local", "param", "param::entry"];
        match opcode.take_any(&spaces) {
            Some("global" | "const") => Space::Global,
            Some("local") => Space::Local,
            Some("param" | "param::entry") => Space::Parameter,
            Some(_) => Space::Shared,
            None => Space::Generic,
        }
    }

    pub(crate) fn address(&mut self, space: Space, operand: &Operand<'a>) -> Decoding<Address> {
        let Operand::Address(base, offset) = operand else { return Err(Reason::Operands) };
        let zero = self.bits(0);
        let Operand::Name(name) = **base else {
            let base = self.source(base, Type::U64)?;
            return Ok(Address { space, base, offset: *offset });
        };
        Ok(match self.lookup(name) {
            Some(Place::Frame(place, ..)) => {
                Address { space: Space::Frame, base: zero, offset: place as i64 + offset }
            }
            Some(Place::Parameter(place)) => {
                Address { space: Space::Parameter, base: zero, offset: place as i64 + offset }
            }
            _ => {
                // The address of a parameter in a register is generic.
                let space = if space == Space::Parameter { Space::Generic } else { space };
                Address { space, base: self.source(base, Type::U64)?, offset: *offset }
            }
        })
    }

    /// Removes modifiers for memory order and caches. They don't change what is accessed, because accesses are done
    /// in order and directly in memory. The detector of races reads the [order](Order).
    fn ordering(opcode: &mut Opcode<'a>) {
        opcode.ignore(
            "weak volatile relaxed acquire release acq_rel mmio cta cluster gpu sys nc ca cg cs lu cv \
             wb wt L1::evict_normal L1::evict_unchanged L1::evict_first L1::evict_last \
             L1::no_allocate L2::64B L2::128B L2::256B L2::evict_normal L2::evict_first \
             L2::evict_last noftz",
        );
    }

    /// Returns the elements of a vector operand. A single element may be in braces or not.
    fn elements<'o>(opcode: &mut Opcode<'a>, operand: &'o Operand<'a>) -> Decoding<&'o [Operand<'a>]> {
        let expected = match opcode.take_any(&["v2", "v4", "v8"]) {
            Some("v2") => 2,
            Some("v4") => 4,
            Some(_) => 8,
            None => 1,
        };
        let found = match operand {
            Operand::Vector(parts) => &parts[..],
            single => std::slice::from_ref(single),
        };
        if found.len() == expected { Ok(found) } else { Err(Reason::Operands) }
    }

    /// Decodes a load or a store.
    fn access(&mut self, opcode: &mut Opcode<'a>, operands: &[Operand<'a>], loads: bool) -> Decoding<()> {
        Self::ordering(opcode);
        let space = self.space(opcode);
        let [first, second] = operands else { return Err(Reason::Operands) };
        let (data, address) = if loads { (first, second) } else { (second, first) };
        let parts = Self::elements(opcode, data)?;
        let kind = opcode.kind().ok_or(Reason::Instruction)?;
        let slot = |part| if loads { self.target(part) } else { self.source(part, kind) };
        let slots = parts.iter().map(slot).collect::<Decoding<_>>()?;
        let address = self.address(space, address)?;
        self.emit(match loads {
            true => Op::Load { to: slots, kind, address },
            false => Op::Store { from: slots, kind, address },
        });
        Ok(())
    }

    fn atomic(&mut self, opcode: &mut Opcode<'a>, operands: &[Operand<'a>]) -> Decoding<()> {
        let (to, operands) = match operands {
            [to, rest @ ..] if opcode.name == "atom" => (Some(to), rest),
            rest => (None, rest),
        };
        Self::ordering(opcode);
        let space = self.space(opcode);
        let [address, values @ ..] = operands else { return Err(Reason::Operands) };
        let [first, rest @ ..] = values else { return Err(Reason::Operands) };
        let parts = Self::elements(opcode, first)?;
        let kind = opcode.kind().ok_or(Reason::Instruction)?;
        let name = opcode.modifiers.pop().ok_or(Reason::Instruction)?;
        let update = update(name, kind, space != Space::Shared).ok_or(Reason::Instruction)?;
        if rest.len() != usize::from(name == "cas") {
            return Err(Reason::Operands);
        }
        let address = self.address(space, address)?;
        for (index, part) in parts.iter().enumerate() {
            let first = self.source(part, kind)?;
            let second = match rest.first() {
                Some(value) => self.source(value, kind)?,
                None => first,
            };
            let to = match to {
                Some(Operand::Vector(to)) if to.len() == parts.len() => Some(self.target(&to[index])?),
                Some(to) => Some(self.target(to)?),
                None => None,
            };
            let address = Address { offset: address.offset + index as i64 * kind.size() as i64, ..address };
            self.emit(Op::Atomic { to, update, kind, address, operands: [first, second] });
        }
        Ok(())
    }

    fn cvta(&mut self, opcode: &mut Opcode<'a>, operands: &[Operand<'a>]) -> Decoding<()> {
        let generic = !opcode.take("to");
        let window = match self.space(opcode) {
            Space::Shared => SHARED_WINDOW,
            Space::Local => LOCAL_WINDOW,
            Space::Generic => return Err(Reason::Form),
            _ => 0,
        };
        opcode.kind().filter(|kind| *kind == Type::U64).ok_or(Reason::Instruction)?;
        let [to, from] = operands else { return Err(Reason::Operands) };
        let (to, from) = (self.target(to)?, self.source(from, Type::U64)?);
        let window = self.bits(window);
        let function = if generic {
            lanes!(_, |a: u64, window: u64| a.wrapping_add(window))
        } else {
            lanes!(_, |a: u64, window: u64| a.wrapping_sub(window))
        };
        self.apply(function, to, &[from, window]);
        Ok(())
    }

    /// Decodes extended-precision arithmetic. The carry flag is kept in a register.
    fn with_carry(&mut self, opcode: &mut Opcode<'a>, operands: &[Operand<'a>]) -> Decoding<()> {
        let takes = opcode.name.len() == 4;
        let sets = !takes || opcode.take("cc");
        let carry = self.carry();
        let kind = opcode.kind().ok_or(Reason::Instruction)?;
        let wide = kind.size() == 8;
        let [to, from @ ..] = operands else { return Err(Reason::Operands) };
        let to = self.target(to)?;
        let mut from = from.iter().map(|operand| self.source(operand, kind)).collect::<Decoding<Vec<_>>>()?;
        if opcode.name.starts_with("mad") {
            let [a, b, c] = from[..] else { return Err(Reason::Operands) };
            let product = self.register();
            let mut multiply =
                Opcode { name: "mul", modifiers: opcode.modifiers.split_off(0), types: vec![kind] };
            let (function, _) = function(&mut multiply).ok_or(Reason::Instruction)?;
            self.apply(function, product, &[a, b]);
            from = vec![product, c];
        }
        let [a, b] = from[..] else { return Err(Reason::Operands) };
        let first = if takes { carry } else { self.bits(0) };
        let out = self.register();
        let (sum, over) = match (opcode.name.starts_with("sub"), wide) {
            (false, false) => (
                lanes!(_, |a: u32, b: u32, c: u32| a.wrapping_add(b).wrapping_add(c)),
                lanes!(_, |a: u32, b: u32, c: u32| (u64::from(a) + u64::from(b) + u64::from(c)) >> 32),
            ),
            (false, true) => (
                lanes!(_, |a: u64, b: u64, c: u64| a.wrapping_add(b).wrapping_add(c)),
                lanes!(_, |a: u64, b: u64, c: u64| {
                    ((u128::from(a) + u128::from(b) + u128::from(c)) >> 64) as u64
                }),
            ),
            (true, false) => (
                lanes!(_, |a: u32, b: u32, c: u32| a.wrapping_sub(b).wrapping_sub(c)),
                lanes!(_, |a: u32, b: u32, c: u32| u64::from(a) < u64::from(b) + u64::from(c)),
            ),
            (true, true) => (
                lanes!(_, |a: u64, b: u64, c: u64| a.wrapping_sub(b).wrapping_sub(c)),
                lanes!(_, |a: u64, b: u64, c: u64| u128::from(a) < u128::from(b) + u128::from(c)),
            ),
        };
        self.apply(over, out, &[a, b, first]);
        self.apply(sum, to, &[a, b, first]);
        if sets {
            self.copy(carry, out);
        }
        Ok(())
    }
}

/// Removes the braces from an operand with one element.
fn only<'o, 'a>(operand: &'o Operand<'a>) -> &'o Operand<'a> {
    match operand {
        Operand::Vector(parts) if parts.len() == 1 => &parts[0],
        other => other,
    }
}

/// Returns how to read a clock register: whether it counts cycles rather than nanoseconds, and the right
/// shift for its value.
fn clock(name: &str) -> Option<(bool, u32)> {
    match name {
        "%clock" | "%clock64" => Some((true, 0)),
        "%clock_hi" => Some((true, 32)),
        "%globaltimer" | "%globaltimer_lo" => Some((false, 0)),
        "%globaltimer_hi" => Some((false, 32)),
        _ => None,
    }
}
