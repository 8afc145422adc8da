//! Finds where PTX texts begin and end within other bytes.

use std::collections::HashSet;

use super::span::{End, Start};

/// `.version`, which begins the code of every PTX text.
const VERSION: &[u8] = b".version";

/// Words that can continue a text after a kernel or function. Any other word ends the text.
const STATEMENTS: [&[u8]; 13] = [
    b".visible",
    b".entry",
    b".func",
    b".global",
    b".const",
    b".shared",
    b".extern",
    b".weak",
    b".common",
    b".alias",
    b".file",
    b".section",
    b".pragma",
];

/// The most bytes of comments in front of `.version` that are searched.
const MOST_COMMENTS: usize = 16 * 1024;

/// The most other `.version`s that these comments may contain.
const MOST_NAMED: usize = 4;

/// Returns whether this is the whole word `.version`.
pub(super) fn is_version(bytes: &[u8]) -> bool {
    is_word(bytes, VERSION)
}

fn is_word(bytes: &[u8], word: &[u8]) -> bool {
    let behind = bytes.strip_prefix(word).and_then(|rest| rest.first());
    behind.is_some_and(u8::is_ascii_whitespace)
}

/// Finds the texts of these `.version`s. Adds their possible ends to `ends`.
pub(super) fn starts(
    bytes: &[u8],
    versions: &[usize],
    ends: &mut Vec<End>,
    effort: &mut usize,
) -> Vec<Start> {
    let mut starts = Vec::new();
    let mut followed = HashSet::new();
    for (index, version) in versions.iter().enumerate() {
        if followed.contains(version) {
            continue;
        }
        // Modules follow each other, so one walk finds the ends of many texts.
        let first = starts.len();
        let mut walk = Walk { bytes, at: *version, depth: 0, effort };
        let mut next = index;
        while let Some(module) = walk.module(ends) {
            if !followed.insert(module) {
                break;
            }
            next += versions[next..].partition_point(|version| *version < module);
            let farthest = if next < MOST_NAMED { 0 } else { versions[next - MOST_NAMED] + VERSION.len() };
            let nearest = module.saturating_sub(MOST_COMMENTS).max(farthest);
            starts.push(Start { beginnings: beginnings(bytes, nearest, module), ends: ends.len()..0 });
        }
        starts[first..].iter_mut().for_each(|start| start.ends.end = ends.len());
    }
    starts
}

/// A walk through a text that recognises braces, strings and comments.
struct Walk<'a> {
    bytes: &'a [u8],
    at: usize,
    /// How many braces are open.
    depth: usize,
    /// How many bytes may still be read.
    effort: &'a mut usize,
}

impl Walk<'_> {
    /// Walks up to the next module, and returns the offset of its `.version`. Adds the possible ends before
    /// that offset to `ends`.
    ///
    /// A text has zeros only at its end.
    fn module(&mut self, ends: &mut Vec<End>) -> Option<usize> {
        // The index of the last end, as long as only space and comments follow it.
        let mut open: Option<usize> = None;
        while let Some(byte) = self.bytes.get(self.at).copied() {
            let (from, rest) = (self.at, &self.bytes[self.at..]);
            let is_filler = byte == 0 || byte.is_ascii_whitespace();
            let is_comment = rest.starts_with(b"//") || rest.starts_with(b"/*");
            self.at += match byte {
                0 => rest.iter().take_while(|byte| **byte == 0 || byte.is_ascii_whitespace()).count(),
                b'"' => string_length(rest),
                b'/' if rest.starts_with(b"//") => length_past(rest, b"\n"),
                b'/' if rest.starts_with(b"/*") => length_past(rest, b"*/"),
                _ => 1,
            };
            *self.effort = self.effort.checked_sub(self.at - from)?;
            match byte {
                b'{' => self.depth += 1,
                b'}' => self.depth = self.depth.saturating_sub(1),
                _ => {}
            }
            if byte == b'}' && self.depth == 0 {
                open = Some(ends.len());
                ends.push(End::at(self.at));
            } else if let Some(end) = open.map(|open| &mut ends[open]) {
                if is_filler && end.with_filler == from {
                    end.with_filler = self.at;
                }
                if is_filler || is_comment {
                    end.with_comments = self.at;
                } else {
                    if byte == b'.' && STATEMENTS.iter().any(|statement| is_word(rest, statement)) {
                        ends.pop();
                    }
                    open = None;
                }
            }
            if byte == 0 {
                return None;
            }
            if byte == b'.' && self.depth == 0 && is_version(rest) {
                return Some(from);
            }
        }
        None
    }
}

/// Returns the length of a string literal, with its quotes.
fn string_length(text: &[u8]) -> usize {
    let mut is_escaped = true;
    let end = text.iter().position(|byte| {
        let ends = *byte == b'"' && !is_escaped || *byte == 0;
        is_escaped = *byte == b'\\' && !is_escaped;
        ends
    });
    // A zero ends the text, too.
    end.map_or(text.len(), |end| end + usize::from(text[end] != 0))
}

/// Returns the length up to the end of the first `mark` after the first two bytes, or up to a zero.
fn length_past(text: &[u8], mark: &[u8]) -> usize {
    for (index, byte) in text.iter().enumerate().skip(2) {
        if *byte == 0 {
            return index;
        }
        if text[index..].starts_with(mark) {
            return index + mark.len();
        }
    }
    text.len()
}

/// Returns the offsets at which the PTX text with this `.version` may begin: at `.version`, or at space or
/// comments before it, but not before `nearest`. The smallest offset comes first, because comments usually
/// belong to the text that follows them.
fn beginnings(bytes: &[u8], nearest: usize, version: usize) -> Vec<usize> {
    let mut beginnings = vec![version];
    let mut at = version;
    loop {
        let space = bytes[nearest..at].iter().rev().take_while(|byte| byte.is_ascii_whitespace()).count();
        beginnings.extend((at - space..at).rev());
        let before = &bytes[nearest..at - space];
        if before.ends_with(b"*/") {
            let Some(open) = before.windows(2).rposition(|window| window == b"/*") else { break };
            at = nearest + open;
            beginnings.push(at);
        } else {
            // Other bytes may precede the comment on its line. They don't belong to this text.
            let line = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
            let comments = (line..before.len()).rev().filter(|at| before[*at..].starts_with(b"//"));
            let comments: Vec<usize> = comments.collect();
            beginnings.extend(comments.iter().map(|at| nearest + at));
            let Some(first) = comments.last() else { break };
            let in_front = before[line..*first].trim_ascii();
            if !in_front.is_empty() && !in_front.ends_with(b"*/") {
                break;
            }
            at = nearest + first;
        }
    }
    beginnings.reverse();
    beginnings
}
