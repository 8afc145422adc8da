//! Decodes one function: resolves names, allocates registers, and collects instructions.

use std::collections::HashMap;

use crate::address::{LOCAL_WINDOW, PARAMETER_WINDOW};
use crate::decode::declare::{Place, Shared, layout, literal, reserve, wrong};
use crate::decode::form::Kind;
use crate::error::{LoadError, Reason};
use crate::op::{Instruction, Op, Sizes};
use crate::order::Order;
use crate::parse::syntax::{self, Operand};
use crate::program::{Constant, Function, function_address};
use crate::slot::{DYNAMIC_SHARED, GRID, Rows, Slot, special};
use crate::types::{Compute, How, Scalar, Type, each, lanes};

/// The decoder of one function's body.
pub(crate) struct Decoder<'a, 'm> {
    pub shared: &'m mut Shared<'a>,
    pub(super) constants: &'m mut Vec<Constant>,
    pub(super) function: Function,
    pub instructions: Vec<Instruction>,
    /// The guard of the statement that is being decoded.
    pub guard: Option<(Slot, bool)>,
    /// The source line of that statement.
    pub line: u32,
    /// The memory order of that statement.
    pub order: Order,
    /// The index of the function's first instruction in the program.
    pub(super) start: usize,
    /// The scopes of the open braces.
    pub(super) scopes: Vec<Scope<'a>>,
    pub(super) opened: usize,
    pub(super) frame: u64,
    /// Ids of labels, by scope and name.
    pub(super) labels: HashMap<(usize, &'a str), usize>,
    /// The instruction of each label id, once it's known.
    pub(super) targets: Vec<u32>,
    pub(super) tables: HashMap<&'a str, Vec<&'a str>>,
    pub(super) prototypes: HashMap<&'a str, Sizes>,
    pub(super) carry: Option<Slot>,
    pub(super) ranges: usize,
    /// The registers that the text uses from ranges, by range and number.
    pub(super) named: HashMap<(usize, u64), Slot>,
}

pub(super) struct Scope<'a> {
    pub(super) number: usize,
    pub(super) names: HashMap<&'a str, Place>,
    pub(super) frame: u64,
}

/// The result of decoding a part of a statement. The caller adds line and statement to an error.
pub(crate) type Decoding<T> = Result<T, Reason>;

impl<'a, 'm> Decoder<'a, 'm> {
    pub(super) fn new(
        shared: &'m mut Shared<'a>,
        constants: &'m mut Vec<Constant>,
        function: &syntax::Function<'a>,
        index: usize,
        start: usize,
    ) -> Self {
        let signature = shared.signatures[index].clone();
        let mut names = HashMap::new();
        let variables = function.returns.iter().chain(&function.parameters);
        for (variable, &(place, size)) in variables.zip(signature.returns.iter().chain(&signature.parameters))
        {
            let place =
                if function.entry { Place::Parameter(place) } else { Place::Frame(place, size, true) };
            names.insert(variable.name, place);
        }
        let frame = if function.entry { 0 } else { signature.size.next_multiple_of(16) };
        Self {
            function: Function {
                name: function.name.to_owned(),
                entry: function.entry,
                start: start as u32,
                frame,
                parameters: signature.parameters,
                returns: signature.returns,
                max_threads: function.max_threads,
                cluster: function.cluster,
                ..Function::default()
            },
            shared,
            constants,
            instructions: Vec::new(),
            guard: None,
            line: 0,
            order: Order::default(),
            start,
            scopes: vec![Scope { number: 0, names, frame }],
            opened: 0,
            frame,
            labels: HashMap::new(),
            targets: Vec::new(),
            tables: HashMap::new(),
            prototypes: HashMap::new(),
            carry: None,
            ranges: 0,
            named: HashMap::new(),
        }
    }

