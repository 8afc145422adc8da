//! Types as C++ sources spell them, brought to the form that mangled names have.

use std::collections::HashMap;

use kernel_registry_image::CudaType;

use super::Parameter;
use super::functions::split;

/// Names that headers give to types, in case that no header was read.
const STANDARD: [(&str, &str); 15] = [
    ("size_t", "unsigned long"),
    ("int8_t", "signed char"),
    ("uint8_t", "unsigned char"),
    ("int16_t", "short"),
    ("uint16_t", "unsigned short"),
    ("int32_t", "int"),
    ("uint32_t", "unsigned int"),
    ("int64_t", "long"),
    ("uint64_t", "unsigned long"),
    ("uint", "unsigned int"),
    ("half", "__half"),
    ("half2", "__half2"),
    ("bfloat16", "__nv_bfloat16"),
    ("nv_bfloat16", "__nv_bfloat16"),
    ("nv_bfloat162", "__nv_bfloat162"),
];

/// The words of built-in types.
const BUILT_IN: [&str; 10] =
    ["void", "bool", "char", "short", "int", "long", "float", "double", "signed", "unsigned"];

/// Aliases lead to other aliases, but not endlessly.
const MAX_DEPTH: u32 = 16;

/// What `typedef` and `using` say: names with the tokens that they stand for.
pub(super) struct Aliases<'a, 'b>(HashMap<&'a str, &'b [&'a str]>);

impl<'a, 'b> Aliases<'a, 'b> {
    pub(super) fn of(tokens: &'b [&'a str]) -> Self {
        let mut all: HashMap<&str, Option<&[&str]>> = HashMap::new();
        for index in 0..tokens.len() {
            let (name, of) = match &tokens[index..] {
                ["typedef", rest @ ..] => match statement(rest) {
                    Some([of @ .., name]) => (*name, of),
                    _ => continue,
                },
                ["using", name, "=", rest @ ..] => match statement(rest) {
                    Some(of) => (*name, of),
                    None => continue,
                },
                _ => continue,
            };
            // A name with several meanings, in several classes, says nothing.
            all.entry(name)
                .and_modify(|known| *known = known.filter(|known| *known == of))
                .or_insert(Some(of));
        }
        Aliases(all.into_iter().filter_map(|(name, of)| Some((name, of?))).collect())
    }
}

/// The tokens up to the end of a simple statement.
fn statement<'a, 'b>(tokens: &'b [&'a str]) -> Option<&'b [&'a str]> {
    let end = tokens.iter().position(|token| [";", "(", "{", "[", "}"].contains(token))?;
    (end > 0 && tokens[end] == ";").then(|| &tokens[..end])
}

/// A parameter of these tokens: `const float * __restrict__ x`.
pub(super) fn parameter(tokens: &[&str], aliases: &Aliases<'_, '_>) -> Parameter {
    let declared = split(tokens, "=")[0];
    let mut words: Vec<&str> = Vec::new();
    let mut rest = declared;
    while let [first, behind @ ..] = rest {
        rest = behind;
        match *first {
            "__attribute__" => {
                let end = behind.iter().rposition(|token| *token == ")").map_or(0, |last| last + 1);
                rest = &behind[end..];
            }
            "__restrict__" | "__restrict" | "restrict" | "__grid_constant__" | "struct" | "class"
            | "enum" | "typename" | "register" => {}
            word => words.push(word),
        }
    }
    // An array is handed over as a pointer.
    let is_array = words.ends_with(&["[", "]"]);
    words.truncate(words.len() - if is_array { 2 } else { 0 });
    if words.iter().any(|word| ["(", "&", "[", "."].contains(word)) {
        return Parameter { name: None, ty: CudaType::Other(joined(&words)) };
    }
    let name = name(&words);
    words.truncate(words.len() - usize::from(name.is_some()));
    if is_array {
        words.push("*");
    }
    Parameter { name: name.map(str::to_owned), ty: of(&words, aliases, MAX_DEPTH) }
}

/// The name of a parameter: the last word behind a type.
fn name<'a>(words: &[&'a str]) -> Option<&'a str> {
    let [before @ .., last] = words else { return None };
    let is_type = |word: &&&str| !["const", "volatile"].contains(*word);
    let is_name = last.starts_with(|c: char| c == '_' || c.is_alphabetic())
        && !BUILT_IN.contains(last)
        && !["const", "volatile"].contains(last)
        && before.last() != Some(&":");
    (is_name && before.iter().any(|word| is_type(&word))).then_some(last)
}

/// The type of these tokens.
fn of(words: &[&str], aliases: &Aliases<'_, '_>, depth: u32) -> CudaType {
    let parts = split(words, "*");
    let (first, pointers) = (parts[0], &parts[1..]);
    let base: Vec<&str> =
        first.iter().filter(|word| !["const", "volatile"].contains(word)).copied().collect();
    let mut ty = base_type(&base, aliases, depth);
    let (mut is_const, mut is_volatile) = (first.contains(&"const"), first.contains(&"volatile"));
    for pointer in pointers {
        ty = CudaType::Pointer { to: Box::new(ty), is_const, is_volatile };
        (is_const, is_volatile) = (pointer.contains(&"const"), pointer.contains(&"volatile"));
    }
    ty
}

/// The type without qualifiers and pointers.
fn base_type(words: &[&str], aliases: &Aliases<'_, '_>, depth: u32) -> CudaType {
    if !words.is_empty() && words.iter().all(|word| BUILT_IN.contains(word)) {
        return CudaType::parse(&built_in(words));
    }
    if let ([name] | ["std", ":", ":", name], 1..) = (words, depth) {
        if let Some(of_alias) = aliases.0.get(name) {
            return of(of_alias, aliases, depth - 1);
        }
        if let Some((_, standard)) = STANDARD.iter().find(|(known, _)| known == name) {
            return CudaType::parse(standard);
        }
    }
    CudaType::parse(&joined(words))
}

/// A built-in type, whose words can have any order, as mangled names have it: `long unsigned int` as `unsigned long`.
fn built_in(words: &[&str]) -> String {
    let has = |word: &str| words.contains(&word);
    let longs = words.iter().filter(|word| **word == "long").count();
    let length = match longs {
        1 => "long",
        2.. => "long long",
        0 if has("short") => "short",
        0 if has("char") => "char",
        0 => "int",
    };
    match words.iter().find(|word| ["void", "bool", "float", "double"].contains(word)) {
        Some(other) => (*other).to_owned(),
        None if has("unsigned") => format!("unsigned {length}"),
        None if has("signed") && length == "char" => "signed char".to_owned(),
        None => length.to_owned(),
    }
}

/// The tokens as text, with spaces between words only.
fn joined(words: &[&str]) -> String {
    let mut text = String::new();
    let is_word = |c: char| c == '_' || c.is_alphanumeric();
    for word in words {
        let is_between_words = text.ends_with(is_word) && word.starts_with(is_word);
        if is_between_words || (*word == "(" && text.ends_with(is_word)) {
            text.push(' ');
        }
        text.push_str(word);
    }
    text
}
