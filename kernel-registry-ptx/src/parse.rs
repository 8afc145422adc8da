//! Parses PTX text: `lex` turns characters into tokens, and `syntax` turns tokens into statements.

mod cursor;
mod lex;
pub(crate) mod syntax;
