//! Handles declarations: layout, limits and initial values of variables and parameters.

use std::collections::{HashMap, HashSet};

use crate::decode::form::Kind;
use crate::error::{LoadError, Reason};
use crate::op::Sizes;
use crate::parse::syntax::{self, Operand};
use crate::program::{Constant, Variable, function_address};
use crate::slot::Slot;
use crate::types::{Scalar, Type};

/// The state that the decoders of all functions share.
#[derive(Default)]
pub(crate) struct Shared<'a> {
    pub names: HashMap<&'a str, Place>,
    /// Size and alignment of each variable in shared memory, including variables that functions declare.
    pub shared: Vec<(u64, u64)>,
    /// The layout of results and parameters of each function.
    pub signatures: Vec<Signature>,
    /// The index of each constant among the rows of the grid.
    pub constants: HashMap<Constant, usize>,
    /// Functions that are only declared, so that their definition may be missing everywhere.
    pub external: HashSet<&'a str>,
}

impl Shared<'_> {
    /// Returns the error for a name that is neither a register nor defined in the text: PTX may predefine it,
    /// or another module define it.
    pub(crate) fn unknown(&self, name: &str) -> Reason {
        let predefined = name.strip_prefix('%').is_some_and(|name| {
            let stem = name.split(['.', '_']).next().unwrap_or(name);
            let stem = stem.trim_end_matches(|c: char| c.is_ascii_digit());
            PREDEFINED.split(' ').any(|predefined| predefined == stem)
        });
        if predefined || self.external.contains(name) {
            Reason::Lacking(name.to_owned())
        } else {
            Reason::Name(name.to_owned())
        }
    }

    pub(crate) fn in_shared_memory(&mut self, variable: &syntax::Variable<'_>) -> Result<Place, LoadError> {
        self.shared.push(layout(variable)?);
        Ok(Place::Shared(self.shared.len() - 1))
    }

    /// Returns the sizes of a function's parameters and results. `None` for a kernel, which cannot be called.
    pub(crate) fn sizes(&self, function: usize) -> Option<Sizes> {
        let signature = &self.signatures[function];
        (!signature.entry).then(|| signature.sizes())
    }
}

#[derive(Clone, Default)]
pub(crate) struct Signature {
    pub entry: bool,
    pub returns: Vec<(u64, u64)>,
    pub parameters: Vec<(u64, u64)>,
    pub size: u64,
}

impl Signature {
    pub(crate) fn sizes(&self) -> Sizes {
        let sizes = |places: &[(u64, u64)]| places.iter().map(|(_, size)| *size).collect();
        Sizes { parameters: sizes(&self.parameters), returns: sizes(&self.returns) }
    }
}

/// The meaning of a name in the text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Place {
    Function(usize),
    Variable(usize),
    Shared(usize),
    DynamicShared,
    /// A variable in the frame: offset, size, and whether its address is generic, as the addresses of
    /// parameters are.
    Frame(u64, u64, bool),
    Parameter(u64),
    Register(Slot, Kind),
    /// A range of registers such as `%r<9>`: the number of the range in the function, and how many registers
    /// it has.
    Registers {
        range: usize,
        count: u64,
        kind: Kind,
    },
}

/// Lays out results, then parameters. For a kernel the offsets are in its arguments, for another function
/// from the start of its frame.
pub(crate) fn signature(function: &syntax::Function<'_>) -> Result<Signature, LoadError> {
    let mut signature = Signature { entry: function.entry, ..Signature::default() };
    for (variables, places) in
        [(&function.returns, &mut signature.returns), (&function.parameters, &mut signature.parameters)]
    {
        for variable in variables {
            let (size, align) = layout(variable)?;
            places.push((reserve(&mut signature.size, size, align), size));
        }
    }
    Ok(signature)
}

/// Prefixes of the names of PTX's predefined registers.
const PREDEFINED: &str =
    "tid ntid ctaid nctaid clusterid nclusterid cluster pm envreg reserved aggr current total dynamic";

/// The most bytes of all variables in constant memory.
const MOST_CONSTANTS: u64 = 64 << 10;
/// The most bytes of static shared memory.
pub(crate) const MOST_STATIC: u64 = 48 << 10;

/// Returns the most bytes of a kernel's parameters. PTX 8.1 raised the limit.
pub(crate) fn most_parameters(version: (u64, u64)) -> u64 {
    if version >= (8, 1) { 32_764 } else { 4352 }
}

pub(crate) fn check_size(function: &syntax::Function<'_>, bytes: u64, limit: u64) -> Result<(), LoadError> {
    if bytes <= limit {
        return Ok(());
    }
    let statement = format!(".entry {}", function.name);
    Err(LoadError { line: function.line, statement, reason: Reason::TooLarge { bytes, limit } })
}

/// Checks the total size of variables in constant memory.
pub(crate) fn check_constants(variables: &[&syntax::Variable<'_>]) -> Result<(), LoadError> {
    let mut bytes = 0;
    for variable in variables.iter().filter(|variable| variable.space == "const") {
        let (size, align) = layout(variable)?;
        reserve(&mut bytes, size, align);
        if bytes > MOST_CONSTANTS {
            return Err(wrong(variable, Reason::TooLarge { bytes, limit: MOST_CONSTANTS }));
        }
    }
    Ok(())
}

/// Returns the size and the alignment of a variable.
pub(crate) fn layout(variable: &syntax::Variable<'_>) -> Result<(u64, u64), LoadError> {
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

/// The most bytes of a variable.
const LARGEST: u64 = 1 << 40;

pub(crate) fn wrong(variable: &syntax::Variable<'_>, reason: Reason) -> LoadError {
    let statement = format!(".{} .{} {}", variable.space, variable.kind, variable.name);
    LoadError { line: variable.line, statement, reason }
}

/// Reserves the next aligned bytes, and returns their offset.
pub(crate) fn reserve(used: &mut u64, size: u64, align: u64) -> u64 {
    let place = used.next_multiple_of(align);
    *used = place + size;
    place
}

/// Returns a variable with its initial value.
pub(crate) fn initialised(
    variable: &syntax::Variable<'_>,
    module: &Shared<'_>,
) -> Result<Variable, LoadError> {
    let (size, _) = layout(variable)?;
    let element = Type::named(variable.kind).map_or(1, Type::size) as usize;
    let mut made =
        Variable { name: variable.name.to_owned(), size, initial: Vec::new(), pointers: Vec::new() };
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
        let value = match module.names.get(name) {
            Some(&Place::Variable(target)) if element == 8 => {
                made.pointers.push((place, target, offset));
                0
            }
            Some(&Place::Function(function)) if element == 8 && offset == 0 => function_address(function),
            Some(_) => return Err(wrong(variable, Reason::Operands)),
            None => return Err(wrong(variable, module.unknown(name))),
        };
        made.initial.extend(value.to_le_bytes());
    }
    Ok(made)
}

/// Returns the bits of a literal number in a type.
pub(crate) fn literal(number: &Operand<'_>, kind: Type) -> Option<u64> {
    match *number {
        Operand::Integer(value) => Some(value),
        Operand::Single(bits) => Some(u64::from(bits)),
        Operand::Double(bits) if kind == Type::F32 => Some((f64::from_bits(bits) as f32).bits()),
        Operand::Double(bits) => Some(bits),
        _ => None,
    }
}
