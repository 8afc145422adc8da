//! Unwinds native stacks. A sample only has the start addresses of functions, because looking up their names
//! takes longer: that's done after the stretch.

use std::collections::HashMap;

use crate::watch::caller::cfi::{self, Rule};
use crate::watch::caller::unwind::{Registers, Stack};
use crate::watch::loader::{mapped, symbols};

/// Limits the number of frames read.
const DEPTH: usize = 64;

/// The cache of rules is cleared once it has this many.
const MOST_RULES: usize = 1 << 16;

/// The interpreter's function that runs Python functions. Unwinding ends there, because Python's own frames
/// say who called it.
const INTERPRETER: &std::ffi::CStr = c"_PyEval_EvalFrameDefault";

/// Unwinds stacks by rules, which it caches by address until a file is unmapped: another file can reuse the
/// addresses.
#[derive(Default)]
pub(super) struct Unwinder {
    /// How many files had been mapped and unmapped at the last update.
    files: (u64, u64),
    rules: HashMap<u64, Option<Rule>>,
    /// The address of [`INTERPRETER`], or 0.
    interpreter: u64,
}

impl Unwinder {
    /// Returns the start addresses of the functions on a stack, the innermost first. A function without a
    /// rule is given by an address inside it.
    pub(super) fn functions(&mut self, mut registers: Registers, mut stack: Stack) -> Vec<u64> {
        self.update_files();
        let mut functions = Vec::new();
        while functions.len() < DEPTH {
            // A return address can be beyond its function, if the call is the function's last instruction.
            let Some(inside) = registers.pc.checked_sub(1) else { break };
            let rule = *self.rules.entry(inside).or_insert_with(|| find(inside));
            let function = rule.map_or(inside, |rule| rule.function);
            functions.push(function);
            let rule = rule.filter(|_| function != self.interpreter);
            match rule.and_then(|rule| stack.caller(registers, &rule)) {
                Some(caller) => registers = caller,
                None => break,
            }
        }
        functions
    }

    fn update_files(&mut self) {
        let files = mapped::counts();
        if files != self.files {
            self.interpreter = symbols::find(INTERPRETER).unwrap_or(0);
        }
        if files.1 != self.files.1 || self.rules.len() >= MOST_RULES {
            self.rules.clear();
        }
        self.files = files;
    }
}

fn find(inside: u64) -> Option<Rule> {
    let mut rule = None;
    mapped::each(&mut |file| {
        let contains = file.segment_at(inside, 1).is_some();
        if contains {
            rule = cfi::rule(file, inside);
        }
        contains
    });
    rule
}
