//! Finds out whether the kernels of a module share anything, so that they must be compiled together.
//!
//! An obstacle is a variable through which kernels, or the host, may exchange values. A variable is no obstacle if only this module
//! can name it, and either no code names it, or it is a constant that compilers make, such as the text of a `printf`. Unknown forms
//! count as obstacles.

use std::collections::HashSet;

use kernel_registry_cuda::ptx::lexer::Shapes;

use super::lexer::{Token, number};

/// The search for obstacles, token by token.
#[derive(Default)]
pub(super) struct Sharing<'a> {
    found: bool,
    variables: HashSet<&'a str>,
    statement: Statement,
    /// Whether the token before the current token makes a name known outside of the module.
    is_linked: bool,
}

/// The statement at module scope that a token belongs to.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Statement {
    #[default]
    Other,
    /// The token is in the declaration of a variable in global or constant memory, before the `=`.
    Variable,
    /// The token is in that declaration, after the `=`.
    Initialiser,
}

/// The beginnings of names of constants that compilers make: texts of `printf` and `assert`, and tables of CUDA's
/// mathematical functions.
const CONSTANTS: [&str; 3] = ["$str", "__unnamed_", "__cudart_"];

/// The most elements of an array that is no obstacle: every piece of the module has a copy of the array.
const LARGEST: u32 = 4096;

impl<'a> Sharing<'a> {
    /// Reads a token outside of functions, kernels and their declarations. Adds the shapes of variables' names.
    pub(super) fn token(&mut self, token: Token<'a>, shapes: &mut Shapes) {
        let is_linked = std::mem::take(&mut self.is_linked);
        match token {
            Token::Word(".visible" | ".weak" | ".extern") => self.is_linked = true,
            Token::Word(".global" | ".const") => {
                self.found |= is_linked;
                self.statement = Statement::Variable;
            }
            Token::Word(word) if word.starts_with('.') => self.found |= !is_harmless(word),
            Token::Word(word) => self.word(word, shapes),
            Token::Punct(b'=') if self.statement == Statement::Variable => {
                self.statement = Statement::Initialiser;
            }
            Token::Punct(b';') => self.statement = Statement::Other,
            Token::Punct(punct) => self.found |= punct == b'@',
        }
    }

    /// Reads a name or a number.
    fn word(&mut self, word: &'a str, shapes: &mut Shapes) {
        let is_number = word.starts_with(|first: char| first.is_ascii_digit());
        match self.statement {
            Statement::Variable if is_number => {
                self.found |= number(word).is_none_or(|number| number > LARGEST);
            }
            Statement::Variable if CONSTANTS.iter().any(|prefix| word.starts_with(prefix)) => {}
            Statement::Variable => {
                self.variables.insert(word);
                shapes.insert(word);
            }
            // A name in an initialiser is an address.
            Statement::Initialiser => self.found |= !is_number,
            Statement::Other => {}
        }
    }

    /// Reads a word in the body of a function or a kernel.
    pub(super) fn mention(&mut self, word: &str) {
        self.found |= matches!(word, ".global" | ".const") || self.variables.contains(word);
    }

    /// Returns whether an obstacle was found.
    pub(super) fn is_found(&self) -> bool {
        self.found
    }
}

/// Returns whether a directive has no influence on sharing.
fn is_harmless(directive: &str) -> bool {
    match directive {
        ".version" | ".target" | ".address_size" | ".file" | ".pragma" | ".align" | ".v2" | ".v4" => true,
        ".shared" | ".entry" | ".func" => true,
        // Names of inlined functions. Other sections refer to labels in kernels.
        ".section" | ".debug_str" => true,
        // `.b8`, `.u32`, `.s64`, `.f32`
        _ => matches!(directive.as_bytes(), [b'.', b'b' | b'u' | b's' | b'f', b'0'..=b'9', ..]),
    }
}
