//! The lexer: text to words, numbers and punctuation, each with its line.

use crate::error::LoadError;

#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Token<'a> {
    /// A name, a directive or an opcode with its modifiers: `%rd1`, `.reg`, `ld.global.u32`, `%tid.x`.
    Word(&'a str),
    Integer(u64),
    /// The bits of a `0f` literal.
    Single(u32),
    /// The bits of a `0d` literal, or of a decimal one.
    Double(u64),
    Text(&'a str),
    Sign(char),
}

pub(crate) fn tokens(text: &str) -> Result<Vec<(Token<'_>, u32)>, LoadError> {
    let mut found = Vec::new();
    let mut rest = text;
    let mut line = 1;
    while let Some(first) = rest.chars().next() {
        let length = if first.is_whitespace() {
            first.len_utf8()
        } else if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if let Some(comment) = rest.strip_prefix("/*") {
            comment.find("*/").map_or(rest.len(), |end| end + 4)
        } else {
            let (token, length) =
                token(rest).ok_or_else(|| LoadError::syntax(line, rest.lines().next().unwrap_or("")))?;
            found.push((token, line));
            length
        };
        line += rest[..length].matches('\n').count() as u32;
        rest = &rest[length..];
    }
    Ok(found)
}

/// The first token of `rest`, and its length.
fn token(rest: &str) -> Option<(Token<'_>, usize)> {
    let first = rest.chars().next()?;
    if first == '"' {
        let end = rest[1..].find('"')? + 2;
        return Some((Token::Text(&rest[1..end - 1]), end));
    }
    if first.is_ascii_digit() {
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '.').unwrap_or(rest.len());
        return Some((number(&rest[..end])?, end));
    }
    if first.is_ascii_alphabetic() || "_$%.".contains(first) {
        return Some(word(rest));
    }
    ",;:{}()[]<>|@!+-=".contains(first).then_some((Token::Sign(first), 1))
}

/// A double colon belongs to the word (`shared::cta`), a single one ends a label. A dot begins a new directive, but not
/// a new word of an opcode: `.reg.b32` is two words, `add.u32` one.
fn word(rest: &str) -> (Token<'_>, usize) {
    let bytes = rest.as_bytes();
    let mut end = 1;
    loop {
        match bytes.get(end) {
            Some(b'.') if rest.starts_with('.') => return (Token::Word(&rest[..end]), end),
            Some(b) if b.is_ascii_alphanumeric() || b"_$.%".contains(b) => end += 1,
            Some(b':') if bytes.get(end + 1) == Some(&b':') => end += 2,
            _ => return (Token::Word(&rest[..end]), end),
        }
    }
}

fn number(text: &str) -> Option<Token<'static>> {
    let radix = |digits: &str, radix| u64::from_str_radix(digits, radix).ok();
    let whole = text.trim_end_matches('U');
    if let Some(digits) = text.strip_prefix("0f").or(text.strip_prefix("0F")) {
        return u32::from_str_radix(digits, 16).ok().map(Token::Single);
    }
    if let Some(digits) = text.strip_prefix("0d").or(text.strip_prefix("0D")) {
        return radix(digits, 16).map(Token::Double);
    }
    if let Some(digits) = whole.strip_prefix("0x").or(whole.strip_prefix("0X")) {
        return radix(digits, 16).map(Token::Integer);
    }
    if let Some(digits) = whole.strip_prefix("0b").or(whole.strip_prefix("0B")) {
        return radix(digits, 2).map(Token::Integer);
    }
    if text.contains(['.', 'e']) {
        return text.parse().ok().map(|value: f64| Token::Double(value.to_bits()));
    }
    let octal = whole.len() > 1 && whole.starts_with('0');
    radix(whole, if octal { 8 } else { 10 }).map(Token::Integer)
}
