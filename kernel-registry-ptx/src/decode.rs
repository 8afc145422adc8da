//! Decodes a PTX text into a [`Program`].
//!
//! [`parse`](crate::parse) parses the text. `body` and `decoder` resolve names. `instruction`, `compare`,
//! `threads`, `matrix`, `mbarrier` and `copy_async` turn statements into instructions. `form` and `operands`
//! refuse what ptxas refuses.

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
use std::sync::atomic::{AtomicU64, Ordering};

use crate::decode::declare::{
    MOST_STATIC, Place, Shared, check_constants, check_size, initialised, most_parameters, signature,
};
use crate::decode::decoder::Decoder;
use crate::error::LoadError;
use crate::parse::syntax;
use crate::program::{Kernel, Program};

impl Program {
    /// Decodes a PTX text. A kernel with an instruction that the interpreter doesn't know is loaded, but
    /// can't be launched: [`Program::lacking`] returns that instruction.
    ///
    /// # Errors
    ///
    /// Fails if something in the text isn't PTX, or is declared with a type that isn't simulated. The error
    /// has the source line.
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
        // A variable that is both declared `.extern` and defined is one variable. A variable that is only
        // declared is loaded as zeros, as by the driver of an H200.
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

        static NEXT: AtomicU64 = AtomicU64::new(1);
        let mut program = Program {
            number: NEXT.fetch_add(1, Ordering::Relaxed),
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
