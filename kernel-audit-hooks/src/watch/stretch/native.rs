//! Finds the functions on a stack, and their names. While a stretch lasts, a function is known by the address at which
//! it begins, which the loader's tables tell fast; names are looked up once at the end.

use std::collections::HashMap;

use crate::watch::caller::cfi::{self, Rule};
use crate::watch::caller::unwind::{Registers, Stack};
use crate::watch::loader::{mapped, symbols};

/// The most frames that are read.
const DEPTH: usize = 64;

/// More addresses than a program has on its stacks in a stretch.
const MOST: usize = 1 << 16;

/// The function that runs Python functions. Python itself says who called it.
const INTERPRETER: &std::ffi::CStr = c"_PyEval_EvalFrameDefault";

/// Rules by address. They are forgotten when a file is unmapped, because another file can get the same addresses.
#[derive(Default)]
pub(super) struct Unwinder {
    files: (u64, u64),
    rules: HashMap<u64, Option<Rule>>,
    interpreter: u64,
}

impl Unwinder {
    /// Returns the functions on a stack, the innermost first: the address at which each begins, or if that is not known,
    /// an address in it.
    pub(super) fn functions(&mut self, mut registers: Registers, mut stack: Stack) -> Vec<u64> {
        self.look_at_files();
        let mut functions = Vec::new();
        while functions.len() < DEPTH {
            // The address is that of the instruction after a call, and the call can be the last of its function.
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

    fn look_at_files(&mut self) {
        let files = mapped::counts();
        if files != self.files {
            self.interpreter = symbols::find(INTERPRETER).unwrap_or(0);
        }
        if files.1 != self.files.1 || self.rules.len() >= MOST {
            self.rules.clear();
        }
        self.files = files;
    }
}

fn find(inside: u64) -> Option<Rule> {
    let mut rule = None;
    mapped::each(&mut |file| {
        let is_here = file.segment_at(inside, 1).is_some();
        if is_here {
            rule = cfi::rule(file, inside);
        }
        is_here
    });
    rule
}
