//! Makes Rust identifiers of C++ names.

use std::collections::HashSet;

/// Words that are not identifiers, and names that the declarations use.
const RESERVED: [&str; 7] = ["_", "self", "Self", "super", "crate", "KernelParam", "half"];

/// Names that begin paths in the declarations.
const PATHS: [&str; 2] = ["core", "kernel_registry"];

/// The most bytes of names that are derived from C++ names, which can have any length.
pub(super) const LONGEST: usize = 80;

/// The most characters of C++ names and signatures in documentation.
const LONGEST_IN_DOCS: usize = 400;

/// Returns the name of a kernel as an identifier. A name that is an identifier is not changed.
pub(super) fn function(name: &str) -> String {
    let is_plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    let is_plain = is_plain && name.starts_with(|c: char| c == '_' || c.is_ascii_alphabetic());
    let name = if is_plain { name.to_owned() } else { snake(name) };
    if RESERVED.contains(&name.as_str()) || PATHS.contains(&name.as_str()) {
        format!("{name}_kernel")
    } else if is_keyword(&name) {
        format!("r#{name}")
    } else {
        name
    }
}

/// Returns whether a word of letters, digits and `_` is a keyword of Rust.
pub(crate) fn is_keyword(word: &str) -> bool {
    // `gen` is a keyword of edition 2024, which syn does not know yet.
    word == "gen" || syn::parse_str::<syn::Ident>(word).is_err()
}

/// Returns the name of a parameter or field, without capitals: `N` could be a constant.
pub(super) fn variable(name: &str) -> String {
    match name.contains(|c: char| c.is_ascii_uppercase()) {
        true => function(&snake(name)),
        false => function(name),
    }
}

/// Returns the words of a C++ name, in snake case: `ns::Reduce<float, 4>` as `ns_reduce_float_4`.
pub(super) fn snake(name: &str) -> String {
    let mut snake = String::new();
    let mut was_lower = false;
    for c in name.chars() {
        match c {
            'A'..='Z' => {
                if was_lower {
                    snake.push('_');
                }
                snake.push(c.to_ascii_lowercase());
            }
            'a'..='z' | '0'..='9' => snake.push(c),
            _ if snake.is_empty() || snake.ends_with('_') => {}
            _ => snake.push('_'),
        }
        was_lower = c.is_ascii_lowercase() || c.is_ascii_digit();
    }
    let snake = snake.trim_end_matches('_');
    match snake.chars().next() {
        Some('a'..='z') => cut(snake),
        Some(_) => cut(&format!("kernel_{snake}")),
        None => "kernel".to_owned(),
    }
}

/// Shortens a long name. The result ends with a hash, so that two names with the same beginning differ.
fn cut(name: &str) -> String {
    if name.len() <= LONGEST { name.to_owned() } else { hashed(name, name) }
}

/// Returns the name of a kernel with a hash of its identity.
pub(super) fn with_hash(name: &str, identity: &str) -> String {
    hashed(&snake(name), identity)
}

fn hashed(name: &str, identity: &str) -> String {
    // FNV-1a: the same with every version of Rust.
    let hash = identity
        .bytes()
        .fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    let start = &name[..name.len().min(LONGEST - 9)];
    format!("{}_{hash:08x}", start.trim_end_matches('_'))
}

/// Returns the name of a template's instance without namespaces, and without the parameters of functions among its arguments:
/// `act<float, silu<float>>` for `&ns::silu<float>(float)`.
pub(super) fn instance(template: &str, args: &[String]) -> String {
    if args.is_empty() {
        return template.to_owned();
    }
    let args: Vec<String> = args.iter().map(|arg| argument(arg)).collect();
    format!("{template}<{}>", args.join(", "))
}

fn argument(arg: &str) -> String {
    let function = arg.strip_prefix('&');
    let params = function.and_then(|function| function.rfind('('));
    let arg = function.map_or(arg, |function| &function[..params.unwrap_or(function.len())]);
    let arg = arg.replace("(anonymous namespace)::", "").replace('*', " ptr");
    let is_word = |c: char| c == '_' || c.is_ascii_alphanumeric();
    let (qualified, last) = arg.rsplit_once("::").unwrap_or(("", &arg));
    let parts = qualified.split("::").map(|part| part.trim_end_matches(is_word));
    parts.chain([last]).collect()
}

/// Returns the words of a C++ name as the name of a type: `Pair<int, float>` as `PairIntFloat`.
pub(super) fn camel(name: &str) -> String {
    let mut camel = String::new();
    for word in name.split(|c: char| !c.is_ascii_alphanumeric()) {
        let mut chars = word.chars();
        camel.extend(chars.next().map(|first| first.to_ascii_uppercase()));
        camel.push_str(chars.as_str());
    }
    match camel.starts_with(|c: char| c.is_ascii_alphabetic()) {
        true => cut(&camel),
        false => cut(&format!("Struct{camel}")),
    }
}

