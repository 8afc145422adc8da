//! Expands parameter packs: `Dp3argIT_E` is one type for each argument in the pack `T_`.
//!
//! cpp_demangle writes the whole pack in place of `T_`, as in `arg<float, int>`. So each `Dp` is replaced by
//! a qualifier, which counts as a substitution too and is written after the type. The texts of `T_` are
//! marked.

use std::fmt;

use cpp_demangle::{BorrowedSymbol, DemangleNodeType, DemangleOptions, DemangleWrite};

/// The qualifier that replaces `Dp`.
const QUALIFIER: &str = "U8__pack__";
/// The qualifier in the demangled text, after its type.
const WRITTEN: &str = " __pack__";

/// Marks around the text of a template parameter. Symbols with control characters were rejected before.
const OPEN: char = '\u{1}';
const CLOSE: char = '\u{2}';

/// The most packs in a symbol. Each pack costs a pass over the symbol.
const MAX_PACKS: usize = 32;

/// Demangles a name, to at most this many bytes.
pub(super) fn demangle(symbol: &str, limit: usize) -> Option<String> {
    let plain = written(symbol, limit, false)?;
    if !symbol.contains("Dp") {
        return Some(plain);
    }
    let is_odd = symbol.contains(WRITTEN.trim_start()) || symbol.matches("Dp").count() > MAX_PACKS;
    if is_odd {
        return None;
    }
    let plain = unmarked(&plain);
    let (mut symbol, mut text, mut from) = (symbol.to_owned(), None, 0);
    while let Some(at) = symbol[from..].find("Dp").map(|found| from + found) {
        let marked = [&symbol[..at], QUALIFIER, &symbol[at + 2..]].concat();
        from = at + 2;
        // `Dp` isn't always a pack. Inside an identifier, for example, replacing it changes the name.
        if let Some(new) = written(&marked, limit, true).filter(|new| unmarked(new) == plain) {
            from = at + QUALIFIER.len();
            (symbol, text) = (marked, Some(new));
        }
    }
    match text {
        Some(text) => expanded(&text, limit),
        None => Some(plain),
    }
}

/// Removes marks, the `...` of an unknown pack, and spaces, which depend on the marks.
fn unmarked(text: &str) -> String {
    text.replace(WRITTEN, "").replace("...", "").replace([OPEN, CLOSE, ' '], "")
}

fn written(symbol: &str, limit: usize, marks: bool) -> Option<String> {
    let parsed = BorrowedSymbol::new(symbol.as_bytes()).ok()?;
    let mut writer = Writer { text: String::new(), limit, marks, nodes: Vec::new() };
    parsed.structured_demangle(&mut writer, &DemangleOptions::new().no_return_type()).ok()?;
    Some(writer.text)
}

/// A text of limited length that cpp_demangle writes.
struct Writer {
    text: String,
    limit: usize,
    /// Whether template parameters are marked.
    marks: bool,
    /// Whether each open node is a template parameter.
    nodes: Vec<bool>,
}

impl DemangleWrite for Writer {
    fn push_demangle_node(&mut self, node: DemangleNodeType) {
        let is_param = self.marks && node == DemangleNodeType::TemplateParam;
        self.text.extend(is_param.then_some(OPEN));
        self.nodes.push(is_param);
    }

    fn write_string(&mut self, text: &str) -> fmt::Result {
        if self.text.len() + text.len() > self.limit {
            return Err(fmt::Error);
        }
        self.text.push_str(text);
        Ok(())
    }

    fn pop_demangle_node(&mut self) {
        let is_param = self.nodes.pop() == Some(true);
        self.text.extend(is_param.then_some(CLOSE));
    }
}

/// Replaces each type with the qualifier after it by one type for each element of its packs. Returns `None`
/// if the packs of a type differ in length.
fn expanded(text: &str, limit: usize) -> Option<String> {
    let mut written = String::with_capacity(text.len());
    // The starts of the list items around the current position, the innermost last.
    let (mut starts, mut start) = (Vec::new(), 0);
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        if let Some(behind) = rest.strip_prefix(WRITTEN) {
            let space = written[start..].len() - written[start..].trim_start().len();
            let pattern = written.split_off(start + space);
            instances(&pattern, limit, &mut written)?;
            rest = behind;
            continue;
        }
        written.push(c);
        match c {
            '(' | '<' | '[' | '{' | OPEN => {
                starts.push(start);
                start = written.len();
            }
            ')' | '>' | ']' | '}' | CLOSE => start = starts.pop().unwrap_or(0),
            ',' => start = written.len(),
            _ => {}
        }
        if written.len() > limit {
            return None;
        }
        rest = &rest[c.len_utf8()..];
    }
    Some(written.replace([OPEN, CLOSE], ""))
}

/// Writes a pattern once for each element of its packs, stopping at about the limit.
fn instances(pattern: &str, limit: usize, written: &mut String) -> Option<()> {
    let parts = parts(pattern);
    let is_auto = |part: &Part<'_>| matches!(part, Part::Pack(elements) if elements.iter().any(|element| element.starts_with("auto:")));
    let mut counts = parts.iter().filter_map(|part| match part {
        Part::Pack(elements) if elements.len() != 1 => Some(elements.len()),
        _ => None,
    });
    let count = counts.next().unwrap_or(1);
    if counts.any(|other| other != count) {
        return None;
    }
    for index in 0..count {
        if written.len() > limit {
            return None;
        }
        if index > 0 {
            written.push_str(", ");
        }
        for part in &parts {
            written.push_str(match part {
                Part::Text(text) => text,
                Part::Pack(elements) => elements.get(index).or(elements.first())?,
            });
        }
    }
    // The parameters of a generic lambda are not known.
    if parts.iter().any(is_auto) {
        written.push_str("...");
    }
    Some(())
}

/// A part of a pattern.
enum Part<'a> {
    Text(&'a str),
    /// A template parameter: the elements of a pack, or one type.
    Pack(Vec<&'a str>),
}

fn parts(pattern: &str) -> Vec<Part<'_>> {
    let (mut parts, mut start, mut depth) = (Vec::new(), 0, 0usize);
    for (index, c) in pattern.char_indices() {
        match c {
            OPEN if depth == 0 => {
                parts.push(Part::Text(&pattern[start..index]));
                (start, depth) = (index + 1, 1);
            }
            OPEN => depth += 1,
            CLOSE if depth == 1 => {
                parts.push(Part::Pack(split_list(&pattern[start..index])));
                (start, depth) = (index + 1, 0);
            }
            CLOSE => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    parts.push(Part::Text(&pattern[start..]));
    parts
}

/// Splits a list at the commas that are not inside of brackets.
pub(super) fn split_list(text: &str) -> Vec<&str> {
    if text.trim().is_empty() {
        return Vec::new();
    }
    let (mut items, mut start, mut depth) = (Vec::new(), 0, 0usize);
    for (index, byte) in text.bytes().enumerate() {
        match byte {
            b'(' | b'<' | b'[' | b'{' => depth += 1,
            b')' | b'>' | b']' | b'}' => depth = depth.saturating_sub(1),
            b',' if depth == 0 => {
                items.push(text[start..index].trim());
                start = index + 1;
            }
            _ => {}
        }
    }
    items.push(text[start..].trim());
    items
}
