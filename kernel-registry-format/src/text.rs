//! Characters that text from files must not bring onto a terminal, or into code.

/// The format characters of Unicode, which are not shown, or change the order in which others are shown; with the two
/// separators that end a line.
const FORMATS: [(u32, u32); 20] = [
    (0xad, 0xad),
    (0x600, 0x605),
    (0x61c, 0x61c),
    (0x6dd, 0x6dd),
    (0x70f, 0x70f),
    (0x890, 0x891),
    (0x8e2, 0x8e2),
    (0x180e, 0x180e),
    (0x200b, 0x200f),
    (0x2028, 0x202e),
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

/// Whether a character controls how text is shown: line breaks, escape sequences, directions. Names have none.
///
/// ```
/// use kernel_registry_format::text::is_control;
///
/// assert!("\n\t\u{1b}\u{7f}\u{9b}\u{2028}\u{202e}\u{200b}".chars().all(is_control));
/// assert!(!"_Z5naïve名 🦀".chars().any(is_control));
/// ```
pub fn is_control(c: char) -> bool {
    let number = u32::from(c);
    c.is_control() || FORMATS.iter().any(|(first, last)| (*first..=*last).contains(&number))
}
