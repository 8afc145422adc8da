//! Tracks braces and brackets among the tokens of a source, to find the tokens at file scope and to split
//! lists.

use super::tokens::is_directive;

/// Whether a token is at file scope and outside of preprocessor conditions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Plain {
    No,
    Yes,
    /// Yes, and inside of `extern "C" {`.
    InExternC,
}

pub(super) const EXTERN_C: [&str; 2] = ["extern", "\"C\""];

/// Returns for each token whether it is at file scope.
pub(super) fn plain(tokens: &[&str]) -> Vec<Plain> {
    let (mut conditions, mut scopes) = (0u32, Vec::new());
    let mut all = Vec::with_capacity(tokens.len());
    for (index, token) in tokens.iter().enumerate() {
        match *token {
            "{" => scopes.push(tokens[..index].ends_with(&EXTERN_C)),
            "}" => drop(scopes.pop()),
            directive if is_directive(token) => {
                let word = directive[1..].trim_start();
                conditions += u32::from(word.starts_with("if"));
                conditions = conditions.saturating_sub(word.starts_with("endif").into());
            }
            _ => {}
        }
        all.push(match scopes.as_slice() {
            _ if conditions > 0 => Plain::No,
            [] => Plain::Yes,
            scopes if scopes.iter().all(|is_extern_c| *is_extern_c) => Plain::InExternC,
            _ => Plain::No,
        });
    }
    all
}

/// Finds the bracket that closes the first token. Returns `None` if the first token isn't an opening bracket.
pub(super) fn closing(tokens: &[&str], open: &str, close: &str) -> Option<usize> {
    let mut depth = 0u32;
    tokens.first().filter(|first| **first == open)?;
    tokens.iter().position(|token| {
        depth += u32::from(*token == open);
        depth -= u32::from(*token == close);
        depth == 0
    })
}

/// Splits tokens at separators, except inside brackets.
pub(super) fn split<'a, 'b>(tokens: &'b [&'a str], separator: &str) -> Vec<&'b [&'a str]> {
    let (mut parts, mut start, mut depth) = (Vec::new(), 0, 0u32);
    for (index, token) in tokens.iter().enumerate() {
        match *token {
            "(" | "<" | "[" | "{" => depth += 1,
            ")" | ">" | "]" | "}" => depth = depth.saturating_sub(1),
            token if token == separator && depth == 0 => {
                parts.push(&tokens[start..index]);
                start = index + 1;
            }
            _ => {}
        }
    }
    parts.push(&tokens[start..]);
    parts
}
