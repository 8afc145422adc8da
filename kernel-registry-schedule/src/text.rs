//! Escapes and errors that the text formats share.

use std::borrow::Cow;
use std::error::Error;
use std::fmt::{self, Display, Formatter};
use std::str::FromStr;

use crate::party::ParsePartyError;

/// First line of a plan's text.
pub(crate) const HEADER: &str = "# kernel-registry schedule 1";

/// A line of a plan or a record can't be parsed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseError {
    /// The line, counted from 1.
    pub line: usize,
    /// What's wrong with it.
    pub reason: Reason,
}

impl Display for ParseError {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.reason)
    }
}

impl Error for ParseError {}

/// What's wrong with a line of a plan or a record.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// The first line of a plan isn't the one that names the format and its version.
    Header(String),
    /// The line has none of the known forms.
    Form(String),
    /// A party's name is none.
    Party(ParsePartyError),
    /// A number is none, or too large.
    Number(String),
    /// A backslash begins no escape.
    Escape(String),
    /// An outcome has none of the known kinds.
    Kind(String),
    /// A line may occur only once.
    Repeated(&'static str),
    /// A choice has fewer than two options, or the chosen or usual party isn't one of them.
    Choice(String),
}

impl Display for Reason {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Reason::Header(line) => {
                write!(f, "expected `{}`, found `{}`", HEADER, line.escape_debug())
            }
            Reason::Form(line) => write!(f, "unknown line `{}`", line.escape_debug()),
            Reason::Party(error) => error.fmt(f),
            Reason::Number(text) => write!(f, "`{}` is no number in range", text.escape_debug()),
            Reason::Escape(text) => write!(f, "unknown escape in `{}`", text.escape_debug()),
            Reason::Kind(text) => write!(f, "`{}` is no kind of outcome", text.escape_debug()),
            Reason::Repeated(line) => write!(f, "second `{line}` line"),
            Reason::Choice(line) => {
                write!(f, "choice without two options, or of none of them: `{}`", line.escape_debug())
            }
        }
    }
}

impl Error for Reason {}

impl From<ParsePartyError> for Reason {
    fn from(error: ParsePartyError) -> Self {
        Reason::Party(error)
    }
}

/// Escapes whatever would end a line or a field.
pub(crate) fn escape(text: &str) -> Cow<'_, str> {
    if !text.contains(['\\', '\n', '\r', '\t']) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 8);
    for char in text.chars() {
        match char {
            '\\' => escaped.push_str("\\\\"),
            '\n' => escaped.push_str("\\n"),
            '\r' => escaped.push_str("\\r"),
            '\t' => escaped.push_str("\\t"),
            other => escaped.push(other),
        }
    }
    Cow::Owned(escaped)
}

pub(crate) fn unescape(text: &str) -> Result<String, Reason> {
    let mut plain = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(char) = chars.next() {
        if char != '\\' {
            plain.push(char);
            continue;
        }
        plain.push(match chars.next() {
            Some('\\') => '\\',
            Some('n') => '\n',
            Some('r') => '\r',
            Some('t') => '\t',
            _ => return Err(Reason::Escape(text.to_owned())),
        });
    }
    Ok(plain)
}

pub(crate) fn number<N: FromStr>(text: &str) -> Result<N, Reason> {
    text.parse().map_err(|_| Reason::Number(text.to_owned()))
}
