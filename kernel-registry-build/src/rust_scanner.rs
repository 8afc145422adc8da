//! Scans the Rust files of a package, as text, to find out which kernels they declare.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::{Error, Result};

/// Where cargo looks for Rust files, unless Cargo.toml says otherwise.
const FOLDERS: [&str; 4] = ["src", "examples", "tests", "benches"];

/// The kernel names that Rust files seem to declare.
#[derive(Debug, Default)]
pub(crate) struct Declared<'a> {
    /// The names to look for.
    wanted: BTreeSet<&'a str>,
    /// Wanted names that follow `fn`, or are words in the string of a `name = ".."` or of an instance.
    names: BTreeSet<&'a str>,
    /// Wanted names that are words anywhere in code or strings.
    words: BTreeSet<&'a str>,
    /// Whether a macro contains `fn $name`, so that every word can be the name of a function.
    by_macro: bool,
    /// Whether any file was read.
    pub(crate) any: bool,
    /// The files and folders to watch for changes.
    pub(crate) watched: Vec<PathBuf>,
}

impl<'a> Declared<'a> {
    /// Reads the Rust files of a package.
    pub(crate) fn of(package: &Path, wanted: BTreeSet<&'a str>) -> Result<Self> {
        let mut declared = Declared { wanted, ..Declared::default() };
        let mut folders: Vec<PathBuf> = FOLDERS.iter().map(|name| package.join(name)).collect();
        folders.retain(|folder| folder.is_dir());
        declared.watched.clone_from(&folders);
        for path in entries(package)? {
            if is_rust(&path) && !path.ends_with("build.rs") {
                declared.read(&path)?;
                declared.watched.push(path);
            }
        }
        while let Some(folder) = folders.pop() {
            for path in entries(&folder)? {
                // A folder behind a link could contain itself, and one with a Cargo.toml is another package.
                if path.is_dir() && !path.is_symlink() && !path.join("Cargo.toml").exists() {
                    folders.push(path);
                } else if is_rust(&path) {
                    declared.read(&path)?;
                }
            }
        }
        Ok(declared)
    }

    /// Whether a kernel with this C++ name, without namespaces and template arguments, may be declared.
    pub(crate) fn names(&self, ident: &str) -> bool {
        self.names.contains(ident) || (self.by_macro && self.words.contains(ident))
    }

    fn read(&mut self, path: &Path) -> Result<()> {
        let bytes = fs::read(path).map_err(Error::file("read", path))?;
        self.add(&String::from_utf8_lossy(&bytes));
        self.any = true;
        Ok(())
    }

    fn add(&mut self, text: &str) {
        // The two tokens before this one.
        let (mut second, mut first) = (Token::Other(' '), Token::Other(' '));
        for token in (Tokens { rest: text }) {
            match (second, first, token) {
                (_, Token::Word("fn"), Token::Word(name)) => self.names.extend(self.wanted.get(name)),
                (_, Token::Word("fn"), Token::Other('$')) => self.by_macro = true,
                // `name = ".."`, or of an instance `<f32> = ".."`.
                (Token::Word("name") | Token::Other('>'), Token::Other('='), Token::Text(name)) => {
                    self.names.extend(words(name).filter_map(|word| self.wanted.get(word)));
                }
                _ => {}
            }
            match token {
                Token::Word(word) => self.words.extend(self.wanted.get(word)),
                Token::Text(text) => {
                    self.words.extend(words(text).filter_map(|word| self.wanted.get(word)));
                }
                Token::Other(_) => {}
            }
            (second, first) = (first, token);
        }
    }
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).map_err(Error::file("read", folder))?;
    Ok(entries.flatten().map(|entry| entry.path()).collect())
}

fn is_rust(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "rs") && path.is_file()
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !in_word(c)).filter(|word| !word.is_empty())
}

fn in_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// A token of Rust, with only the distinctions that are needed here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token<'a> {
    /// An identifier, a keyword, or a number.
    Word(&'a str),
    /// The content of a string literal, with its escape sequences.
    Text(&'a str),
    Other(char),
}

/// Iterates over tokens. Skips comments, white space, characters and lifetimes.
struct Tokens<'a> {
    rest: &'a str,
}

impl<'a> Iterator for Tokens<'a> {
    type Item = Token<'a>;

    fn next(&mut self) -> Option<Token<'a>> {
        loop {
            let c = self.rest.chars().next()?;
            if self.rest.starts_with("//") {
                let end = self.rest.find('\n').unwrap_or(self.rest.len());
                self.take(end);
            } else if self.rest.starts_with("/*") {
                let length = comment(self.rest);
                self.take(length);
            } else if c == '\'' {
                let length = character(self.rest);
                self.take(length);
            } else if c == '"' {
                return Some(self.text());
            } else if in_word(c) {
                let length = self.rest.find(|c: char| !in_word(c)).unwrap_or(self.rest.len());
                let word = self.take(length);
                match word {
                    "r" | "br" | "cr" if self.rest.starts_with(['#', '"']) => match self.raw() {
                        Some(text) => return Some(text),
                        // `r#fn` is the identifier behind the hash.
                        None => drop(self.take(1)),
                    },
                    // The prefix of a string.
                    "b" | "c" if self.rest.starts_with('"') => {}
                    _ => return Some(Token::Word(word)),
                }
            } else {
                self.take(c.len_utf8());
                if !c.is_whitespace() {
                    return Some(Token::Other(c));
                }
            }
        }
    }
}

