//! The words and signs of a C++ text, without comments, strings and what the preprocessor says.

/// Words and single signs.
pub(super) fn of(text: &str) -> Vec<&str> {
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
            '#' if is_line_start => directive(rest),
            '/' if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
            '/' if rest.starts_with("/*") => rest.find("*/").map_or(rest.len(), |end| end + 2),
            '"' | '\'' => quoted(rest, c),
            c if is_word(c) => {
                // The digits of a number can be separated: `1'000`.
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
        is_line_start &= c.is_whitespace();
        rest = &rest[length..];
    }
    tokens
}

fn is_word(c: char) -> bool {
    c == '_' || c.is_alphanumeric()
}

/// Bytes of a preprocessor line, which a backslash continues.
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

/// Bytes of a string or character.
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
