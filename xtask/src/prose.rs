//! Finds code of the audit that takes display text apart. Data goes through typed values, so that a sentence can be reworded without
//! breaking a preload or a report.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use proc_macro2::{Delimiter, TokenStream, TokenTree};

use crate::run::Outcome;

/// The methods that take a text apart.
const METHODS: [&str; 11] = [
    "contains",
    "ends_with",
    "find",
    "rfind",
    "rsplit",
    "rsplit_once",
    "split",
    "split_once",
    "starts_with",
    "strip_prefix",
    "strip_suffix",
];

/// Fails if a crate of the audit takes display text apart.
pub(crate) fn check_audit(root: &Path) -> Outcome {
    let mut problems = BTreeSet::new();
    for entry in fs::read_dir(root)? {
        let path = entry?.path();
        let is_audit =
            path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("kernel-audit"));
        if is_audit {
            problems.extend(find_parsed(&path.join("src"))?);
        }
    }
    match problems.is_empty() {
        true => Ok(()),
        false => Err(problems.into_iter().collect::<Vec<_>>().join("\n").into()),
    }
}

/// Describes the places below a folder where a text is searched for words of a sentence. Tests may do so.
fn find_parsed(folder: &Path) -> Outcome<BTreeSet<String>> {
    let mut problems = BTreeSet::new();
    for file in rust_files(folder)? {
        let tokens: TokenStream =
            fs::read_to_string(&file)?.parse().map_err(|_| format!("{}", file.display()))?;
        find_in(tokens, &mut |line, literal| {
            problems.insert(format!(
                "{}:{line} takes a sentence apart: {literal}. Pass what it says as a field",
                file.display()
            ));
        });
    }
    Ok(problems)
}

pub(crate) fn rust_files(folder: &Path) -> Outcome<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            files.extend(rust_files(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "rs")
            && path.file_stem().is_some_and(|stem| stem != "tests")
        {
            files.push(path);
        }
    }
    Ok(files)
}

fn find_in(tokens: TokenStream, found: &mut impl FnMut(usize, &str)) {
    let mut tokens = tokens.into_iter().peekable();
    let mut method = false;
    while let Some(token) = tokens.next() {
        let was_method = method;
        method = matches!(&token, TokenTree::Ident(name) if METHODS.iter().any(|method| name == method));
        match token {
            TokenTree::Punct(mark) if mark.as_char() == '#' => {
                let is_test = |token: &TokenTree| {
                    let text = token.to_string();
                    text.starts_with("[cfg") && text.contains("test") || text == "[test]"
                };
                if tokens.next_if(is_test).is_some() {
                    // The item ends with its body, or with a semicolon.
                    let ends = |token: &TokenTree| match token {
                        TokenTree::Group(group) => group.delimiter() == Delimiter::Brace,
                        TokenTree::Punct(mark) => mark.as_char() == ';',
                        _ => false,
                    };
                    tokens.by_ref().find(ends);
                }
            }
            TokenTree::Group(group) => {
                if was_method && let Some(TokenTree::Literal(first)) = group.stream().into_iter().next() {
                    let text = first.to_string();
                    if is_prose(&text) {
                        found(first.span().start().line, &text);
                    }
                }
                find_in(group.stream(), found);
            }
            _ => {}
        }
    }
}

/// Returns whether a literal has two words next to each other, or a word before a number.
fn is_prose(literal: &str) -> bool {
    let is_word = |word: &str| word.len() > 1 && word.bytes().all(|byte| byte.is_ascii_alphabetic());
    let words: Vec<_> = literal.trim_matches('"').split(' ').collect();
    words.windows(2).any(|pair| is_word(pair[0]) && (is_word(pair[1]) || pair[1].starts_with("0x")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(code: &str) -> Vec<String> {
        let mut all = Vec::new();
        find_in(code.parse().expect("tokens"), &mut |_, literal| all.push(literal.to_owned()));
        all
    }

    #[test]
    fn sentences_that_are_taken_apart_are_found() {
        let code = r#"
            fn size(event: &Event) -> Option<u64> {
                event.text.strip_prefix("stack of ")?.strip_suffix(" bytes")?.parse().ok()
            }
            const STREAM: fn(&str) -> Option<(&str, &str)> = |words| words.rsplit_once("stream 0x");
            fn other(line: &str) { if let Some((a, b)) = line.split_once(" is in ") { dbg!(a, b) } }
        "#;
        assert_eq!(parsed(code), ["\"stack of \"", "\"stream 0x\"", "\" is in \""]);
    }

    #[test]
    fn formats_and_tests_are_left_alone() {
        let code = r#"
            fn read(line: &str) -> bool { line.starts_with("ptx ") || line.split_once(" x ").is_some() }
            fn say() { println!("stack of {} bytes", 1) }
            #[cfg(test)]
            mod tests { fn f(text: &str) { assert!(text.contains("stack of 1 bytes")) } }
            #[test]
            fn t() { assert!("a".contains("two words")) }
        "#;
        assert_eq!(parsed(code), <[String; 0]>::default());
    }

    #[test]
    fn a_crate_of_the_audit_that_does_so_fails_the_check() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("kernel-audit-hooks/src/deep");
        fs::create_dir_all(&folder).unwrap();
        assert!(check_audit(root.path()).is_ok());
        fs::write(folder.join("a.rs"), "fn f(a: &str) -> bool {\n a.contains(\"was not\") }").unwrap();
        let said = check_audit(root.path()).unwrap_err().to_string();
        assert!(said.contains("deep/a.rs:2 takes a sentence apart: \"was not\""), "{said}");
    }

    #[test]
    fn the_audit_takes_no_sentence_apart() {
        check_audit(&crate::run::workspace()).unwrap_or_else(|error| panic!("{error}"));
    }
}
