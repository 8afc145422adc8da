//! PTX text as words and punctuation.

/// Splits PTX into tokens, without comments and string literals.
#[derive(Clone, Debug)]
pub(super) struct Lexer<'a> {
    text: &'a str,
    at: usize,
}

/// A piece of PTX.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token<'a> {
    /// A directive (`.entry`), an instruction (`ld.param.u32`), a name, a register or a number.
    Word(&'a str),
    /// Any other character.
    Punct(u8),
}

impl<'a> Lexer<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Lexer { text, at: 0 }
    }

    /// How much of the text has been read, in bytes.
    pub(super) fn offset(&self) -> usize {
        self.at
    }

    /// The line of the token that comes next, counted from 1, for an error.
    pub(super) fn place(&self) -> String {
        let before = self.text[..self.at].bytes();
        format!("line {}", 1 + before.filter(|byte| *byte == b'\n').count())
    }

    /// The token after this one, left where it is.
    pub(super) fn peek(&self) -> Option<Token<'a>> {
        self.clone().next()
    }

    /// Steps over the next token if it is this punctuation.
    pub(super) fn eat(&mut self, punct: u8) -> bool {
        let mut ahead = self.clone();
        let found = ahead.next() == Some(Token::Punct(punct));
        if found {
            *self = ahead;
        }
        found
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    /// Steps over what comes before the first occurrence of an end mark, and over the mark.
    fn skip_past(&mut self, end: &str) {
        self.at += self.rest().find(end).map_or(self.rest().len(), |at| at + end.len());
    }

    fn skip_string(&mut self) {
        self.at += 1;
        while let Some(found) = self.rest().find(['"', '\\']) {
            let escape = self.rest().as_bytes()[found] == b'\\';
            self.at += found + 1;
            match escape {
                // The character behind, which may take several bytes.
                true => self.at += self.rest().chars().next().map_or(0, char::len_utf8),
                false => return,
            }
        }
        self.at = self.text.len();
    }
}

impl<'a> Iterator for Lexer<'a> {
    type Item = Token<'a>;

    fn next(&mut self) -> Option<Token<'a>> {
        loop {
            let rest = self.rest();
            let first = rest.chars().next()?;
            if first.is_whitespace() || first == '\0' || !first.is_ascii() {
                self.at += first.len_utf8();
            } else if rest.starts_with("//") {
                self.skip_past("\n");
            } else if rest.starts_with("/*") {
                self.at += 2;
                self.skip_past("*/");
            } else if first == '"' {
                self.skip_string();
            } else if is_word(first as u8) {
                let length = word_length(rest.as_bytes());
                self.at += length;
                return Some(Token::Word(&rest[..length]));
            } else {
                self.at += 1;
                return Some(Token::Punct(first as u8));
            }
        }
    }
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | b'%' | b'.')
}

/// `.param.u64` are two words, as there may be a space between them; `ld.param.u64` is one.
fn word_length(text: &[u8]) -> usize {
    let directive = text[0] == b'.';
    let more = |byte: &u8| is_word(*byte) && !(directive && *byte == b'.');
    1 + text[1..].iter().take_while(|byte| more(byte)).count()
}

/// A number as PTX writes it: `12`, `0x0c`, `12U`.
pub(super) fn number(text: &str) -> Option<u32> {
    let digits = text.strip_suffix('U').unwrap_or(text);
    match digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        Some(hex) => u32::from_str_radix(hex, 16).ok(),
        None => digits.parse().ok(),
    }
}
