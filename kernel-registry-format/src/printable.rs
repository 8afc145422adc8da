//! Makes text from a binary, an image, a driver or a compiler safe to show in a terminal.

use core::fmt;

/// Text whose `Display` escapes each character that a terminal would obey instead of show, as in `\u001b`:
/// control characters except newline and tab, and characters that change the direction of text. Inside a JSON
/// string, the escapes mean the original characters.
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

/// Returns whether a character controls how text is shown: line breaks, escape sequences, changes of
/// direction, and Unicode's format characters, which are invisible. Readers of images and of the index refuse
/// names with such characters.
///
/// ```
/// use kernel_registry_format::is_control;
///
/// assert!("\n\t\u{1b}\u{7f}\u{9b}\u{2028}\u{202e}\u{200b}".chars().all(is_control));
/// assert!(!"_Z5naïve名 🦀".chars().any(is_control));
/// ```
pub fn is_control(c: char) -> bool {
    match c {
        // Unicode's format characters, except for changes of direction.
        '\u{ad}' | '\u{6dd}' | '\u{70f}' | '\u{8e2}' | '\u{180e}' | '\u{feff}' => true,
        '\u{600}'..='\u{605}' | '\u{890}'..='\u{891}' | '\u{200b}'..='\u{200d}' => true,
        '\u{2060}'..='\u{206f}' | '\u{fff9}'..='\u{fffb}' | '\u{13430}'..='\u{1343f}' => true,
        '\u{110bd}' | '\u{110cd}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' => true,
        '\u{e0001}' | '\u{e0020}'..='\u{e007f}' => true,
        _ => c.is_control() || is_obeyed(c),
    }
}

/// Returns whether a terminal obeys a character instead of showing it.
fn is_obeyed(c: char) -> bool {
    match c {
        '\n' | '\t' => false,
        // Characters that mark, embed, override or isolate a direction; separators of lines and paragraphs.
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => true,
        _ => c.is_control(),
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;

    #[test]
    fn characters_that_a_terminal_obeys_are_escaped() {
        let shown = |text| Printable(text).to_string();
        assert_eq!(shown("a\tb\nµ ∀ 核"), "a\tb\nµ ∀ 核");
        assert_eq!(shown("\0\r\u{8}\u{1b}]0;x\u{7}\u{7f}"), "\\u0000\\u000d\\u0008\\u001b]0;x\\u0007\\u007f");
        // An 8-bit terminal reads this as an escape sequence too.
        assert_eq!(shown("\u{9b}31m"), "\\u009b31m");
        assert_eq!(shown("k\u{202e}x\u{2066}y"), "k\\u202ex\\u2066y");
    }
}
