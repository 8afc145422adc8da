//! Splits C++ text into tokens: words, strings, preprocessor directives, and single characters. Comments are
//! dropped.

/// Returns whether a token is a whole directive: `#define N 4`.
pub(super) fn is_directive(token: &&str) -> bool {
    token.starts_with('#') && token.len() > 1
}

/// Prefixes of raw strings.
const RAW: [&str; 5] = ["R", "LR", "u8R", "uR", "UR"];

/// Splits a text into tokens.
pub(super) fn split(text: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    let mut rest = text;
    let mut is_line_start = true;
    while let Some(c) = rest.chars().next() {
        let length = match c {
            '\n' => {
                is_line_start = true;
                rest = &rest[1..];
                continue;
            }
            c if c.is_whitespace() => c.len_utf8(),
            '#' if is_line_start => {
                let length = directive(rest);
                let text = rest[..length].trim_end();
                // A preprocessor's line marker, such as `# 12 "x.cu"`, is dropped, because it may be in the
                // middle of a declaration.
                if !text[1..].trim_start().starts_with(|c: char| c.is_ascii_digit()) {
                    tokens.push(text);
                }
                length
            }
            '\\' if rest[1..].trim_start_matches([' ', '\t', '\r']).starts_with('\n') => 1,
            '/' if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
            '/' if rest.starts_with("/*") => rest.find("*/").map_or(rest.len(), |end| end + 2),
            '"' | '\'' => {
                let is_raw = c == '"' && tokens.last().is_some_and(|prefix| RAW.contains(prefix));
                let length = if is_raw { raw(rest) } else { quoted(rest, c) };
                tokens.push(&rest[..length]);
                length
            }
            c if is_word(c) => {
                // Digits can have separators: `1'000`.
                let is_end = |sign: char| !(is_word(sign) || (c.is_ascii_digit() && sign == '\''));
                let length = rest.find(is_end).unwrap_or(rest.len());
                tokens.push(&rest[..length]);
                length
            }
            c => {
                tokens.push(&rest[..c.len_utf8()]);
                c.len_utf8()
            }
        };
        is_line_start &= c.is_whitespace() || rest.starts_with("/*");
        rest = &rest[length..];
    }
    tokens
}

fn is_word(c: char) -> bool {
    c == '_' || c.is_alphanumeric()
}

/// Returns the length of a preprocessor directive, including lines that continue it.
fn directive(text: &str) -> usize {
    let mut end = 0;
    for line in text.split_inclusive('\n') {
        end += line.len();
        if !line.trim_end().ends_with('\\') {
            return end - usize::from(line.ends_with('\n'));
        }
    }
    end
}

/// Returns the length of a string or character literal.
fn quoted(text: &str, quote: char) -> usize {
    let mut is_escaped = false;
    for (index, c) in text.char_indices().skip(1) {
        match c {
            '\n' => return index,
            c if c == quote && !is_escaped => return index + 1,
            _ => is_escaped = c == '\\' && !is_escaped,
        }
    }
    text.len()
}

/// Returns the length of a raw string literal: `"end(text)end"`.
fn raw(text: &str) -> usize {
    let delimiter = text[1..].split('(').next().unwrap_or_default();
    let end = format!("){delimiter}\"");
    text.find(&end).map_or(text.len(), |start| start + end.len())
}
