//! Text of a binary, an image, a driver or a compiler as a terminal may show it.

use core::fmt;

/// Text with each character written as `\u001b` that a terminal obeys instead of showing it: control characters but the newline and the tab,
/// and those that change the direction of other text. In a string of JSON that is the same text.
///
/// ```
/// use kernel_registry_format::Printable;
///
/// assert_eq!(Printable("\u{1b}[2J`k`\n").to_string(), "\\u001b[2J`k`\n");
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Printable<'a>(pub &'a str);

impl fmt::Display for Printable<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.0;
        while let Some((at, c)) = rest.char_indices().find(|(_, c)| is_obeyed(*c)) {
            write!(f, "{}\\u{:04x}", &rest[..at], u32::from(c))?;
            rest = &rest[at + c.len_utf8()..];
        }
        f.write_str(rest)
    }
}

/// Whether a character controls how text is shown, so that no name has it: line breaks, escape sequences, directions, and the
/// format characters of Unicode, which are not shown.
///
/// ```
/// use kernel_registry_format::is_control;
///
/// assert!("\n\t\u{1b}\u{7f}\u{9b}\u{2028}\u{202e}\u{200b}".chars().all(is_control));
/// assert!(!"_Z5naïve名 🦀".chars().any(is_control));
/// ```
pub fn is_control(c: char) -> bool {
    let number = u32::from(c);
    c.is_control() || is_obeyed(c) || FORMATS.iter().any(|(first, last)| (*first..=*last).contains(&number))
}

/// The format characters of Unicode, without those of direction.
const FORMATS: [(u32, u32); 18] = [
    (0xad, 0xad),
    (0x600, 0x605),
    (0x6dd, 0x6dd),
    (0x70f, 0x70f),
    (0x890, 0x891),
    (0x8e2, 0x8e2),
    (0x180e, 0x180e),
    (0x200b, 0x200d),
    (0x2060, 0x206f),
    (0xfeff, 0xfeff),
    (0xfff9, 0xfffb),
    (0x110bd, 0x110bd),
    (0x110cd, 0x110cd),
    (0x13430, 0x1343f),
    (0x1bca0, 0x1bca3),
    (0x1d173, 0x1d17a),
    (0xe0001, 0xe0001),
    (0xe0020, 0xe007f),
];

fn is_obeyed(c: char) -> bool {
    match c {
        '\n' | '\t' => false,
        // Marks, embeddings, overrides and isolates of direction; separators of lines and paragraphs.
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => true,
        _ => c.is_control(),
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;

    #[test]
    fn what_a_terminal_obeys_is_written_out() {
        let shown = |text| Printable(text).to_string();
        assert_eq!(shown("a\tb\nµ ∀ 核"), "a\tb\nµ ∀ 核");
        assert_eq!(shown("\0\r\u{8}\u{1b}]0;x\u{7}\u{7f}"), "\\u0000\\u000d\\u0008\\u001b]0;x\\u0007\\u007f");
        // A terminal with 8 bits takes this for an escape sequence, too.
        assert_eq!(shown("\u{9b}31m"), "\\u009b31m");
        assert_eq!(shown("k\u{202e}x\u{2066}y"), "k\\u202ex\\u2066y");
    }
}
