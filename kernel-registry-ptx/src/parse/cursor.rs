//! A cursor over the tokens of a text.

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

    /// A syntax error at the next token.
    pub(crate) fn wrong<T>(&self) -> Parsed<T> {
        let line = self.line();
        Err(LoadError::syntax(line, self.source.lines().nth(line as usize - 1).unwrap_or("")))
    }

    /// A syntax error at the token that was taken last.
    pub(crate) fn unexpected<T>(&mut self) -> Parsed<T> {
        self.next -= 1;
        self.wrong()
    }

    /// Takes the next token if it is this one.
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

    /// One or more items, with commas between them.
    pub(crate) fn list<T>(&mut self, mut item: impl FnMut(&mut Self) -> Parsed<T>) -> Parsed<Vec<T>> {
        let mut found = vec![item(self)?];
        while self.sign(',') {
            found.push(item(self)?);
        }
        Ok(found)
    }

    /// Skips the rest of the line, where directives for debuggers end.
    pub(crate) fn skip_line(&mut self) {
        let line = self.line();
        while self.peek().is_some() && self.line() == line {
            self.next += 1;
        }
    }

    /// Skips everything up to a sign, inclusively.
    pub(crate) fn skip_to(&mut self, sign: char) -> Parsed<()> {
        while !self.sign(sign) {
            if self.take().is_none() {
                return self.unexpected();
            }
        }
        Ok(())
    }
}
