//! Statements to instructions: names become registers, places and targets.

use std::collections::HashMap;

use crate::address::{LOCAL_WINDOW, PARAMETER_WINDOW};
use crate::declare::{
    MOST_STATIC, Place, Shared, check_constants, check_size, initialised, layout, literal, most_parameters,
    reserve, signature, wrong,
};
use crate::error::{LoadError, Reason};
use crate::form::Kind;
use crate::op::{DYNAMIC_SHARED, GRID, Instruction, Op, Rows, Sizes, Slot, special};
use crate::program::{Constant, Function, Kernel, Program, function_address};
use crate::reach::Reach;
use crate::syntax::{self, Operand, Statement};
use crate::types::Type;

pub(crate) fn program(text: &str) -> Result<Program, LoadError> {
    let parsed = syntax::parse(text)?;
    let mut module = Shared::default();
    let mut variables = Vec::new();
    let defined = parsed.functions.iter().filter_map(|function| Some((function, function.body.as_deref()?)));
    for (index, (function, _)) in defined.clone().enumerate() {
        let signature = signature(function)?;
        if function.entry {
            check_size(function, signature.size, most_parameters(parsed.version))?;
        }
        if module.names.insert(function.name, Place::Function(index)).is_some() {
            return Err(LoadError::again(function.line, function.name));
        }
        module.signatures.push(signature);
    }
    // One that is declared for others and defined here is one variable. What is defined nowhere is loaded nevertheless, as zeros:
    // an H200's driver did so.
    let is_defined = |name: &str| parsed.variables.iter().any(|other| !other.external && other.name == name);
    let own = |variable: &&syntax::Variable<'_>| !variable.external || !is_defined(variable.name);
    for variable in parsed.variables.iter().filter(own) {
        let place = match variable.space {
            "shared" if variable.external => Place::DynamicShared,
            "shared" => module.in_shared_memory(variable)?,
            _ => Place::Variable(variables.len()),
        };
        if module.names.insert(variable.name, place).is_some() {
            return Err(LoadError::again(variable.line, variable.name));
        }
        if let Place::Variable(_) = place {
            variables.push(variable);
        }
    }
    check_constants(&variables)?;
    let variables = variables.iter().map(|variable| initialised(variable, &module.names));

    let mut program = Program {
        text: text.to_owned(),
        instructions: Vec::new(),
        functions: Vec::new(),
        kernels: HashMap::new(),
        constants: Vec::new(),
        variables: variables.collect::<Result<_, _>>()?,
    };
    for (index, (function, body)) in defined.clone().enumerate() {
        let start = program.instructions.len();
        let decoded = Decoder::new(&mut module, &mut program.constants, function, index, start)
            .decode(function, body)?;
        program.instructions.extend(decoded.instructions);
        program.functions.push(decoded.function);
    }
    for (index, (function, _)) in defined.enumerate().filter(|(_, (function, _))| function.entry) {
        let reach = Reach::of(index, &program, &module.shared);
        check_size(function, reach.shared, MOST_STATIC)?;
        program.kernels.insert(function.name.to_owned(), Kernel { function: index, reach });
    }
    crate::timed::mark(&mut program);
    Ok(program)
}

/// Decodes one body.
pub(crate) struct Decoder<'a, 'm> {
    pub shared: &'m mut Shared<'a>,
    constants: &'m mut Vec<Constant>,
    function: Function,
    pub instructions: Vec<Instruction>,
    /// What the instructions that one statement becomes have in common.
    pub guard: Option<(Slot, bool)>,
    pub line: u32,
    /// The place of the first instruction in the program.
    start: usize,
    /// The names of each open brace, and how much of the frame was in use when it opened.
    scopes: Vec<Scope<'a>>,
    opened: usize,
    frame: u64,
    /// Labels by scope and name, and their instruction, once it is known.
    labels: HashMap<(usize, &'a str), usize>,
    targets: Vec<u32>,
    tables: HashMap<&'a str, Vec<&'a str>>,
    prototypes: HashMap<&'a str, Sizes>,
    carry: Option<Slot>,
    ranges: usize,
    /// The registers of ranges that are named anywhere, by range and number.
    named: HashMap<(usize, u64), Slot>,
}

struct Scope<'a> {
    number: usize,
    names: HashMap<&'a str, Place>,
    frame: u64,
}

/// What a body became.
struct Decoded {
    function: Function,
    instructions: Vec<Instruction>,
}

/// Why an instruction is refused; its line and text are added where they are known.
pub(crate) type Decoding<T> = Result<T, Reason>;

