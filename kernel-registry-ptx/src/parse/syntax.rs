//! Parses tokens into declarations and statements, before names are resolved.

use crate::parse::cursor::{Cursor, Parsed};
use crate::parse::lex::Token;

#[derive(Default)]
pub(crate) struct Text<'a> {
    /// Major and minor version of the PTX language.
    pub version: (u64, u64),
    pub variables: Vec<Variable<'a>>,
    pub functions: Vec<Function<'a>>,
}

pub(crate) struct Variable<'a> {
    pub space: &'a str,
    pub external: bool,
    pub align: Option<u64>,
    /// The type without its dot: `b8`, `u32`.
    pub kind: &'a str,
    /// The number of elements of a `.v2` or `.v4` vector, or 1.
    pub vector: u64,
    pub name: &'a str,
    /// The product of the array's dimensions, or 0 for `[]`. `None` if the variable is no array.
    pub count: Option<u64>,
    pub initial: Vec<Operand<'a>>,
    pub line: u32,
}

#[derive(Default)]
pub(crate) struct Function<'a> {
    pub entry: bool,
    pub name: &'a str,
    pub returns: Vec<Variable<'a>>,
    pub parameters: Vec<Variable<'a>>,
    /// The number of threads in `.maxntid` or `.reqntid`.
    pub max_threads: Option<u64>,
    /// The sizes in `.reqnctapercluster`.
    pub cluster: Option<[u64; 3]>,
    /// The statements. `None` if the function is only declared.
    pub body: Option<Vec<Statement<'a>>>,
    pub line: u32,
}

