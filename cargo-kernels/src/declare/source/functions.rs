//! Finds the kernels among the tokens of a source.

/// Words with arguments of their own that can stand before the name of a kernel.
const ATTRIBUTES: [&str; 7] = [
    "__attribute__",
    "__launch_bounds__",
    "__cluster_dims__",
    "__block_size__",
    "__maxnreg__",
    "__declspec",
    "alignas",
];

/// Each kernel's name without namespaces, and the tokens of each of its parameters.
pub(super) fn kernels<'a, 'b>(tokens: &'b [&'a str]) -> Vec<(&'a str, Vec<&'b [&'a str]>)> {
    let mut found = Vec::new();
    for index in 0..tokens.len() {
        let rest = &tokens[index..];
        let behind = match rest {
            ["__global__", behind @ ..] | ["__attribute__", "(", "(", "global", ")", ")", behind @ ..] => {
                behind
            }
            _ => continue,
        };
        found.extend(kernel(behind));
    }
    found
}

/// The kernel whose declaration goes on so.
fn kernel<'a, 'b>(mut tokens: &'b [&'a str]) -> Option<(&'a str, Vec<&'b [&'a str]>)> {
    let mut name = None;
    loop {
        let (first, rest) = tokens.split_first()?;
        match *first {
            "(" => {
                let params = &rest[..group(tokens)? - 2];
                return Some((name?, params_of(params)));
            }
            ";" | "{" | "}" | ")" => return None,
            word if ATTRIBUTES.contains(&word) => tokens = &rest[group(rest)?..],
            word => {
                name = word.starts_with(|c: char| c == '_' || c.is_alphabetic()).then_some(word);
                tokens = rest;
            }
        }
    }
}

/// The tokens of each parameter.
fn params_of<'a, 'b>(tokens: &'b [&'a str]) -> Vec<&'b [&'a str]> {
    match tokens {
        [] | ["void"] => Vec::new(),
        tokens => split(tokens, ","),
    }
}

/// How many tokens a group in parentheses has, with which these begin.
fn group(tokens: &[&str]) -> Option<usize> {
    let mut depth = 0u32;
    for (index, token) in tokens.iter().enumerate() {
        match *token {
            "(" => depth += 1,
            ")" if depth == 1 => return Some(index + 1),
            ")" => depth -= 1,
            _ if depth == 0 => return None,
            _ => {}
        }
    }
    None
}

/// What is between the separators that are not inside of brackets.
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