impl<'a> Tokens<'a> {
    fn take(&mut self, length: usize) -> &'a str {
        let (taken, rest) = self.rest.split_at(length);
        self.rest = rest;
        taken
    }

    /// The string that begins here.
    fn text(&mut self) -> Token<'a> {
        self.take(1);
        let mut escaped = false;
        let end = self.rest.find(|c: char| {
            let ends = c == '"' && !escaped;
            escaped = c == '\\' && !escaped;
            ends
        });
        let text = self.take(end.unwrap_or(self.rest.len()));
        self.take(end.map_or(0, |_| 1));
        Token::Text(text)
    }

    /// The raw string whose hashes begin here, if there is one.
    fn raw(&mut self) -> Option<Token<'a>> {
        let hashes = self.rest.len() - self.rest.trim_start_matches('#').len();
        let inner = self.rest[hashes..].strip_prefix('"')?;
        let closing = format!("\"{}", &self.rest[..hashes]);
        let end = inner.find(&closing);
        let text = &inner[..end.unwrap_or(inner.len())];
        self.rest = end.map_or("", |end| &inner[end + closing.len()..]);
        Some(Token::Text(text))
    }
}

/// The length of a comment, which can hold others.
fn comment(text: &str) -> usize {
    let (mut depth, mut at) = (0usize, 0);
    while let Some(found) = text[at..].find(['/', '*']) {
        at += found;
        match text.as_bytes().get(at..at + 2) {
            Some(b"/*") => (depth, at) = (depth + 1, at + 2),
            Some(b"*/") => (depth, at) = (depth.saturating_sub(1), at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            return at;
        }
    }
    text.len()
}

/// The length of a character, or of the tick of a lifetime.
fn character(text: &str) -> usize {
    let mut chars = text.char_indices().skip(1);
    let Some((at, c)) = chars.next() else { return text.len() };
    if c == '\\' {
        // The character behind the backslash is not the end, even if it is a tick.
        let behind = chars.next().map_or(text.len(), |(at, c)| at + c.len_utf8());
        return text[behind..].find('\'').map_or(text.len(), |end| behind + end + 1);
    }
    let behind = at + c.len_utf8();
    if text[behind..].starts_with('\'') { behind + 1 } else { 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Those of these names, with spaces between them, that are declared.
    fn declared<'a>(names: &'a str, text: &str) -> Vec<&'a str> {
        let wanted: Vec<&str> = names.split(' ').collect();
        let mut declared = Declared { wanted: wanted.iter().copied().collect(), ..Declared::default() };
        declared.add(text);
        wanted.into_iter().filter(|name| declared.names(name)).collect()
    }

    #[test]
    fn functions_and_names_are_declared_and_other_words_are_not() {
        let text = "pub unsafe fn saxpy(n: u32); unsafe fn\n/* of old */ r#loop();\n\
                    #[gpu_kernel(file = \"cuda/a.cu\", name = \"ns::reduce<float, 128u>\")] fn sum();\n\
                    #[gpu_kernel(name = r#\"raw\"#)] use other; let local = name == \"compared\";";
        let yes = "saxpy loop reduce sum raw";
        assert_eq!(declared(yes, text).join(" "), yes);
        assert!(declared("u32 other local cuda compared n", text).is_empty());
    }

    #[test]
    fn functions_in_comments_and_strings_are_ignored() {
        let text = "// fn a\n/* fn b /* fn c */ fn d */ \"fn e \\\" fn f\" r##\"fn g\"# fn h\"## b\"fn i\" c\"fn j\" \
                    '\"' '\\'' '\\\\' '\\u{22}' fn k<'a>(x: &'a str) {} 'b': loop { break 'b } /* fn l";
        assert_eq!(declared("a b c d e f g h i j k l", text), ["k"]);
    }

    #[test]
    fn names_of_instances_are_declared() {
        let text = "#[gpu_kernel(file = \"cuda/a.cu\", instances(<f32> = \"usqrt_f32\", <f64, 4> = \"usqrt_f64\"))]\n\
                    unsafe fn usqrt<T>(x: &[T]);";
        assert_eq!(
            declared("usqrt_f32 usqrt_f64 usqrt usqrt_f16", text),
            ["usqrt_f32", "usqrt_f64", "usqrt"]
        );
    }

    #[test]
    fn every_word_counts_if_a_macro_names_functions() {
        let names = "saxpy daxpy scaled";
        let uses = "kernels! { saxpy(n: u32), \"scaled\" }";
        assert!(declared(names, uses).is_empty());
        let with = format!("{uses} macro_rules! kernels {{ () => {{ unsafe fn $name(); }} }}");
        assert_eq!(declared(names, &with), ["saxpy", "scaled"]);
    }

    #[test]
    fn malformed_text_ends_the_scan() {
        for text in
            ["\"", "'", "'\\", "r#", "r#\"", "/*", "/", "b\"\\", "'ä", "fn", "name = \"", "r", "br#x", "ä'"]
        {
            assert!(declared("x", &format!("fn y {text}")).is_empty(), "{text}");
        }
    }
}
