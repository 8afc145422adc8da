//! Parses types as C++ sources spell them, and converts them to the form of mangled names.

use std::collections::{HashMap, HashSet};

use super::nesting::{Plain, split};
use super::tokens::is_directive;
use crate::CudaType;
use crate::cuda_type::layout_of;

/// A parameter as a source declares it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Parameter {
    /// The parameter's name, if there is one.
    pub name: Option<String>,
    /// The parameter's type, with the source's aliases resolved.
    pub ty: CudaType,
    /// Whether the type is certain.
    pub is_certain: bool,
}

/// Types that standard headers define, because headers aren't read.
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

/// Words that are not part of a type's name.
const QUALIFIERS: [&str; 8] =
    ["const", "volatile", "*", "__restrict__", "__restrict", "__grid_constant__", "struct", "enum"];

/// The longest chain of aliases that is followed.
const MAX_DEPTH: u32 = 16;

/// Aliases by name. A name with different meanings in different scopes has no tokens.
type Aliases<'a, 'b> = HashMap<&'a str, Option<&'b [&'a str]>>;

/// The names of types that a source defines.
pub(super) struct Names<'a, 'b> {
    pub(super) is_macro: &'b dyn Fn(&str) -> bool,
    /// The names that `typedef` and `using` define, with the tokens that they resolve to.
    aliases: Aliases<'a, 'b>,
    /// Names that mean the same everywhere: aliases and classes at file scope, outside of conditions.
    certain: HashSet<&'a str>,
}

impl<'a, 'b> Names<'a, 'b> {
    pub(super) fn collect(
        tokens: &'b [&'a str],
        plain: &[Plain],
        is_macro: &'b dyn Fn(&str) -> bool,
    ) -> Self {
        let mut aliases = Aliases::new();
        let mut certain = HashSet::new();
        let mut classes = Vec::new();
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
                ["struct" | "class" | "union" | "enum", name, "{" | ":", ..] if plain[index] != Plain::No => {
                    certain.insert(*name);
                    classes.push(*name);
                    continue;
                }
                _ => continue,
            };
            if plain[index] != Plain::No {
                certain.insert(name);
            }
            aliases
                .entry(name)
                .and_modify(|known| *known = known.filter(|known| *known == of))
                .or_insert(Some(of));
        }
        // An alias in a class or function may hide a class of the file scope.
        for class in classes {
            aliases.entry(class).and_modify(|of| *of = None);
        }
        Names { is_macro, aliases, certain }
    }

    /// Returns whether the meaning of these words is certain.
    fn are_certain(&self, words: &[&str], depth: u32) -> bool {
        words.iter().all(|word| match self.aliases.get(word) {
            _ if (self.is_macro)(word) => false,
            _ if BUILT_IN.contains(word) || QUALIFIERS.contains(word) => true,
            Some(of) => {
                let of = of.filter(|_| depth > 0 && self.certain.contains(word));
                of.is_some_and(|of| self.are_certain(of, depth - 1))
            }
            // A class of the source may hide a type that CUDA's headers define.
            None => self.certain.contains(word) != is_standard(word),
        })
    }
}

/// Returns whether headers define a type of this name.
fn is_standard(name: &str) -> bool {
    STANDARD.iter().any(|(standard, _)| *standard == name) || layout_of(name).is_some()
}

/// Returns the tokens up to the end of a simple statement.
fn statement<'a, 'b>(tokens: &'b [&'a str]) -> Option<&'b [&'a str]> {
    let end = tokens.iter().position(|token| [";", "(", "{", "[", "}"].contains(token))?;
    (end > 0 && tokens[end] == ";").then(|| &tokens[..end])
}

/// Reads a parameter: `const float * __restrict__ x`.
pub(super) fn parameter(tokens: &[&str], names: &Names<'_, '_>) -> Parameter {
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
            word if is_directive(&word) => {}
            word => words.push(word),
        }
    }
    // An array is passed as a pointer.
    let is_array = words.ends_with(&["[", "]"]);
    words.truncate(words.len() - if is_array { 2 } else { 0 });
    if words.iter().any(|word| ["(", "&", "[", "."].contains(word)) {
        return Parameter { name: None, ty: CudaType::Other(joined(&words)), is_certain: false };
    }
    let name = name(&words);
    words.truncate(words.len() - usize::from(name.is_some()));
    if is_array {
        words.push("*");
    }
    let is_certain = names.are_certain(&words, MAX_DEPTH) && !name.is_some_and(names.is_macro);
    let ty = CudaType::parse(&resolve(&words, &names.aliases, MAX_DEPTH));
    Parameter { name: name.map(str::to_owned), ty, is_certain }
}

/// Returns the name of a parameter: the last word, which follows the type.
fn name<'a>(words: &[&'a str]) -> Option<&'a str> {
    let [before @ .., last] = words else { return None };
    let is_name = last.starts_with(|c: char| c == '_' || c.is_alphabetic())
        && !BUILT_IN.contains(last)
        && !is_qualifier(last)
        && before.last() != Some(&":");
    (is_name && before.iter().any(|word| !is_qualifier(word))).then_some(last)
}

/// Returns the type of these tokens in the form of demanglers, with qualifiers after the type:
/// `unsigned int const*`.
fn resolve(words: &[&str], aliases: &Aliases<'_, '_>, depth: u32) -> String {
    let parts = split(words, "*");
    let pointers = parts[1..].iter().map(|pointer| format!("*{}", qualifiers(pointer)));
    base_type(parts[0], aliases, depth) + &qualifiers(parts[0]) + &pointers.collect::<String>()
}

/// Returns the qualifiers among these words.
fn qualifiers(words: &[&str]) -> String {
    words.iter().filter(|word| is_qualifier(word)).map(|word| format!(" {word}")).collect()
}

fn is_qualifier(word: &str) -> bool {
    word == "const" || word == "volatile"
}

/// Returns the type without pointers and without top-level qualifiers.
fn base_type(words: &[&str], aliases: &Aliases<'_, '_>, depth: u32) -> String {
    let named: Vec<&str> = words.iter().filter(|word| !is_qualifier(word)).copied().collect();
    if !named.is_empty() && named.iter().all(|word| BUILT_IN.contains(word)) {
        return built_in(&named);
    }
    if let ([name] | ["std", ":", ":", name], 1..) = (named.as_slice(), depth) {
        if let Some(Some(of_alias)) = aliases.get(name) {
            return resolve(of_alias, aliases, depth - 1);
        }
        if let Some((_, standard)) = STANDARD.iter().find(|(known, _)| known == name) {
            return (*standard).to_owned();
        }
    }
    joined(&named)
}

/// Returns a built-in type in the form of mangled names, for words in any order: `unsigned long` for
/// `long unsigned int`.
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

/// Joins the tokens to a text with spaces between words only.
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
