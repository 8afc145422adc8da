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

/// A kernel as it is written.
pub(super) struct Written<'a, 'b> {
    /// Its name without namespaces.
    pub(super) name: &'a str,
    /// The tokens of each parameter.
    pub(super) params: Vec<&'b [&'a str]>,
    /// The names of its template parameters. Empty if there are none, or some have no names.
    pub(super) generics: Vec<&'a str>,
}

/// Each kernel of a source.
pub(super) fn kernels<'a, 'b>(tokens: &'b [&'a str]) -> Vec<Written<'a, 'b>> {
    let mut found = Vec::new();
    let mut generics = Vec::new();
    for index in 0..tokens.len() {
        let behind = match &tokens[index..] {
            ["template", "<", params @ ..] => {
                generics = template(params);
                continue;
            }
            [";" | "{" | "}", ..] => {
                generics.clear();
                continue;
            }
            ["__global__", behind @ ..] | ["__attribute__", "(", "(", "global", ")", ")", behind @ ..] => {
                behind
            }
            _ => continue,
        };
        let kernel = kernel(behind);
        found.extend(kernel.map(|(name, params)| Written { name, params, generics: generics.clone() }));
    }
    found
}

/// The names of template parameters, which end with a `>`. None if some have no name.
fn template<'a>(tokens: &[&'a str]) -> Vec<&'a str> {
    let mut depth = 1u32;
    let end = tokens.iter().position(|token| {
        depth = match *token {
            "<" => depth + 1,
            ">" => depth - 1,
            _ => depth,
        };
        depth == 0
    });
    let name = |param: &[&'a str]| match split(param, "=")[0] {
        [.., before, name] if *name != ">" && *before != "." => Some(*name),
        _ => None,
    };
    let params = split(&tokens[..end.unwrap_or(0)], ",");
    params.into_iter().map(name).collect::<Option<Vec<&str>>>().unwrap_or_default()
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
