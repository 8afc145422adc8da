//! Splits text into words, numbers and signs, each with its line.

use kernel_registry_cuda::ptx::lexer::{Kind, Lexer};

use crate::error::LoadError;

#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Token<'a> {
    /// A name, a directive or an opcode with its modifiers: `%rd1`, `.reg`, `ld.global.u32`, `%tid.x`.
    Word(&'a str),
    Integer(u64),
    /// The bits of an f32 literal: `0f3F800000`.
    Single(u32),
    /// The bits of an f64 literal, which is `0d...` or decimal.
    Double(u64),
    Text(&'a str),
    Sign(char),
}

pub(crate) fn tokens(text: &str) -> Result<Vec<(Token<'_>, u32)>, LoadError> {
    let mut found = Vec::new();
    let (mut line, mut counted) = (1, 0);
    for token in Lexer::new(text.as_bytes(), 0) {
        let start = token.range.start;
        line += text.as_bytes()[counted..start].iter().filter(|byte| **byte == b'\n').count() as u32;
        counted = start;
        let read = match token.kind {
            Kind::Word => word(&text[token.range]),
            Kind::Text => Some(Token::Text(&text[start + 1..token.range.end - 1])),
            Kind::Sign(sign) => SIGNS.contains(&sign).then(|| Token::Sign(sign.into())),
            Kind::Open => None,
        };
        let wrong = || LoadError::syntax(line, text[start..].lines().next().unwrap_or(""));
        found.push((read.ok_or_else(wrong)?, line));
    }
    Ok(found)
}

const SIGNS: &[u8] = b",;:{}()[]<>|@!+-=";

fn word(text: &str) -> Option<Token<'_>> {
    if text.starts_with(|first: char| first.is_ascii_digit()) {
        number(text)
    } else {
        Some(Token::Word(text))
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
