//! Reads a PTX text: characters to tokens (`lex`), and tokens to statements (`syntax`).

mod cursor;
mod lex;
pub(crate) mod syntax;
