//! Finds variables through which kernels, or the host, may exchange values. Kernels that share one must be
//! compiled together, and a module that has one can't replace another load of the same text.
//!
//! A variable is harmless if only this module can name it, and either no code does, or it's a constant made
//! by the compiler, such as the text of a `printf`. Unknown forms count as variables.

use std::collections::HashSet;

use kernel_registry_cuda::ptx::lexer::Shapes;

use super::lexer::{Token, number};

/// The search for variables, token by token.
#[derive(Default)]
pub(super) struct Sharing<'a> {
    /// The first variable, or the word of an unknown form.
    found: Option<&'a str>,
    /// Whether there is an array that is too large to be repeated in each piece of the module.
    has_large: bool,
    variables: HashSet<&'a str>,
    statement: Statement,
    /// The name in the current declaration.
    name: Option<&'a str>,
    /// Whether the current declaration exports its name from the module.
    is_public: bool,
    /// Whether the previous token exports a name from the module.
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

/// Prefixes of constants made by compilers: texts of `printf` and `assert`, and tables of CUDA's mathematical
/// functions.
const CONSTANTS: [&str; 3] = ["$str", "__unnamed_", "__cudart_"];

/// The most elements of an array in a module that is split, because every piece has a copy of it.
const LARGEST: u32 = 4096;

impl<'a> Sharing<'a> {
    /// Reads a token outside of functions, kernels and their declarations. Adds the shapes of variables'
    /// names.
    pub(super) fn token(&mut self, token: Token<'a>, shapes: &mut Shapes) {
        let is_linked = std::mem::take(&mut self.is_linked);
        match token {
            Token::Word(".visible" | ".weak" | ".extern") => self.is_linked = true,
            Token::Word(".global" | ".const") => {
                (self.statement, self.is_public, self.name) = (Statement::Variable, is_linked, None);
            }
            Token::Word(word) if word.starts_with('.') => {
                if !is_harmless(word) {
                    self.find(word);
                }
            }
            Token::Word(word) => self.word(word, shapes),
            Token::Punct(b'=') if self.statement == Statement::Variable => {
                self.statement = Statement::Initialiser;
            }
            Token::Punct(b';') => self.statement = Statement::Other,
            Token::Punct(b'@') => self.find("@"),
            Token::Punct(_) => {}
        }
    }

    fn find(&mut self, word: &'a str) {
        self.found.get_or_insert(word);
    }

    /// Reads a name or a number.
    fn word(&mut self, word: &'a str, shapes: &mut Shapes) {
        let is_number = word.starts_with(|first: char| first.is_ascii_digit());
        match self.statement {
            Statement::Variable if is_number => {
                self.has_large |= number(word).is_none_or(|number| number > LARGEST);
            }
            Statement::Variable if self.is_public => self.find(word),
            Statement::Variable if CONSTANTS.iter().any(|prefix| word.starts_with(prefix)) => {}
            Statement::Variable => {
                self.name = Some(word);
                self.variables.insert(word);
                shapes.insert(word);
            }
            // A name in an initialiser is an address.
            Statement::Initialiser if !is_number => self.find(self.name.unwrap_or(word)),
            Statement::Initialiser | Statement::Other => {}
        }
    }

    /// Reads a word in the body of a function or a kernel.
    pub(super) fn mention(&mut self, word: &'a str) {
        if matches!(word, ".global" | ".const") || self.variables.contains(word) {
            self.find(word);
        }
    }

    /// Returns the first variable that was found.
    pub(super) fn found(&self) -> Option<&'a str> {
        self.found
    }

    /// Returns whether the kernels must be compiled together.
    pub(super) fn keeps_together(&self) -> bool {
        self.found.is_some() || self.has_large
    }
}

/// Returns whether a directive doesn't affect sharing.
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