    pub(super) fn scope(&mut self) -> &mut Scope<'a> {
        self.scopes.last_mut().expect("the parser balances braces")
    }

    pub(super) fn declare_registers(
        &mut self,
        name: &'a str,
        kind: &str,
        count: Option<u64>,
    ) -> Decoding<()> {
        let kind = Kind::named(kind).ok_or(Reason::Form)?;
        let place = match count {
            None => Place::Register(self.register_of(kind), kind),
            Some(count) => {
                self.ranges += 1;
                Place::Registers { range: self.ranges, count, kind }
            }
        };
        self.name(name, place)
    }

    /// Declares a name, which is valid up to the next closing brace.
    fn name(&mut self, name: &'a str, place: Place) -> Decoding<()> {
        match self.scope().names.insert(name, place) {
            Some(_) => Err(Reason::Again(name.to_owned())),
            None => Ok(()),
        }
    }

    /// Returns the register that holds the carry flag of `add.cc` and similar instructions.
    pub(crate) fn carry(&mut self) -> Slot {
        if let Some(slot) = self.carry {
            return slot;
        }
        let slot = self.register();
        self.carry = Some(slot);
        slot
    }

    /// Allocates a register that the text declares.
    fn register_of(&mut self, kind: Kind) -> Slot {
        let slot = self.register();
        if let Some(width) = self.function.widths.last_mut() {
            *width = kind.width();
        }
        slot
    }

    /// Allocates a register for the decoder's own use.
    pub(crate) fn register(&mut self) -> Slot {
        self.function.widths.push(1);
        self.function.registers += 1;
        Slot::new(Rows::Register, self.function.registers - 1)
    }

    pub(super) fn declare(&mut self, variable: &syntax::Variable<'a>) -> Result<(), LoadError> {
        let place = match variable.space {
            "local" | "param" => {
                let (size, align) = layout(variable)?;
                let place = reserve(&mut self.frame, size, align);
                self.function.frame = self.function.frame.max(self.frame);
                if variable.space == "local" {
                    reserve(&mut self.function.local, size, align);
                }
                Place::Frame(place, size, variable.space == "param")
            }
            "shared" => self.shared.in_shared_memory(variable)?,
            _ => return Err(LoadError::syntax(variable.line, variable.name)),
        };
        self.name(variable.name, place).map_err(|reason| wrong(variable, reason))
    }

    /// Returns what a name means in the current scope.
    pub(crate) fn lookup(&mut self, name: &str) -> Option<Place> {
        // A name like `%r7` may belong to a range declared as `%r<9>`.
        let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
        let number = name[stem.len()..].parse::<u64>().ok();
        let mut found = None;
        for scope in self.scopes.iter().rev() {
            if let Some(place) = scope.names.get(name) {
                return Some(*place);
            }
            if let (Some(&Place::Registers { range, count, kind }), Some(number)) =
                (scope.names.get(stem), number)
                && number < count
            {
                found = Some(((range, number), kind));
                break;
            }
        }
        let Some((key, kind)) = found else { return self.shared.names.get(name).copied() };
        let slot = match self.named.get(&key) {
            Some(slot) => *slot,
            None => self.register_of(kind),
        };
        self.named.insert(key, slot);
        Some(Place::Register(slot, kind))
    }

    pub(crate) fn label(&self, name: &str) -> Decoding<u32> {
        let found = self.scopes.iter().rev().find_map(|scope| self.labels.get(&(scope.number, name)));
        found.map(|id| *id as u32).ok_or_else(|| Reason::Name(name.to_owned()))
    }

    pub(crate) fn table(&self, name: &str) -> Decoding<Box<[u32]>> {
        let labels = self.tables.get(name).ok_or_else(|| Reason::Name(name.to_owned()))?;
        labels.iter().map(|label| self.label(label)).collect()
    }

    pub(crate) fn prototype(&self, name: &str) -> Decoding<Sizes> {
        self.prototypes.get(name).cloned().ok_or_else(|| Reason::Name(name.to_owned()))
    }

    pub(crate) fn constant(&mut self, constant: Constant) -> Slot {
        let constants = &mut *self.constants;
        let index = *self.shared.constants.entry(constant).or_insert_with(|| {
            constants.push(constant);
            GRID.split(' ').count() + constants.len() - 1
        });
        Slot::new(Rows::Grid, index)
    }

    pub(crate) fn bits(&mut self, bits: u64) -> Slot {
        self.constant(Constant::Bits(bits))
    }

    /// Returns the register of an operand that the instruction reads.
    pub(crate) fn source(&mut self, operand: &Operand<'a>, kind: Type) -> Decoding<Slot> {
        let (name, offset) = match operand {
            Operand::Name(name) => (*name, 0),
            Operand::Address(base, offset) => match **base {
                Operand::Name(name) => (name, *offset),
                _ => return Err(Reason::Operands),
            },
            Operand::Not(name) => {
                let from = self.source(&Operand::Name(name), Type::Pred)?;
                return Ok(self.negated(from));
            }
            Operand::Vector(parts) => return self.packed(parts, kind),
            number => {
                let bits = literal(number, kind).ok_or(Reason::Operands)?;
                return Ok(self.bits(bits));
            }
        };
        if name == "WARP_SZ" {
            return Ok(self.bits(32));
        }
        let Some(place) = self.lookup(name) else {
            self.function.reserved |= name.starts_with("%reserved_smem_offset");
            return special(name).ok_or_else(|| self.shared.unknown(name));
        };
        Ok(match place {
            Place::Register(slot, _) if offset == 0 => slot,
            Place::Register(..) | Place::Registers { .. } => return Err(Reason::Operands),
            Place::Variable(variable) => self.constant(Constant::Address { variable, offset }),
            Place::Function(function) if offset == 0 => self.bits(function_address(function)),
            Place::Function(_) => return Err(Reason::Operands),
            Place::Shared(variable) => {
                self.function.shared.insert(variable);
                self.constant(Constant::Shared { variable, offset })
            }
            Place::Parameter(place) => self.bits((PARAMETER_WINDOW + place).wrapping_add_signed(offset)),
            Place::DynamicShared if offset == 0 => {
                special(DYNAMIC_SHARED).ok_or_else(|| Reason::Name(name.to_owned()))?
            }
            Place::DynamicShared => return Err(Reason::Operands),
            Place::Frame(place, _, generic) => {
                let to = self.register();
                let offset = place.wrapping_add_signed(offset) + if generic { LOCAL_WINDOW } else { 0 };
                self.emit(Op::Frame { to, offset });
                to
            }
        })
    }

    /// Returns the register of an operand that the instruction writes. For `_` this is a new register that
    /// nothing reads.
    pub(crate) fn target(&mut self, operand: &Operand<'a>) -> Decoding<Slot> {
        match operand {
            Operand::Name("_") => Ok(self.register()),
            Operand::Name(name) => match self.lookup(name) {
                Some(Place::Register(slot, _)) => Ok(slot),
                Some(_) => Err(Reason::Operands),
                None => Err(Reason::Name((*name).to_owned())),
            },
            _ => Err(Reason::Operands),
        }
    }

    pub(crate) fn emit(&mut self, op: Op) {
        let Self { guard, line, order, .. } = *self;
        self.instructions.push(Instruction { guard, op, line, order });
    }

    pub(crate) fn apply(&mut self, function: Compute, to: Slot, from: &[Slot]) {
        let op =
            Op::compute(function, How::default(), to, from).expect("as many operands as the function takes");
        self.emit(op);
    }

    pub(crate) fn copy(&mut self, to: Slot, from: Slot) {
        self.apply(lanes!(_, |a: u64| a), to, &[from]);
    }

    pub(crate) fn negated(&mut self, from: Slot) -> Slot {
        let to = self.register();
        self.apply(lanes!(_, |a: bool| !a), to, &[from]);
        to
    }

    /// Packs several registers into one value of type `kind`, the first in the low bits.
    pub(crate) fn packed(&mut self, parts: &[Operand<'a>], kind: Type) -> Decoding<Slot> {
        let to = self.register();
        let size = kind.size() * 8 / parts.len().max(1) as u64;
        let function = match size {
            8 => lanes!(_, |all: u64, part: u8, by: u32| all | u64::from(part) << by),
            16 => lanes!(_, |all: u64, part: u16, by: u32| all | u64::from(part) << by),
            32 => lanes!(_, |all: u64, part: u32, by: u32| all | u64::from(part) << by),
            _ => return Err(Reason::Operands),
        };
        let mut all = self.bits(0);
        for (index, part) in parts.iter().enumerate() {
            let part = self.source(part, kind)?;
            let shift = self.bits(size * index as u64);
            self.apply(function, to, &[all, part, shift]);
            all = to;
        }
        Ok(to)
    }
}