/// Shortens a C++ name or signature for documentation.
pub(super) fn shortened(text: &str) -> String {
    match text.char_indices().nth(LONGEST_IN_DOCS) {
        Some((end, _)) => format!("{}..", &text[..end]),
        None => text.to_owned(),
    }
}

/// Returns a C++ name without the namespaces in front of it: `Pair<ns::A>` of `ns::Pair<ns::A>`.
pub(super) fn unqualified(name: &str) -> &str {
    let mut depth = 0u32;
    let mut start = 0;
    for (index, byte) in name.bytes().enumerate() {
        match byte {
            b'<' | b'(' => depth += 1,
            b'>' | b')' => depth = depth.saturating_sub(1),
            b':' if depth == 0 => start = index + 1,
            _ => {}
        }
    }
    &name[start..]
}

/// Returns whether a name looks like a generic parameter: a capital letter, then only digits.
pub(super) fn is_generic(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_uppercase()) && name[1..].bytes().all(|byte| byte.is_ascii_digit())
}

/// Chooses one candidate for each item, the first if possible, so that all names differ. If an item has no candidate left, its last
/// one gets a number.
pub(super) fn distinct(candidates: &[Vec<String>]) -> Vec<String> {
    let mut levels = vec![0; candidates.len()];
    loop {
        let names: Vec<&String> = candidates.iter().zip(&levels).map(|(all, level)| &all[*level]).collect();
        let mut clashes: Vec<usize> = Vec::new();
        let mut sorted: Vec<usize> = (0..names.len()).collect();
        sorted.sort_by_key(|index| (names[*index], *index));
        for run in sorted.chunk_by(|a, b| names[*a] == names[*b]) {
            clashes.extend(run.iter().filter(|_| run.len() > 1));
        }
        clashes.retain(|index| levels[*index] + 1 < candidates[*index].len());
        if clashes.is_empty() {
            return numbered(&names);
        }
        clashes.into_iter().for_each(|index| levels[index] += 1);
    }
}

fn numbered(names: &[&String]) -> Vec<String> {
    let mut taken = HashSet::new();
    let free = |name: &&String| {
        let numbers = (2..).map(|number| format!("{name}_{number}"));
        std::iter::once((*name).clone()).chain(numbers).find(|name| taken.insert(name.clone()))
    };
    names.iter().filter_map(free).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_identifiers() {
        assert_eq!(function("saxpy"), "saxpy");
        assert_eq!(function("Saxpy_Kernel"), "Saxpy_Kernel");
        assert_eq!(["loop", "gen", "yield"].map(function), ["r#loop", "r#gen", "r#yield"]);
        assert_eq!(function("self"), "self_kernel");
        assert_eq!(function("reduce$1"), "reduce_1");
        assert_eq!(function("ns::Reduce<float, 4>"), "ns_reduce_float_4");
        assert_eq!(function("<>"), "kernel");
        assert_eq!(camel("float4"), "Float4");
        assert_eq!(camel("Pair<int, float>"), "PairIntFloat");
        assert_eq!(unqualified("a::Pair<b::C, d::E>"), "Pair<b::C, d::E>");
        assert_eq!(unqualified("Pair"), "Pair");
    }

    #[test]
    fn instances_are_named_without_namespaces_and_parameters() {
        let args = ["ns::Pair<ns::A, (ns::Kind)1>", "&ns::silu<float>(float const&)", "__half const*"];
        let name = instance("act", &args.map(str::to_owned));
        assert_eq!(name, "act<Pair<A, (Kind)1>, silu<float>, __half const ptr>");
        assert_eq!(function(&name), "act_pair_a_kind_1_silu_float_half_const_ptr");
        assert_eq!(instance("act", &[]), "act");
    }

    #[test]
    fn long_names_that_begin_alike_differ() {
        let [a, b] = ["a", "b"].map(|end| function(&format!("<{}{end}>", "long, ".repeat(30))));
        assert_eq!((a.len(), b.len(), &a[..70]), (LONGEST, LONGEST, &b[..70]));
        assert_ne!(a, b);
        assert_eq!(with_hash("k<1>", "_Z1k"), "k_1_7f0d7e34");
    }

    #[test]
    fn clashing_names_get_longer_and_then_numbers() {
        let all = [vec!["a", "x_a"], vec!["b"], vec!["a", "y_a"], vec!["b"]];
        let all = all.map(|names| names.into_iter().map(str::to_owned).collect());
        assert_eq!(distinct(&all), ["x_a", "b", "y_a", "b_2"]);
    }
}
