//! Parses C++ signatures from mangled names.

mod packs;

use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt::{self, Write};

use kernel_registry_format::is_control;

use crate::{CudaType, stable_symbol};

/// The signature of a C++ kernel, as far as its mangled name has it.
///
/// A mangled name has the types of the parameters, but neither their names nor the top-level `const`,
/// `__restrict__` and `__grid_constant__`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Signature {
    /// The name with namespaces and template arguments: `ns::reduce<float, 128u>`.
    pub name: String,
    /// The name without the template arguments: `ns::reduce`.
    pub base_name: String,
    /// The template arguments: `float` and `128u`.
    pub template_args: Vec<String>,
    /// The types of the parameters. An [entry](crate::Entry)'s parameter types can differ:
    /// see [`Entry::typed_signature`](crate::Entry::typed_signature).
    pub params: Vec<CudaType>,
    /// Whether the kernel lies in an anonymous namespace.
    pub anonymous_namespace: bool,
}

/// The longest symbol that is parsed, in bytes.
const MAX_SYMBOL: usize = 32 * 1024;

/// The most bytes of text for each byte of a symbol. A mangled name can refer to earlier parts of itself, so
/// its text may double with every few bytes. Names of Thrust's kernels for lambdas in templates reach 29.
const MAX_EXPANSION: usize = 64;

/// Returns a kernel's C++ signature if the symbol is a mangled name, or else the symbol.
///
/// ```
/// use kernel_registry_image::readable;
///
/// assert_eq!(readable("_Z5saxpyjfPKfPf"), "saxpy(unsigned int, float, const float*, float*)");
/// assert_eq!(readable("saxpy"), "saxpy");
/// ```
pub fn readable(symbol: &str) -> String {
    Signature::parse(symbol).map_or_else(|| symbol.to_owned(), |signature| signature.to_string())
}

impl Signature {
    /// Parses a symbol. Returns `None` if it isn't the mangled name of a function.
    pub fn parse(symbol: &str) -> Option<Signature> {
        if symbol.len() > MAX_SYMBOL || symbol.contains(is_control) {
            return None;
        }
        let symbol = &*stable_symbol(symbol);
        if !symbol.starts_with("_Z") {
            return None;
        }
        let text = packs::demangle(symbol, symbol.len() * MAX_EXPANSION + 64)?;
        // nvcc puts static functions into a namespace `_INTERNAL_`, which the source doesn't have.
        let text = text.replace("_INTERNAL_::", "");
        let text = literals(&without_empty_packs(&text));
        let (name, params) = split_params(&text)?;
        let (base_name, template_args) = split_template(name);
        Some(Signature {
            name: name.to_owned(),
            base_name: base_name.to_owned(),
            template_args: template_args.into_iter().map(str::to_owned).collect(),
            params: params.into_iter().map(CudaType::parse).collect(),
            anonymous_namespace: name.contains("(anonymous namespace)"),
        })
    }
}

thread_local! {
    /// Signatures parsed so far, while this thread reads an image with several variants, which share their
    /// symbols.
    static KNOWN: RefCell<Option<HashMap<String, Option<Signature>>>> = const { RefCell::new(None) };
}

/// Calls `read`, which reads several variants of an image, and demangles each symbol only once.
pub(crate) fn demangle_once_while<T>(read: impl FnOnce() -> T) -> T {
    /// Clears the cache, even after a panic.
    struct Forget;
    impl Drop for Forget {
        fn drop(&mut self) {
            KNOWN.set(None);
        }
    }
    let _forget = Forget;
    KNOWN.set(Some(HashMap::new()));
    read()
}

impl Signature {
    /// Parses a symbol like [`parse`](Self::parse), but only once for all variants of an image.
    pub(crate) fn parse_once(symbol: &str) -> Option<Signature> {
        KNOWN.with_borrow_mut(|known| match known {
            None => Signature::parse(symbol),
            Some(known) => match known.get(symbol) {
                Some(signature) => signature.clone(),
                None => known.entry(symbol.to_owned()).or_insert(Signature::parse(symbol)).clone(),
            },
        })
    }

