//! The front end: from a PTX text to a [`Program`].
//!
//! [`parse`](crate::parse) reads the text. `body` and `decoder` resolve names, `instruction`, `compare`, `threads`, `matrix`,
//! `mbarrier` and `copy_async` turn statements into instructions, and `form` and `operands` refuse what ptxas refuses.

mod body;
mod clock;
mod compare;
mod compute;
mod copy_async;
mod declare;
mod decoder;
mod form;
mod instruction;
mod matrix;
mod mbarrier;
mod opcode;
mod operands;
mod reach;
mod threads;

use std::collections::HashMap;
use std::sync::OnceLock;

use crate::decode::declare::{
    MOST_STATIC, Place, Shared, check_constants, check_size, initialised, most_parameters, signature,
};
use crate::decode::decoder::Decoder;
use crate::error::LoadError;
use crate::parse::syntax;
use crate::program::{Kernel, Program};

impl Program {
    /// Decodes a text. A kernel with an instruction that the interpreter does not have is loaded, and cannot be launched:
    /// [`Program::lacking`] has the instruction.
    ///
    /// # Errors
    ///
    /// If something in it is not PTX, or is declared with a type that is not simulated. The error has the line.
    pub fn load(text: &str) -> Result<Self, LoadError> {
        let parsed = syntax::parse(text)?;
        let mut module = Shared::default();
        let mut variables = Vec::new();
        let defined =
            parsed.functions.iter().filter_map(|function| Some((function, function.body.as_deref()?)));
        let declared = parsed.functions.iter().filter(|function| function.body.is_none());
        module.external.extend(declared.map(|function| function.name));
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
        // A variable that is declared `.extern` and defined is one variable. One that is defined nowhere is loaded as zeros, as an
        // H200's driver did.
        let is_defined =
            |name: &str| parsed.variables.iter().any(|other| !other.external && other.name == name);
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
        let variables = variables.iter().map(|variable| initialised(variable, &module));

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
            let reach = reach::reach(index, &program, &module.shared);
            check_size(function, reach.shared, MOST_STATIC)?;
            let lacking = reach.lacking.and_then(|function| program.lacking_of(function));
            let kernel = Kernel { function: index, reach, lacking, registers: OnceLock::new() };
            program.kernels.insert(function.name.to_owned(), kernel);
        }
        clock::mark(&mut program);
        Ok(program)
    }
}