impl<'a, 'm> Decoder<'a, 'm> {
    fn new(
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

    fn decode(
        mut self,
        function: &syntax::Function<'a>,
        body: &[Statement<'a>],
    ) -> Result<Decoded, LoadError> {
        self.find_labels(body)?;
        for statement in body {
            match statement {
                Statement::Open => {
                    self.opened += 1;
                    self.scopes.push(Scope { number: self.opened, names: HashMap::new(), frame: self.frame });
                }
                Statement::Close => {
                    if let Some(scope) = self.scopes.pop() {
                        self.frame = scope.frame;
                    }
                }
                Statement::Label(name, _) => {
                    let scope = self.scope().number;
                    let id = self.labels[&(scope, *name)];
                    self.targets[id] = (self.start + self.instructions.len()) as u32;
                }
                Statement::Registers { name, kind, line, count } => {
                    self.declare_registers(name, kind, *count).map_err(|reason| LoadError {
                        line: *line,
                        statement: format!(".reg .{kind} {name}"),
                        reason,
                    })?;
                }
                Statement::Variable(variable) => self.declare(variable)?,
                Statement::Targets(_) | Statement::Prototype(_) => {}
                Statement::Instruction(instruction) => {
                    self.instruction(instruction).map_err(|reason| LoadError {
                        line: instruction.line,
                        statement: instruction.opcode.to_owned(),
                        reason,
                    })?;
                }
            }
        }
        self.instructions.push(Instruction { guard: None, op: Op::Return, line: function.line });
        for instruction in &mut self.instructions {
            match &mut instruction.op {
                Op::Branch { to } => *to = self.targets[*to as usize],
                Op::Switch { targets, .. } => {
                    targets.iter_mut().for_each(|target| *target = self.targets[*target as usize])
                }
                _ => {}
            }
        }
        // Each call takes some of the stack, so that calls without parameters come to its end too.
        let least = if function.entry { 0 } else { 16 };
        self.function.frame = self.function.frame.max(least).next_multiple_of(16);
        Ok(Decoded { function: self.function, instructions: self.instructions })
    }

    /// Labels are known before their instruction is, and inline assembly has its own in each brace.
    fn find_labels(&mut self, body: &[Statement<'a>]) -> Result<(), LoadError> {
        let mut opened = 0;
        let mut scopes = vec![0];
        for (index, statement) in body.iter().enumerate() {
            match statement {
                Statement::Open => {
                    opened += 1;
                    scopes.push(opened);
                }
                Statement::Close => _ = scopes.pop(),
                Statement::Label(name, line) => {
                    match body.get(index + 1) {
                        Some(Statement::Targets(targets)) => _ = self.tables.insert(name, targets.clone()),
                        Some(Statement::Prototype(function)) => {
                            self.prototypes.insert(name, signature(function)?.sizes());
                        }
                        _ => {}
                    }
                    let key = (scopes.last().copied().unwrap_or(0), *name);
                    if self.labels.insert(key, self.targets.len()).is_some() {
                        return Err(LoadError {
                            line: *line,
                            statement: format!("{name}:"),
                            reason: Reason::Again((*name).to_owned()),
                        });
                    }
                    self.targets.push(0);
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn scope(&mut self) -> &mut Scope<'a> {
        self.scopes.last_mut().expect("the parser balances braces")
    }

    fn declare_registers(&mut self, name: &'a str, kind: &str, count: Option<u64>) -> Decoding<()> {
        let kind = Kind::named(kind).ok_or(Reason::Form)?;
        let place = match count {
            None => Place::Register(self.register(), kind),
            Some(count) => {
                self.ranges += 1;
                Place::Registers { range: self.ranges, count, kind }
            }
        };
        self.name(name, place)
    }

    /// Gives a name a meaning up to the next closing brace.
    fn name(&mut self, name: &'a str, place: Place) -> Decoding<()> {
        match self.scope().names.insert(name, place) {
            Some(_) => Err(Reason::Again(name.to_owned())),
            None => Ok(()),
        }
    }

    /// The register of the carry, which `add.cc` and its like have in common.
    pub(crate) fn carry(&mut self) -> Slot {
        if let Some(slot) = self.carry {
            return slot;
        }
        let slot = self.register();
        self.carry = Some(slot);
        slot
    }

    /// One more register.
    pub(crate) fn register(&mut self) -> Slot {
        self.function.registers += 1;
        Slot::new(Rows::Register, self.function.registers - 1)
    }

    fn declare(&mut self, variable: &syntax::Variable<'a>) -> Result<(), LoadError> {
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

    /// What a name means here.
    pub(crate) fn lookup(&mut self, name: &str) -> Option<Place> {
        // `%r7` was declared as one of `%r<9>`.
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
            None => self.register(),
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
            constants.len() - 1
        });
        Slot::new(Rows::Grid, GRID.len() + index)
    }

    pub(crate) fn bits(&mut self, bits: u64) -> Slot {
        self.constant(Constant::Bits(bits))
    }

    /// The row of an operand that is read.
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
            return special(name).ok_or_else(|| Reason::Name(name.to_owned()));
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

    /// The register of an operand that is written. `_` is one that nobody reads.
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
        self.instructions.push(Instruction { guard: self.guard, op, line: self.line });
    }
}
