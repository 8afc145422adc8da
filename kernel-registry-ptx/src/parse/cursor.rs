//! Defines a cursor over the tokens of a text.

use crate::error::LoadError;
use crate::parse::lex::{Token, tokens};

pub(crate) struct Cursor<'a> {
    source: &'a str,
    tokens: Vec<(Token<'a>, u32)>,
    next: usize,
}

pub(crate) type Parsed<T> = Result<T, LoadError>;

impl<'a> Cursor<'a> {
    pub(crate) fn new(source: &'a str) -> Parsed<Self> {
        Ok(Self { source, tokens: tokens(source)?, next: 0 })
    }

    pub(crate) fn peek(&self) -> Option<Token<'a>> {
        self.tokens.get(self.next).map(|&(token, _)| token)
    }

    pub(crate) fn take(&mut self) -> Option<Token<'a>> {
        let token = self.peek();
        self.next += 1;
        token
    }

    pub(crate) fn line(&self) -> u32 {
        self.tokens.get(self.next).or(self.tokens.last()).map_or(1, |&(_, line)| line)
    }

    /// Returns a syntax error at the next token.
    pub(crate) fn wrong<T>(&self) -> Parsed<T> {
        let line = self.line();
        Err(LoadError::syntax(line, self.source.lines().nth(line as usize - 1).unwrap_or("")))
    }

    /// Returns a syntax error at the last token that was taken.
    pub(crate) fn unexpected<T>(&mut self) -> Parsed<T> {
        self.next -= 1;
        self.wrong()
    }

    /// Takes the next token if it equals this one. Returns whether it did.
    fn take_if(&mut self, token: Token<'_>) -> bool {
        let found = self.peek() == Some(token);
        self.next += usize::from(found);
        found
    }

    pub(crate) fn sign(&mut self, sign: char) -> bool {
        self.take_if(Token::Sign(sign))
    }

    pub(crate) fn directive(&mut self, name: &str) -> bool {
        self.take_if(Token::Word(name))
    }

    pub(crate) fn expect(&mut self, sign: char) -> Parsed<()> {
        if self.sign(sign) { Ok(()) } else { self.wrong() }
    }

    pub(crate) fn word(&mut self) -> Parsed<&'a str> {
        let Some(Token::Word(word)) = self.take() else { return self.unexpected() };
        Ok(word)
    }

    pub(crate) fn integer(&mut self) -> Parsed<u64> {
        let Some(Token::Integer(value)) = self.take() else { return self.unexpected() };
        Ok(value)
    }

    pub(crate) fn text(&mut self) -> Parsed<&'a str> {
        let Some(Token::Text(text)) = self.take() else { return self.unexpected() };
        Ok(text)
    }

    /// Parses one or more items, separated by commas.
    pub(crate) fn list<T>(&mut self, mut item: impl FnMut(&mut Self) -> Parsed<T>) -> Parsed<Vec<T>> {
        let mut found = vec![item(self)?];
        while self.sign(',') {
            found.push(item(self)?);
        }
        Ok(found)
    }

    /// Skips the rest of the line. Directives for debuggers end with their line.
    pub(crate) fn skip_line(&mut self) {
        let line = self.line();
        while self.peek().is_some() && self.line() == line {
            self.next += 1;
        }
    }

    /// Skips everything up to and including a sign.
    pub(crate) fn skip_to(&mut self, sign: char) -> Parsed<()> {
        while !self.sign(sign) {
            if self.take().is_none() {
                return self.unexpected();
            }
        }
        Ok(())
    }
}
