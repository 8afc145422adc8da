//! Statements to instructions: names become registers, places and targets.

use std::collections::HashMap;

use super::address::{LOCAL_WINDOW, PARAMETER_WINDOW};
use super::error::{LoadError, Reason};
use super::op::{DYNAMIC_SHARED, GRID, Instruction, Op, Rows, Slot, special};
use super::program::{Constant, Function, Program, Variable};
use super::syntax::{self, Operand, Statement};
use super::types::{Scalar, Type};

pub(super) fn program(text: &str) -> Result<Program, LoadError> {
    let parsed = syntax::parse(text)?;
    let mut module = Shared::default();
    let mut variables = Vec::new();
    for variable in &parsed.variables {
        let (size, align) = layout(variable)?;
        let place = match variable.space {
            "shared" if variable.external => Place::DynamicShared,
            "shared" => Place::Shared(reserve(&mut module.shared, size, align)),
            _ => Place::Variable(module.variables.len()),
        };
        module.names.insert(variable.name, place);
        if let Place::Variable(_) = place {
            module.variables.push(variable);
        }
    }
    for variable in &module.variables {
        variables.push(initialised(variable, &module.names)?);
    }
    for function in parsed.functions.iter().filter(|function| function.body.is_some()) {
        module.functions.insert(function.name, module.signatures.len());
        module.signatures.push(signature(function)?);
    }

    let mut program = Program {
        text: text.to_owned(),
        instructions: Vec::new(),
        functions: Vec::new(),
        kernels: HashMap::new(),
        constants: Vec::new(),
        variables,
    };
    for function in &parsed.functions {
        let Some(body) = &function.body else { continue };
        if function.entry {
            program.kernels.insert(function.name.to_owned(), program.functions.len());
        }
        let decoded = Decoder::new(&mut module, &mut program.constants, function, program.instructions.len())
            .decode(function, body)?;
        program.instructions.extend(decoded.instructions);
        program.functions.push(decoded.function);
    }
    super::timed::mark(&mut program);
    Ok(program)
}

/// What the functions of a module share.
#[derive(Default)]
pub(super) struct Shared<'a, 't> {
    names: HashMap<&'a str, Place>,
    shared: u64,
    variables: Vec<&'t syntax::Variable<'a>>,
    pub functions: HashMap<&'a str, usize>,
    /// The places of results and parameters of each function.
    signatures: Vec<Signature>,
    constants: HashMap<Constant, usize>,
}

#[derive(Clone, Default)]
struct Signature {
    returns: Vec<(u64, u64)>,
    parameters: Vec<(u64, u64)>,
    size: u64,
}

/// What a name stands for that is not a register.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Place {
    Variable(usize),
    Shared(u64),
    DynamicShared,
    /// Something in the frame, and whether its address is generic as that of a parameter is.
    Frame(u64, bool),
    Parameter(u64),
    Register(Slot),
    /// The first register of `%r<9>`, and how many there are.
    Registers(usize, usize),
}

/// The size and the alignment of a variable.
fn layout(variable: &syntax::Variable<'_>) -> Result<(u64, u64), LoadError> {
    let wrong = |reason| LoadError {
        line: variable.line,
        statement: format!(".{} .{} {}", variable.space, variable.kind, variable.name),
        reason,
    };
    // No device has as much memory, and sums of such sizes are numbers.
    const MOST: u64 = 1 << 40;
    let kind = Type::named(variable.kind).ok_or_else(|| wrong(Reason::Instruction))?;
    let element = kind.size().saturating_mul(variable.vector);
    let size = element.saturating_mul(variable.count.unwrap_or(1));
    let align = variable.align.unwrap_or(element).max(1);
    if size > MOST || align > MOST { Err(wrong(Reason::Size)) } else { Ok((size, align)) }
}

fn reserve(used: &mut u64, size: u64, align: u64) -> u64 {
    let place = used.next_multiple_of(align);
    *used = place + size;
    place
}

