//! Splits PTX text into words, strings and signs. All readers of PTX use this lexer.

mod shapes;

use core::ops::Range;

pub use shapes::Shapes;

/// A token and its position in the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// The kind of token.
    pub kind: Kind,
    /// The bytes of the token, counted from the start of the text.
    pub range: Range<usize>,
}

/// A kind of token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A directive (`.entry`), an opcode with its modifiers (`ld.shared::cta.u32`), a name, a register or a
    /// number.
    Word,
    /// A string with its quotes. A quote after a backslash belongs to the string.
    Text,
    /// Any other byte, valid in PTX or not.
    Sign(u8),
    /// The rest of the text, from a string or comment that has no end or contains a zero byte.
    Open,
}

/// Splits a text into tokens. Blanks and comments are skipped.
///
/// ```
/// use kernel_registry_cuda::ptx::lexer::Lexer;
///
/// let text = ".reg.b32 %r1; // a register";
/// let tokens: Vec<_> = Lexer::new(text.as_bytes(), 0).map(|token| &text[token.range]).collect();
/// assert_eq!(tokens, [".reg", ".b32", "%r1", ";"]);
/// ```
#[derive(Clone, Debug)]
pub struct Lexer<'a> {
    text: &'a [u8],
    at: usize,
}

impl<'a> Lexer<'a> {
    /// Makes a lexer that begins at the offset `at` of the text, in bytes.
    #[inline]
    pub fn new(text: &'a [u8], at: usize) -> Self {
        Lexer { text, at }
    }

    /// Returns how many bytes of the text have been read.
    pub fn offset(&self) -> usize {
        self.at
    }
}

impl Iterator for Lexer<'_> {
    type Item = Token;

    #[inline]
    fn next(&mut self) -> Option<Token> {
        loop {
            let rest = self.text.get(self.at..)?;
            let start = self.at;
            let (kind, length) = match *rest.first()? {
                first if is_word(first) => (Kind::Word, word_length(rest)),
                first if first.is_ascii_whitespace() => {
                    let blanks = rest.iter().position(|byte| !byte.is_ascii_whitespace());
                    self.at += blanks.unwrap_or(rest.len());
                    continue;
                }
                first @ (b'/' | b'"') => match opaque_length(rest) {
                    Some(0) => (Kind::Sign(first), 1),
                    Some(length) if first == b'"' => (Kind::Text, length),
                    Some(length) => {
                        self.at += length;
                        continue;
                    }
                    None => (Kind::Open, rest.len()),
                },
                first => (Kind::Sign(first), 1),
            };
            self.at += length;
            return Some(Token { kind, range: start..self.at });
        }
    }
}

/// Returns the length of the comment or string at the start of a text: 0 if there is neither, `None` if it
/// has no end or contains a zero byte, which ends the whole text for the driver.
#[inline]
pub(super) fn opaque_length(text: &[u8]) -> Option<usize> {
    let length = match text {
        [b'/', b'/', ..] => text.iter().position(|byte| *byte == b'\n').unwrap_or(text.len()),
        [b'/', b'*', body @ ..] => 2 + body.windows(2).position(|end| end == b"*/")? + 2,
        [b'"', ..] => string_length(text)?,
        _ => 0,
    };
    (!text[..length].contains(&0)).then_some(length)
}

fn string_length(text: &[u8]) -> Option<usize> {
    let mut at = 1;
    loop {
        at += match text.get(at)? {
            b'"' => return Some(at + 1),
            b'\\' => 2,
            _ => 1,
        };
    }
}

/// Whether a byte can be part of a word. It's a table because reading PTX spends most of its time on this
/// question.
static WORD: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 128 {
        let ascii = byte as u8;
        table[byte] = ascii.is_ascii_alphanumeric() || matches!(ascii, b'_' | b'$' | b'%' | b'.');
        byte += 1;
    }
    table
};

#[inline]
fn is_word(byte: u8) -> bool {
    WORD[usize::from(byte)]
}

/// Returns the length of the word at the start of a text. A dot begins a new word after a directive, but not
/// in an opcode: `.reg.b32` is two words, `add.u32` is one. A double colon is part of a word (`shared::cta`),
/// a single colon after a label isn't.
#[inline]
fn word_length(text: &[u8]) -> usize {
    let is_directive = text[0] == b'.';
    let mut length = 1;
    loop {
        match text.get(length) {
            Some(b'.') if is_directive => return length,
            Some(byte) if is_word(*byte) => length += 1,
            Some(b':') if text.get(length + 1) == Some(&b':') => length += 2,
            _ => return length,
        }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::vec::Vec;

    use super::*;

    fn read(text: &str) -> Vec<(Kind, &str)> {
        Lexer::new(text.as_bytes(), 0).map(|token| (token.kind, &text[token.range])).collect()
    }

    #[test]
    fn words_are_directives_opcodes_and_names() {
        let words = |text| read(text).into_iter().map(|(_, token)| token).collect::<Vec<_>>();
        assert_eq!(words(".visible.entry\t_Z1kv("), [".visible", ".entry", "_Z1kv", "("]);
        assert_eq!(
            words("$L_1: ld.shared::cta.v2.u32 {%r1, _}"),
            ["$L_1", ":", "ld.shared::cta.v2.u32", "{", "%r1", ",", "_", "}"]
        );
        assert_eq!(words("0f3F800000-8.0/4"), ["0f3F800000", "-", "8.0", "/", "4"]);
    }

    #[test]
    fn comments_are_no_tokens_and_strings_are_one() {
        let file = (Kind::Text, r#""C:\ // {\"""#);
        assert_eq!(read("/* \" */ // \"\n\"C:\\ // {\\\"\"//"), [file]);
        assert_eq!(read("x\0"), [(Kind::Word, "x"), (Kind::Sign(0), "\0")]);
    }

    #[test]
    fn an_open_string_or_comment_is_the_last_token() {
        for open in ["\"a b", "/* a", "/*/", "\"a\\\"", "\"\\", "\"a\0\"", "// \0\n", "/*\0*/"] {
            assert_eq!(read(open), [(Kind::Open, open)]);
        }
        assert_eq!(Lexer::new(b"text", 9).next(), None);
    }
}
