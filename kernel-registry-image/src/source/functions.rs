//! Finds the kernels among the tokens of a source.

use std::collections::HashSet;

use super::nesting::{EXTERN_C, Plain, closing, split};
use super::tokens::is_directive;
use super::types::{self, Names, Parameter};

/// A kernel as the source declares it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Function {
    /// The kernel's name without namespaces.
    pub name: String,
    /// The kernel's parameters, in order.
    pub params: Vec<Parameter>,
    /// The names of its template parameters. Empty if there are none, or if one is unnamed.
    pub generics: Vec<String>,
    /// Whether it is `extern "C"`, at file scope, and outside of preprocessor conditions.
    pub is_c: bool,
}

/// Words with arguments that can precede the name of a kernel.
const ATTRIBUTES: [&str; 7] = [
    "__attribute__",
    "__launch_bounds__",
    "__cluster_dims__",
    "__block_size__",
    "__maxnreg__",
    "__declspec",
    "alignas",
];

/// Words that can follow the parameters of a kernel.
const AFTER_PARAMETERS: [&str; 3] = ["__attribute__", "noexcept", "requires"];

/// Returns each kernel of a source. `plain` has an item for each token.
pub(super) fn kernels(tokens: &[&str], plain: &[Plain], names: &Names<'_, '_>) -> Vec<Function> {
    let mut found = Vec::new();
    let mut generics = Vec::new();
    let mut start = 0;
    for index in 0..tokens.len() {
        let after = match &tokens[index..] {
            ["template", "<", ..] => {
                generics = template(&tokens[index + 1..]);
                continue;
            }
            [";" | "{" | "}", ..] => {
                generics.clear();
                start = index + 1;
                continue;
            }
            ["__global__", after @ ..] | ["__attribute__", "(", "(", "global", ")", ")", after @ ..] => after,
            _ => continue,
        };
        let Some((name, params, length)) = kernel(after) else { continue };
        let is_extern_c =
            plain[index] == Plain::InExternC || tokens[start..index].windows(2).any(|two| two == EXTERN_C);
        let has_directives = after[..length].iter().any(is_directive);
        let is_plain = plain[index] != Plain::No && !has_directives && !(names.is_macro)(name);
        found.push(Function {
            name: name.to_owned(),
            params: params.into_iter().map(|param| types::parameter(param, names)).collect(),
            generics: generics.iter().map(ToString::to_string).collect(),
            is_c: is_extern_c && is_plain && generics.is_empty(),
        });
    }
    found
}

/// Returns the names of macros that the source defines, conditionally or not.
pub(super) fn macros<'a>(tokens: &[&'a str]) -> HashSet<&'a str> {
    let name = |token: &&'a str| {
        let definition = token.strip_prefix('#')?.trim_start().strip_prefix("define")?.trim_start();
        definition.split(|c: char| !(c == '_' || c.is_alphanumeric())).next()
    };
    tokens.iter().filter_map(name).collect()
}

/// Returns the names of template parameters, whose tokens begin with a `<`. Empty if one is unnamed.
fn template<'a>(tokens: &[&'a str]) -> Vec<&'a str> {
    let name = |param: &[&'a str]| match split(param, "=")[0] {
        [.., before, name] if *name != ">" && *before != "." => Some(*name),
        _ => None,
    };
    let params = split(&tokens[1..closing(tokens, "<", ">").unwrap_or(1)], ",");
    params.into_iter().map(name).collect::<Option<Vec<&str>>>().unwrap_or_default()
}

/// Parses the rest of a kernel's declaration: its name, the tokens of each parameter, and how many tokens it
/// takes.
fn kernel<'a, 'b>(mut tokens: &'b [&'a str]) -> Option<(&'a str, Vec<&'b [&'a str]>, usize)> {
    let mut name = None;
    let all = tokens.len();
    loop {
        let (first, rest) = tokens.split_first()?;
        match *first {
            "(" => {
                let end = closing(tokens, "(", ")")?;
                let after = &tokens[end + 1..];
                // In `BOUNDS(128) k(..)`, the word before the bracket is a macro rather than the kernel's
                // name.
                if after.first().is_some_and(|next| is_name(next) && !AFTER_PARAMETERS.contains(next)) {
                    tokens = after;
                    continue;
                }
                return Some((name?, params_of(&tokens[1..end]), all - after.len()));
            }
            ";" | "{" | "}" | ")" => return None,
            word if ATTRIBUTES.contains(&word) => tokens = &rest[closing(rest, "(", ")")? + 1..],
            word => {
                name = is_name(word).then_some(word);
                tokens = rest;
            }
        }
    }
}

fn is_name(word: &str) -> bool {
    word.starts_with(|c: char| c == '_' || c.is_alphabetic())
}

/// Splits the tokens between the brackets into the tokens of each parameter.
fn params_of<'a, 'b>(tokens: &'b [&'a str]) -> Vec<&'b [&'a str]> {
    match tokens {
        [] | ["void"] => Vec::new(),
        tokens => split(tokens, ","),
    }
}
