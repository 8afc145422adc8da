//! Splits PTX text into words and punctuation, without comments and strings.

use kernel_registry_cuda::ptx::lexer::{self, Kind, Shapes};

/// A lexer that skips comments, strings, and characters that PTX doesn't use.
#[derive(Clone, Debug)]
pub(super) struct Lexer<'a> {
    text: &'a str,
    tokens: lexer::Lexer<'a>,
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
        Lexer { text, tokens: lexer::Lexer::new(text.as_bytes(), 0) }
    }

    /// Returns how many bytes of the text have been read.
    pub(super) fn offset(&self) -> usize {
        self.tokens.offset()
    }

    /// Returns the current line, counted from 1, for an error.
    pub(super) fn place(&self) -> String {
        let before = self.text.bytes().take(self.offset());
        format!("line {}", 1 + before.filter(|byte| *byte == b'\n').count())
    }

    /// Returns the next token without consuming it.
    pub(super) fn peek(&self) -> Option<Token<'a>> {
        self.clone().next()
    }

    /// Returns the next token that is a brace, a directive or a word of one of these shapes, skipping all
    /// others.
    pub(super) fn next_of(&mut self, shapes: &Shapes) -> Option<Token<'a>> {
        self.tokens.next_of(shapes).map(|token| match token.kind {
            Kind::Sign(sign) => Token::Punct(sign),
            _ => Token::Word(&self.text[token.range]),
        })
    }

    /// Consumes the next token if it is this punctuation.
    pub(super) fn eat(&mut self, punct: u8) -> bool {
        let mut ahead = self.clone();
        let found = ahead.next() == Some(Token::Punct(punct));
        if found {
            *self = ahead;
        }
        found
    }
}

impl<'a> Iterator for Lexer<'a> {
    type Item = Token<'a>;

    fn next(&mut self) -> Option<Token<'a>> {
        self.tokens.find_map(|token| match token.kind {
            Kind::Word => Some(Token::Word(&self.text[token.range])),
            Kind::Sign(sign) if sign != 0 && sign.is_ascii() => Some(Token::Punct(sign)),
            _ => None,
        })
    }
}

/// Reads a number as PTX writes it: `12`, `0x0c`, `12U`.
pub(super) fn number(text: &str) -> Option<u32> {
    let digits = text.strip_suffix('U').unwrap_or(text);
    match digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        Some(hex) => u32::from_str_radix(hex, 16).ok(),
        None => digits.parse().ok(),
    }
}