fn initialised(variable: &syntax::Variable<'_>, names: &HashMap<&str, Place>) -> Result<Variable, LoadError> {
    let (size, align) = layout(variable)?;
    let element = Type::named(variable.kind).map_or(1, Type::size) as usize;
    let mut made = Variable {
        name: variable.name.to_owned(),
        size,
        align,
        initial: vec![0; (size as usize).min(element * variable.initial.len())],
        pointers: vec![],
    };
    for (index, value) in variable.initial.iter().enumerate() {
        let place = index * element;
        let wrong = |reason| LoadError { line: variable.line, statement: variable.name.to_owned(), reason };
        let Some(bytes) = made.initial.get_mut(place..place + element) else {
            return Err(wrong(Reason::Operands));
        };
        let (name, offset) = match value {
            Operand::Name(name) => (*name, 0),
            Operand::Address(base, offset) => match **base {
                Operand::Name(name) => (name, *offset),
                _ => return Err(wrong(Reason::Operands)),
            },
            number => {
                let kind = Type::named(variable.kind).unwrap_or(Type::U8);
                let bits = literal(number, kind).ok_or_else(|| wrong(Reason::Operands))?;
                bytes.copy_from_slice(&bits.to_le_bytes()[..element]);
                continue;
            }
        };
        match names.get(name) {
            Some(&Place::Variable(target)) if element == 8 => made.pointers.push((place, target, offset)),
            Some(_) => return Err(wrong(Reason::Operands)),
            None => return Err(wrong(Reason::Name(name.to_owned()))),
        }
    }
    Ok(made)
}

/// The bits of a number, as that type has them.
fn literal(number: &Operand<'_>, kind: Type) -> Option<u64> {
    match *number {
        Operand::Integer(value) => Some(value),
        Operand::Single(bits) => Some(u64::from(bits)),
        Operand::Double(bits) if kind == Type::F32 => Some((f64::from_bits(bits) as f32).bits()),
        Operand::Double(bits) => Some(bits),
        _ => None,
    }
}

