//! Finds what every macro needs about an item: its position in the source file, and the attributes that can
//! remove it.

use proc_macro2::Span;
use syn::{Attribute, Meta};

/// The position of an item in its source file, from the span of its name. `line!()` would return the line of
/// the attribute, or of the surrounding module.
pub(crate) struct Position {
    pub(crate) file: String,
    pub(crate) line: u32,
    pub(crate) column: u32,
}

impl Position {
    pub(crate) fn from_span(span: Span) -> Self {
        let start = span.start();
        let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        Position { file: span.file(), line: number(start.line), column: number(start.column + 1) }
    }
}

/// Returns the attributes that decide whether the item is compiled: `#[cfg(..)]`, and `#[cfg_attr(..)]` that
/// contains `cfg`.
pub(crate) fn cfgs(attrs: &[Attribute]) -> Vec<Attribute> {
    let removes = |attr: &&Attribute| match &attr.meta {
        Meta::List(list) if list.path.is_ident("cfg_attr") => {
            list.tokens.clone().into_iter().any(|token| token.to_string() == "cfg")
        }
        meta => meta.path().is_ident("cfg"),
    };
    attrs.iter().filter(removes).cloned().collect()
}
