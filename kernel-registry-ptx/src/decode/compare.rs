//! Decodes the comparisons `setp` and `set`, including comparisons of packed pairs.

use crate::decode::compute::arithmetic::comparison;
use crate::decode::decoder::{Decoder, Decoding};
use crate::decode::opcode::Opcode;
use crate::error::Reason;
use crate::op::Op;
use crate::parse::syntax::Operand;
use crate::slot::Slot;
use crate::types::{Compute, How, Scalar, Type, each, lanes};

impl<'a> Decoder<'a, '_> {
    pub(crate) fn set(&mut self, opcode: &mut Opcode<'a>, operands: &[Operand<'a>]) -> Decoding<()> {
        let predicate = opcode.name == "setp";
        let how = How { flush: opcode.take("ftz"), ..How::default() };
        let combine = opcode.take_any(&["and", "or", "xor"]);
        let (result, kind) = if predicate {
            (Type::Pred, opcode.kind().ok_or(Reason::Instruction)?)
        } else {
            opcode.kinds().ok_or(Reason::Instruction)?.into()
        };
        let half = match kind {
            Type::F16x2 => Some(Type::F16),
            Type::Bf16x2 => Some(Type::Bf16),
            _ => None,
        };
        let compare = opcode
            .modifiers
            .pop()
            .and_then(|name| comparison(name, half.unwrap_or(kind)))
            .ok_or(Reason::Instruction)?;
        let [to, a, b, third @ ..] = operands else { return Err(Reason::Operands) };
        let whole = [self.source(a, kind)?, self.source(b, kind)?];
        // The second predicate is the negation of the first. For packed pairs it is the comparison of the
        // upper halves.
        let mut found = vec![self.compared(compare, how, whole)?];
        if half.is_some() {
            let upper = whole.map(|whole| {
                let upper = self.register();
                self.apply(lanes!(_, |a: u32| a >> 16), upper, &[whole]);
                upper
            });
            found.push(self.compared(compare, how, upper)?);
        } else if let Operand::Pair(..) = to {
            found.push(self.negated(found[0]));
        }

        match (combine, third) {
            (None, []) => {}
            (Some(name), [third]) => {
                let function = match name {
                    "and" => lanes!(_, |a: bool, b: bool| a && b),
                    "or" => lanes!(_, |a: bool, b: bool| a || b),
                    _ => lanes!(_, |a: bool, b: bool| a != b),
                };
                let third = self.source(third, Type::Pred)?;
                for found in &mut found {
                    let combined = self.register();
                    self.apply(function, combined, &[*found, third]);
                    *found = combined;
                }
            }
            _ => return Err(Reason::Operands),
        }
        // The targets are written last, because one of them may be the predicate that is combined.
        match (to, &found[..]) {
            (Operand::Pair(first, second), &[one, other]) if predicate => {
                let (first, second) =
                    (self.target(&Operand::Name(first))?, self.target(&Operand::Name(second))?);
                let mut copies = [(first, one), (second, other)];
                // Both copies are guarded, so the copy that writes the guard register itself comes last.
                if self.guard.is_some_and(|(guard, _)| guard == first) {
                    copies.reverse();
                }
                copies.into_iter().for_each(|(to, from)| self.copy(to, from));
                Ok(())
            }
            (to, _) => {
                let function = truth_value(result, half.is_some()).ok_or(Reason::Instruction)?;
                let to = self.target(to)?;
                self.apply(function, to, &found);
                Ok(())
            }
        }
    }

    fn compared(&mut self, compare: Compute, how: How, operands: [Slot; 2]) -> Decoding<Slot> {
        let found = self.register();
        let op = Op::compute(compare, how, found, &operands).ok_or(Reason::Operands)?;
        self.emit(op);
        Ok(found)
    }
}

/// Returns the function that converts predicates to the value of true or false in a type. True is 1.0 in
/// floating point, and otherwise all bits set. A packed pair has the value in each half.
fn truth_value(result: Type, halves: bool) -> Option<Compute> {
    Some(match (result, halves) {
        (Type::Pred, false) => lanes!(_, |a: bool| a),
        (Type::F32, false) => lanes!(_, |a: bool| if a { 1f32 } else { 0f32 }),
        (Type::F16, false) => lanes!(_, |a: bool| if a { 0x3c00u16 } else { 0 }),
        (Type::Bf16, false) => lanes!(_, |a: bool| if a { 0x3f80u16 } else { 0 }),
        (Type::U16 | Type::S16, false) => lanes!(_, |a: bool| if a { u16::MAX } else { 0 }),
        (Type::U32 | Type::S32, false) => lanes!(_, |a: bool| if a { u32::MAX } else { 0 }),
        (Type::F16x2, true) => {
            lanes!(_, |a: bool, b: bool| u32::from(a) * 0x3c00 + u32::from(b) * 0x3c00_0000)
        }
        (Type::Bf16x2, true) => {
            lanes!(_, |a: bool, b: bool| u32::from(a) * 0x3f80 + u32::from(b) * 0x3f80_0000)
        }
        (Type::U32 | Type::S32, true) => {
            lanes!(_, |a: bool, b: bool| u32::from(a) * 0xffff + u32::from(b) * 0xffff_0000)
        }
        _ => return None,
    })
}
