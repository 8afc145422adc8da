//! Parses the fields of a record: splits a payload into tags and bytes, and reads bytes as text or numbers.

use core::fmt;

use crate::layout::FIELD_HEADER_LEN;

/// The defect of a malformed record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Problem {
    /// The record does not begin with the magic number.
    Magic,
    /// The length in the record's header is larger than the rest of the section.
    Truncated,
    /// The length of a field is larger than the rest of its record.
    FieldTruncated,
    /// A required field is missing.
    FieldMissing,
    /// A field occurs twice.
    FieldRepeated,
    /// The length of a field does not fit its type.
    FieldSize,
    /// A text is not UTF-8.
    Text,
    /// The code for how a parameter is passed is unknown.
    Pass,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Problem::Magic => "no record begins here",
            Problem::Truncated => "the section ends in the middle of it",
            Problem::FieldTruncated => "it ends in the middle of a field",
            Problem::FieldMissing => "a field is missing",
            Problem::FieldRepeated => "a field occurs twice",
            Problem::FieldSize => "a field has the wrong length",
            Problem::Text => "a text is not UTF-8",
            Problem::Pass => "a parameter is passed in an unknown way",
        })
    }
}

/// Splits a payload into tags and their bytes.
pub(crate) struct Fields<'a>(pub(crate) &'a [u8]);

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u8, &'a [u8]), Problem>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let field = self.0.split_first_chunk::<FIELD_HEADER_LEN>().and_then(|(header, rest)| {
            let [tag, length @ ..] = *header;
            let (bytes, rest) = rest.split_at_checked(u32::from_le_bytes(length) as usize)?;
            self.0 = rest;
            Some((tag, bytes))
        });
        if field.is_none() {
            self.0 = &[];
        }
        Some(field.ok_or(Problem::FieldTruncated))
    }
}

/// The tags that have occurred in a record, as a bit set. Tags are below 32.
#[derive(Default)]
pub(crate) struct Seen(u32);

impl Seen {
    /// Adds a tag. Fails if it's already there, because a field may occur only once.
    pub(crate) fn add(&mut self, tag: u8) -> Result<(), Problem> {
        if self.has(tag) {
            return Err(Problem::FieldRepeated);
        }
        self.0 |= 1 << tag;
        Ok(())
    }

    pub(crate) fn has(&self, tag: u8) -> bool {
        self.0 & 1 << tag != 0
    }

    /// Checks that none of these tags is missing.
    pub(crate) fn require(&self, tags: &[u8]) -> Result<(), Problem> {
        if tags.iter().all(|tag| self.has(*tag)) { Ok(()) } else { Err(Problem::FieldMissing) }
    }
}

pub(crate) fn text(bytes: &[u8]) -> Result<&str, Problem> {
    core::str::from_utf8(bytes).map_err(|_| Problem::Text)
}

pub(crate) fn number64(bytes: &[u8]) -> Result<u64, Problem> {
    bytes.try_into().map(u64::from_le_bytes).map_err(|_| Problem::FieldSize)
}

pub(crate) fn number(bytes: &[u8]) -> Result<u32, Problem> {
    numbers(bytes).map(|[number]| number)
}

pub(crate) fn numbers<const N: usize>(bytes: &[u8]) -> Result<[u32; N], Problem> {
    let (words, []) = bytes.as_chunks::<4>() else { return Err(Problem::FieldSize) };
    let words: &[[u8; 4]; N] = words.try_into().map_err(|_| Problem::FieldSize)?;
    Ok(words.map(u32::from_le_bytes))
}
