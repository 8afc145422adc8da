//! Decodes the body of a function: its statements, labels and scopes.

use std::collections::HashMap;

use crate::decode::declare::signature;
use crate::decode::decoder::{Decoder, Scope};
use crate::error::{LoadError, Reason};
use crate::op::{Instruction, Op};
use crate::order::Order;
use crate::parse::syntax::{self, Statement};
use crate::program::{Function, Lacking};

/// A decoded function with its instructions.
pub(super) struct Decoded {
    pub(super) function: Function,
    pub(super) instructions: Vec<Instruction>,
}

impl<'a> Decoder<'a, '_> {
    pub(super) fn decode(
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
                Statement::Instruction(instruction) => match self.instruction(instruction) {
                    Ok(()) => {}
                    Err(Reason::Instruction) => self.lacks(instruction, instruction.opcode),
                    Err(Reason::Lacking(name)) => self.lacks(instruction, &name),
                    Err(reason) => {
                        let (line, statement) = (instruction.line, instruction.opcode.to_owned());
                        return Err(LoadError { line, statement, reason });
                    }
                },
            }
        }
        self.instructions.push(Instruction {
            guard: None,
            op: Op::Return,
            line: function.line,
            order: Order::default(),
        });
        for instruction in &mut self.instructions {
            match &mut instruction.op {
                Op::Branch { to } => *to = self.targets[*to as usize],
                Op::Switch { targets, .. } => {
                    targets.iter_mut().for_each(|target| *target = self.targets[*target as usize])
                }
                _ => {}
            }
        }
        // Each call takes some stack, so that endless recursion overflows it even without parameters.
        let least = if function.entry { 0 } else { 16 };
        self.function.frame = self.function.frame.max(least).next_multiple_of(16);
        Ok(Decoded { function: self.function, instructions: self.instructions })
    }

    /// Notes the first instruction or operand that the interpreter lacks. The text of the instruction is
    /// completed later.
    fn lacks(&mut self, instruction: &syntax::Instruction<'_>, what: &str) {
        self.function.lacking.get_or_insert_with(|| Lacking {
            line: instruction.line,
            what: what.to_owned(),
            instruction: instruction.opcode.to_owned(),
        });
    }

    /// Finds the labels before instructions are decoded, because branches may jump forwards. Each pair of
    /// braces of inline assembly has its own labels.
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
}
