//! What a text declares outside of its functions: sizes, places and first contents.

use std::collections::HashMap;

use super::decode::Place;
use super::error::{LoadError, Reason};
use super::program::{Variable, function_address};
use super::syntax::{self, Operand};
use super::types::{Scalar, Type};

/// The size and the alignment of a variable.
pub(super) fn layout(variable: &syntax::Variable<'_>) -> Result<(u64, u64), LoadError> {
    let Some(kind) = Type::named(variable.kind) else {
        return Err(wrong(variable, Reason::Instruction));
    };
    let element = kind.size() * variable.vector;
    let align = variable.align.unwrap_or(element).max(1);
    let size = element.checked_mul(variable.count.unwrap_or(1)).filter(|size| *size <= LARGEST);
    match size {
        Some(size) if align.is_power_of_two() && align <= LARGEST => Ok((size, align)),
        _ => Err(wrong(variable, Reason::TooLarge { bytes: size.unwrap_or(u64::MAX), limit: LARGEST })),
    }
}

/// No single variable has more bytes.
const LARGEST: u64 = 1 << 40;

pub(super) fn wrong(variable: &syntax::Variable<'_>, reason: Reason) -> LoadError {
    let statement = format!(".{} .{} {}", variable.space, variable.kind, variable.name);
    LoadError { line: variable.line, statement, reason }
}

/// Takes the next place that is aligned.
pub(super) fn reserve(used: &mut u64, size: u64, align: u64) -> u64 {
    let place = used.next_multiple_of(align);
    *used = place + size;
    place
}

/// A variable with the bytes that it begins with.
pub(super) fn initialised(
    variable: &syntax::Variable<'_>,
    names: &HashMap<&str, Place>,
) -> Result<Variable, LoadError> {
    let (size, align) = layout(variable)?;
    let element = Type::named(variable.kind).map_or(1, Type::size) as usize;
    let mut made =
        Variable { name: variable.name.to_owned(), size, align, initial: Vec::new(), pointers: Vec::new() };
    if variable.initial.len() * element > size as usize {
        return Err(wrong(variable, Reason::Operands));
    }
    for value in &variable.initial {
        let place = made.initial.len();
        let (name, offset) = match value {
            Operand::Name(name) => (*name, 0),
            Operand::Address(base, offset) => match **base {
                Operand::Name(name) => (name, *offset),
                _ => return Err(wrong(variable, Reason::Operands)),
            },
            number => {
                let kind = Type::named(variable.kind).unwrap_or(Type::U8);
                let bits = literal(number, kind).ok_or_else(|| wrong(variable, Reason::Operands))?;
                made.initial.extend(&bits.to_le_bytes()[..element]);
                continue;
            }
        };
        let value = match names.get(name) {
            Some(&Place::Variable(target)) if element == 8 => {
                made.pointers.push((place, target, offset));
                0
            }
            Some(&Place::Function(function)) if element == 8 && offset == 0 => function_address(function),
            Some(_) => return Err(wrong(variable, Reason::Operands)),
            None => return Err(wrong(variable, Reason::Name(name.to_owned()))),
        };
        made.initial.extend(value.to_le_bytes());
    }
    Ok(made)
}

/// The bits of a number, as that type has them.
pub(super) fn literal(number: &Operand<'_>, kind: Type) -> Option<u64> {
    match *number {
        Operand::Integer(value) => Some(value),
        Operand::Single(bits) => Some(u64::from(bits)),
        Operand::Double(bits) if kind == Type::F32 => Some((f64::from_bits(bits) as f32).bits()),
        Operand::Double(bits) => Some(bits),
        _ => None,
    }
}