pub(crate) enum Statement<'a> {
    Open,
    Close,
    Label(&'a str, u32),
    Registers {
        name: &'a str,
        /// The type of the registers, without its dot.
        kind: &'a str,
        line: u32,
        count: Option<u64>,
    },
    Variable(Variable<'a>),
    /// The possible targets of an indirect branch.
    Targets(Vec<&'a str>),
    /// The prototype of an indirect call.
    Prototype(Function<'a>),
    Instruction(Instruction<'a>),
}

pub(crate) struct Instruction<'a> {
    /// The predicate that must be true for the instruction to execute, and whether it is negated.
    pub guard: Option<(&'a str, bool)>,
    pub opcode: &'a str,
    pub operands: Vec<Operand<'a>>,
    pub line: u32,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Operand<'a> {
    Name(&'a str),
    Integer(u64),
    Single(u32),
    Double(u64),
    /// `[base + offset]` or `base + offset`.
    Address(Box<Operand<'a>>, i64),
    Vector(Vec<Operand<'a>>),
    /// Operands in parentheses: the results or the arguments of a call.
    List(Vec<Operand<'a>>),
    /// Several operands in brackets, such as a texture and its coordinates.
    Coordinates(Vec<Operand<'a>>),
    /// Two names: `p|q`.
    Pair(&'a str, &'a str),
    Not(&'a str),
}

pub(crate) fn parse(text: &str) -> Parsed<Text<'_>> {
    let mut cursor = Cursor::new(text)?;
    let mut parsed = Text::default();
    while cursor.peek().is_some() {
        cursor.top_level(&mut parsed)?;
    }
    Ok(parsed)
}

/// The deepest nesting of braces in an initialiser.
const DEEPEST: u32 = 16;

impl<'a> Cursor<'a> {
    /// Parses the version of PTX. The lexer reads it as a decimal number.
    fn version(&mut self) -> Parsed<(u64, u64)> {
        let Some(Token::Double(bits)) = self.take() else { return self.unexpected() };
        let tenths = (f64::from_bits(bits) * 10.0).round() as u64;
        Ok((tenths / 10, tenths % 10))
    }

    fn top_level(&mut self, parsed: &mut Text<'a>) -> Parsed<()> {
        let mut external = false;
        loop {
            let line = self.line();
            match self.word()? {
                ".version" => {
                    parsed.version = self.version()?;
                    return Ok(());
                }
                ".address_size" => return self.integer().map(drop),
                ".target" => {
                    self.list(Self::word)?;
                    return Ok(());
                }
                ".file" => {
                    self.skip_line();
                    return Ok(());
                }
                ".pragma" => return self.pragma(),
                ".section" => {
                    self.skip_to('{')?;
                    return self.skip_to('}');
                }
                ".extern" => external = true,
                ".visible" | ".weak" | ".common" => {}
                space @ (".global" | ".const" | ".shared") => {
                    let variable = self.variable(space, external, line)?;
                    self.expect(';')?;
                    parsed.variables.push(variable);
                    return Ok(());
                }
                kind @ (".entry" | ".func") => {
                    parsed.functions.push(self.function(kind == ".entry", line)?);
                    return Ok(());
                }
                _ => return self.unexpected(),
            }
        }
    }

    /// Parses a pragma, which is advice to the compiler and has no effect here.
    fn pragma(&mut self) -> Parsed<()> {
        self.list(Self::text)?;
        self.expect(';')
    }

    /// Parses the rest of a variable after its state space, to the end of its initialiser.
    fn variable(&mut self, space: &'a str, external: bool, line: u32) -> Parsed<Variable<'a>> {
        let mut variable = Variable {
            space: &space[1..],
            external,
            align: None,
            kind: "",
            vector: 1,
            name: "",
            count: None,
            initial: Vec::new(),
            line,
        };
        loop {
            match self.word()? {
                ".align" => variable.align = Some(self.integer()?),
                ".v2" => variable.vector = 2,
                ".v4" => variable.vector = 4,
                ".attribute" => self.skip_to(')')?,
                // `.ptr .global .align 4` describes the target of a pointer parameter.
                ".ptr" => {
                    let _ =
                        [".global", ".const", ".shared", ".local"].iter().any(|space| self.directive(space));
                    if self.directive(".align") {
                        self.integer()?;
                    }
                }
                kind if kind.starts_with('.') => variable.kind = &kind[1..],
                name => {
                    variable.name = name;
                    break;
                }
            }
        }
        while self.sign('[') {
            let length = if self.peek() == Some(Token::Sign(']')) { 0 } else { self.integer()? };
            variable.count = Some(variable.count.unwrap_or(1).saturating_mul(length));
            self.expect(']')?;
        }
        if self.sign('=') {
            self.initialiser(&mut variable.initial, DEEPEST)?;
        }
        Ok(variable)
    }

    fn initialiser(&mut self, into: &mut Vec<Operand<'a>>, depth: u32) -> Parsed<()> {
        if depth == 0 {
            return self.wrong();
        }
        if !self.sign('{') {
            into.push(self.initial_value()?);
            return Ok(());
        }
        while !self.sign('}') {
            self.initialiser(into, depth - 1)?;
            self.sign(',');
        }
        Ok(())
    }

    /// Parses a value of an initialiser. `generic(name)` means the same as `name`, because global addresses
    /// are generic.
    fn initial_value(&mut self) -> Parsed<Operand<'a>> {
        if !self.directive("generic") {
            return self.operand(0);
        }
        self.expect('(')?;
        let name = Operand::Name(self.word()?);
        self.expect(')')?;
        self.offset(name)
    }

    fn parameters(&mut self) -> Parsed<Vec<Variable<'a>>> {
        let mut found = Vec::new();
        if self.sign('(') {
            while !self.sign(')') {
                let line = self.line();
                let space = self.word()?;
                if space != ".param" && space != ".reg" {
                    return self.wrong();
                }
                found.push(self.variable(space, false, line)?);
                self.sign(',');
            }
        }
        Ok(found)
    }

    fn function(&mut self, entry: bool, line: u32) -> Parsed<Function<'a>> {
        let mut function = Function { entry, line, ..Function::default() };
        while self.directive(".noreturn") {}
        function.returns = self.parameters()?;
        function.name = self.word()?;
        function.parameters = self.parameters()?;
        loop {
            if self.sign(';') {
                return Ok(function);
            }
            if self.sign('{') {
                function.body = Some(self.body()?);
                return Ok(function);
            }
            match self.word()? {
                ".maxntid" | ".reqntid" => {
                    let sizes = self.list(Self::integer)?;
                    function.max_threads = Some(sizes.into_iter().fold(1, u64::saturating_mul));
                }
                ".reqnctapercluster" => {
                    let sizes = self.list(Self::integer)?;
                    let size = |axis: usize| sizes.get(axis).copied().unwrap_or(1);
                    function.cluster = Some([size(0), size(1), size(2)]);
                }
                ".minnctapersm" | ".maxnreg" | ".maxclusterrank" => _ = self.list(Self::integer)?,
                ".explicitcluster" | ".noreturn" | ".blocksareclusters" => {}
                ".pragma" => self.pragma()?,
                _ => return self.unexpected(),
            }
        }
    }

    fn body(&mut self) -> Parsed<Vec<Statement<'a>>> {
        let mut body = Vec::new();
        let mut depth = 1;
        while depth > 0 {
            if self.sign('{') {
                depth += 1;
                body.push(Statement::Open);
            } else if self.sign('}') {
                depth -= 1;
                body.push(Statement::Close);
            } else if !self.sign(';') {
                self.statement(&mut body)?;
            }
        }
        Ok(body)
    }

    fn statement(&mut self, body: &mut Vec<Statement<'a>>) -> Parsed<()> {
        let line = self.line();
        let guard = if self.sign('@') {
            let negated = self.sign('!');
            Some((self.word()?, negated))
        } else {
            None
        };
        let word = self.word()?;
        match word {
            _ if guard.is_none() && self.sign(':') => body.push(Statement::Label(word, line)),
            ".reg" => return self.registers(body),
            ".local" | ".shared" | ".param" | ".global" | ".const" => {
                body.push(Statement::Variable(self.variable(word, false, line)?));
                self.expect(';')?;
            }
            ".loc" => self.skip_line(),
            ".pragma" => self.pragma()?,
            ".branchtargets" => {
                body.push(Statement::Targets(self.list(Self::word)?));
                self.expect(';')?;
            }
            ".callprototype" => {
                let returns = self.parameters()?;
                self.word()?;
                let parameters = self.parameters()?;
                while self.directive(".noreturn") {}
                body.push(Statement::Prototype(Function {
                    returns,
                    parameters,
                    line,
                    ..Function::default()
                }));
                self.expect(';')?;
            }
            opcode if !opcode.starts_with('.') => {
                let mut operands = Vec::new();
                while !self.sign(';') {
                    operands.push(self.operand(2)?);
                    if !self.sign(',') && self.peek() != Some(Token::Sign(';')) {
                        return self.wrong();
                    }
                }
                body.push(Statement::Instruction(Instruction { guard, opcode, operands, line }));
            }
            _ => return self.unexpected(),
        }
        Ok(())
    }

    /// Parses a declaration of registers: `.reg .b32 %r<7>;` or `.reg .pred p, q;`.
    fn registers(&mut self, body: &mut Vec<Statement<'a>>) -> Parsed<()> {
        let kind = self.word()?.trim_start_matches('.');
        loop {
            let line = self.line();
            let name = self.word()?;
            let count = if self.sign('<') {
                let count = self.integer()?;
                self.expect('>')?;
                Some(count)
            } else {
                None
            };
            body.push(Statement::Registers { name, kind, line, count });
            if !self.sign(',') {
                return self.expect(';');
            }
        }
    }

    /// Parses an operand that contains other operands nested at most `depth` levels deep.
    fn operand(&mut self, depth: u32) -> Parsed<Operand<'a>> {
        if depth > 0 && self.sign('[') {
            let inner = self.operand(0)?;
            if self.sign(',') {
                let mut parts = vec![inner];
                parts.extend(self.list(|cursor| cursor.operand(1))?);
                self.expect(']')?;
                return Ok(Operand::Coordinates(parts));
            }
            self.expect(']')?;
            return Ok(match inner {
                Operand::Address(..) => inner,
                base => Operand::Address(Box::new(base), 0),
            });
        }
        for (open, close) in [('{', '}'), ('(', ')')] {
            if depth > 0 && self.sign(open) {
                let mut inner = Vec::new();
                while !self.sign(close) {
                    inner.push(self.operand(depth - 1)?);
                    if !self.sign(',') && self.peek() != Some(Token::Sign(close)) {
                        return self.wrong();
                    }
                }
                return Ok(if open == '{' { Operand::Vector(inner) } else { Operand::List(inner) });
            }
        }
        if self.sign('!') {
            return Ok(Operand::Not(self.word()?));
        }
        let negative = self.sign('-');
        match self.take() {
            Some(Token::Integer(value)) => {
                Ok(Operand::Integer(if negative { value.wrapping_neg() } else { value }))
            }
            Some(Token::Single(bits)) if !negative => Ok(Operand::Single(bits)),
            Some(Token::Double(bits)) => Ok(Operand::Double(bits ^ (u64::from(negative) << 63))),
            Some(Token::Word(name)) if !negative => {
                if self.sign('|') {
                    return Ok(Operand::Pair(name, self.word()?));
                }
                self.offset(Operand::Name(name))
            }
            _ => self.unexpected(),
        }
    }

    fn offset(&mut self, base: Operand<'a>) -> Parsed<Operand<'a>> {
        let subtract = if self.sign('+') {
            self.sign('-')
        } else if self.sign('-') {
            true
        } else {
            return Ok(base);
        };
        let offset = self.integer()? as i64;
        Ok(Operand::Address(Box::new(base), if subtract { offset.wrapping_neg() } else { offset }))
    }
}