/// Results first, then parameters: in the arguments of a kernel, or from the start of a function's frame.
fn signature(function: &syntax::Function<'_>) -> Result<Signature, LoadError> {
    let mut signature = Signature::default();
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

/// Decodes one body.
pub(super) struct Decoder<'a, 't, 'm> {
    pub shared: &'m mut Shared<'a, 't>,
    constants: &'m mut Vec<Constant>,
    function: Function,
    pub instructions: Vec<Instruction>,
    /// The place of the first instruction in the program.
    start: usize,
    entry: bool,
    /// The names of each open brace, and how much of the frame was in use when it opened.
    scopes: Vec<Scope<'a>>,
    opened: usize,
    frame: u64,
    /// Labels by scope and name, and their instruction, once it is known.
    labels: HashMap<(usize, &'a str), usize>,
    targets: Vec<u32>,
    tables: HashMap<&'a str, Vec<&'a str>>,
    carry: Option<Slot>,
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
pub(super) type Decoding<T> = Result<T, Reason>;

impl<'a, 't, 'm> Decoder<'a, 't, 'm> {
    fn new(
        shared: &'m mut Shared<'a, 't>,
        constants: &'m mut Vec<Constant>,
        function: &syntax::Function<'a>,
        start: usize,
    ) -> Self {
        let signature = shared.signatures[shared.functions[function.name]].clone();
        let mut names = HashMap::new();
        let variables = function.returns.iter().chain(&function.parameters);
        for (variable, &(place, _)) in variables.zip(signature.returns.iter().chain(&signature.parameters)) {
            let place = if function.entry { Place::Parameter(place) } else { Place::Frame(place, true) };
            names.insert(variable.name, place);
        }
        let frame = if function.entry { 0 } else { signature.size.next_multiple_of(16) };
        Self {
            function: Function {
                name: function.name.to_owned(),
                start: start as u32,
                frame,
                parameters: signature.parameters,
                returns: signature.returns,
                shared: shared.shared,
                max_threads: function.max_threads,
                cluster: function.cluster,
                ..Function::default()
            },
            shared,
            constants,
            instructions: Vec::new(),
            start,
            entry: function.entry,
            scopes: vec![Scope { number: 0, names, frame }],
            opened: 0,
            frame,
            labels: HashMap::new(),
            targets: Vec::new(),
            tables: HashMap::new(),
            carry: None,
        }
    }

    fn decode(
        mut self,
        function: &syntax::Function<'a>,
        body: &[Statement<'a>],
    ) -> Result<Decoded, LoadError> {
        self.find_labels(body);
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
                Statement::Label(name) => {
                    let scope = self.scope().number;
                    let id = self.labels[&(scope, *name)];
                    self.targets[id] = (self.start + self.instructions.len()) as u32;
                }
                Statement::Registers { name, count, .. } => self.declare_registers(name, *count),
                Statement::Variable(variable) => self.declare(variable)?,
                Statement::Targets(_) => {}
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
        self.function.frame = self.function.frame.next_multiple_of(16);
        Ok(Decoded { function: self.function, instructions: self.instructions })
    }

    /// Labels are known before their instruction is, and inline assembly has its own in each brace.
    fn find_labels(&mut self, body: &[Statement<'a>]) {
        let mut opened = 0;
        let mut scopes = vec![0];
        for (index, statement) in body.iter().enumerate() {
            match statement {
                Statement::Open => {
                    opened += 1;
                    scopes.push(opened);
                }
                Statement::Close => _ = scopes.pop(),
                Statement::Label(name) => {
                    if let Some(Statement::Targets(targets)) = body.get(index + 1) {
                        self.tables.insert(name, targets.clone());
                    }
                    self.labels.insert((scopes.last().copied().unwrap_or(0), name), self.targets.len());
                    self.targets.push(0);
                }
                _ => {}
            }
        }
    }

    fn scope(&mut self) -> &mut Scope<'a> {
        self.scopes.last_mut().expect("the parser balances braces")
    }

    fn declare_registers(&mut self, name: &'a str, count: Option<u64>) {
        let first = self.function.registers;
        let Some(count) = count else {
            let slot = self.register();
            self.scope().names.insert(name, Place::Register(slot));
            return;
        };
        self.function.registers += count as usize;
        self.scope().names.insert(name, Place::Registers(first, count as usize));
    }

    /// The register of the carry, which `add.cc` and its like have in common.
    pub(super) fn carry(&mut self) -> Slot {
        if let Some(slot) = self.carry {
            return slot;
        }
        let slot = self.register();
        self.carry = Some(slot);
        slot
    }

    /// One more register.
    pub(super) fn register(&mut self) -> Slot {
        self.function.registers += 1;
        Slot::new(Rows::Register, self.function.registers - 1)
    }

    fn declare(&mut self, variable: &syntax::Variable<'a>) -> Result<(), LoadError> {
        let (size, align) = layout(variable)?;
        let place = match variable.space {
            "local" | "param" => {
                let place = reserve(&mut self.frame, size, align);
                self.function.frame = self.function.frame.max(self.frame);
                Place::Frame(place, variable.space == "param")
            }
            // Functions share what is theirs with all kernels, as nobody knows yet who calls them.
            "shared" if self.entry => Place::Shared(reserve(&mut self.function.shared, size, align)),
            "shared" => Place::Shared(reserve(&mut self.shared.shared, size, align)),
            _ => return Err(LoadError::syntax(variable.line, variable.name)),
        };
        self.scope().names.insert(variable.name, place);
        Ok(())
    }

    /// What a name means here.
    pub(super) fn lookup(&self, name: &str) -> Option<Place> {
        // `%r7` was declared as one of `%r<9>`.
        let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
        let number = || name[stem.len()..].parse::<usize>().ok();
        for scope in self.scopes.iter().rev() {
            if let Some(place) = scope.names.get(name) {
                return Some(*place);
            }
            if let (Some(&Place::Registers(first, count)), Some(number)) = (scope.names.get(stem), number())
                && number < count
            {
                return Some(Place::Register(Slot::new(Rows::Register, first + number)));
            }
        }
        self.shared.names.get(name).copied()
    }

    pub(super) fn label(&self, name: &str) -> Decoding<u32> {
        let found = self.scopes.iter().rev().find_map(|scope| self.labels.get(&(scope.number, name)));
        found.map(|id| *id as u32).ok_or_else(|| Reason::Name(name.to_owned()))
    }

    pub(super) fn table(&self, name: &str) -> Decoding<Box<[u32]>> {
        let labels = self.tables.get(name).ok_or_else(|| Reason::Name(name.to_owned()))?;
        labels.iter().map(|label| self.label(label)).collect()
    }

    pub(super) fn constant(&mut self, constant: Constant) -> Slot {
        let constants = &mut *self.constants;
        let index = *self.shared.constants.entry(constant).or_insert_with(|| {
            constants.push(constant);
            constants.len() - 1
        });
        Slot::new(Rows::Grid, GRID.len() + index)
    }

    pub(super) fn bits(&mut self, bits: u64) -> Slot {
        self.constant(Constant::Bits(bits))
    }

    /// The row of an operand that is read.
    pub(super) fn source(&mut self, operand: &Operand<'a>, kind: Type, emit: &mut Emit) -> Decoding<Slot> {
        let (name, offset) = match operand {
            Operand::Name(name) => (*name, 0),
            Operand::Address(base, offset) => match **base {
                Operand::Name(name) => (name, *offset),
                _ => return Err(Reason::Operands),
            },
            Operand::Not(name) => {
                let from = self.source(&Operand::Name(name), Type::Pred, emit)?;
                return Ok(self.negated(from, emit));
            }
            Operand::Vector(parts) => return self.packed(parts, kind, emit),
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
            Place::Register(slot) if offset == 0 => slot,
            Place::Register(_) | Place::Registers(..) => return Err(Reason::Operands),
            Place::Variable(variable) => self.constant(Constant::Address { variable, offset }),
            Place::Shared(place) => self.bits(place.wrapping_add_signed(offset)),
            Place::Parameter(place) => self.bits((PARAMETER_WINDOW + place).wrapping_add_signed(offset)),
            Place::DynamicShared if offset == 0 => {
                special(DYNAMIC_SHARED).ok_or_else(|| Reason::Name(name.to_owned()))?
            }
            Place::DynamicShared => return Err(Reason::Operands),
            Place::Frame(place, generic) => {
                let to = self.register();
                let offset = place.wrapping_add_signed(offset) + if generic { LOCAL_WINDOW } else { 0 };
                self.emit(emit, Op::Frame { to, offset });
                to
            }
        })
    }

    /// The register of an operand that is written. `_` is one that nobody reads.
    pub(super) fn target(&mut self, operand: &Operand<'a>) -> Decoding<Slot> {
        match operand {
            Operand::Name("_") => Ok(self.register()),
            Operand::Name(name) => match self.lookup(name) {
                Some(Place::Register(slot)) => Ok(slot),
                Some(_) => Err(Reason::Operands),
                None => Err(Reason::Name((*name).to_owned())),
            },
            _ => Err(Reason::Operands),
        }
    }

    pub(super) fn emit(&mut self, emit: &Emit, op: Op) {
        self.instructions.push(Instruction { guard: emit.guard, op, line: emit.line });
    }
}

/// What the instructions that one statement becomes have in common.
pub(super) struct Emit {
    pub guard: Option<(Slot, bool)>,
    pub line: u32,
}