    /// Returns the full name, the name without template arguments, and the name without template arguments
    /// and namespaces.
    pub fn names(&self) -> [&str; 3] {
        let unqualified = self.base_name.rsplit("::").next().unwrap_or_default();
        [&self.name, &self.base_name, unqualified]
    }
}

impl fmt::Display for Signature {
    /// Writes the signature as in C++, without the return type:
    /// `saxpy(unsigned int, float, const float*, float*)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}(", self.name)?;
        for (index, param) in self.params.iter().enumerate() {
            write!(f, "{}{param}", if index == 0 { "" } else { ", " })?;
        }
        f.write_char(')')
    }
}

/// Removes the commas that an empty parameter pack leaves: `f<, int>(unsigned int, )`.
fn without_empty_packs(text: &str) -> String {
    let mut written = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((item, after)) = rest.split_once(',') {
        written.push_str(item);
        let next = after.trim_start();
        if written.ends_with(['(', '<']) || next.starts_with([',', ')', '>']) {
            rest = next;
        } else {
            written.push(',');
            rest = after;
        }
    }
    written + rest
}

/// Rewrites numbers among template arguments as C++ programmers spell them: `(unsigned int)128` as `128u`.
fn literals(text: &str) -> String {
    const SUFFIXES: [(&str, &str); 6] = [
        ("(int)", ""),
        ("(unsigned int)", "u"),
        ("(long)", "l"),
        ("(unsigned long)", "ul"),
        ("(long long)", "ll"),
        ("(unsigned long long)", "ull"),
    ];
    let mut written = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(open) = rest.find('(') {
        written.push_str(&rest[..open]);
        rest = &rest[open..];
        let cast = SUFFIXES.iter().find(|(cast, _)| rest.starts_with(cast));
        let (number, suffix) = match cast {
            Some((cast, suffix)) => (&rest[cast.len()..], *suffix),
            None => ("", ""),
        };
        let digits = number.strip_prefix('-').unwrap_or(number);
        let digits = digits.bytes().take_while(u8::is_ascii_digit).count();
        if let Some(after) = rest.strip_prefix("(bool)0") {
            written.push_str("false");
            rest = after;
        } else if let Some(after) = rest.strip_prefix("(bool)1") {
            written.push_str("true");
            rest = after;
        } else if digits > 0 {
            let length = digits + usize::from(number.starts_with('-'));
            written.push_str(&number[..length]);
            written.push_str(suffix);
            rest = &number[length..];
        } else {
            written.push('(');
            rest = &rest[1..];
        }
    }
    written.push_str(rest);
    written
}

/// Splits `name(a, b)` into `name` and the parameters. Returns `None` if the text isn't a function.
fn split_params(text: &str) -> Option<(&str, Vec<&str>)> {
    let inner = text.strip_suffix(')')?;
    let open = opening(inner)?;
    let (name, params) = (&inner[..open], &inner[open + 1..]);
    let params = if params == "void" { "" } else { params };
    (!name.is_empty()).then(|| (name, packs::split_list(params)))
}

/// Splits `name<a, b>` into `name` and the arguments.
fn split_template(name: &str) -> (&str, Vec<&str>) {
    let split = name.strip_suffix('>').and_then(|inner| Some((inner, opening(inner)?)));
    match split {
        Some((inner, open)) if open > 0 => (&inner[..open], packs::split_list(&inner[open + 1..])),
        _ => (name, Vec::new()),
    }
}

/// Finds the opening bracket that matches the closing bracket right after the text.
fn opening(text: &str) -> Option<usize> {
    let mut depth = 0usize;
    for (index, byte) in text.bytes().enumerate().rev() {
        match byte {
            b')' | b'>' | b']' | b'}' => depth += 1,
            b'(' | b'<' | b'[' | b'{' if depth == 0 => return Some(index),
            b'(' | b'<' | b'[' | b'{' => depth -= 1,
            _ => {}
        }
    }
    None
}
