//! Finds out whether a text may tell the time at which it is compiled. What is not clear counts as if it did.

use std::borrow::Cow;

use memchr::{memchr2_iter, memmem};

/// The macros that tell the time.
const CLOCKS: [&[u8]; 3] = [b"__DATE__", b"__TIME__", b"__TIMESTAMP__"];

/// Parts of these names by which a longer part is known.
const ENDS: [&[u8]; 4] = [b"__TI", b"__DA", b"TIME__", b"DATE__"];
/// The characters of these names.
const CHARACTERS: &[u8] = b"_DATEIMSP";

/// Why a text may tell the time, if it may.
pub(super) fn tells_time(text: &[u8]) -> Option<String> {
    let text = &*joined(text);
    if let Some(word) = CLOCKS.into_iter().find(|word| has(text, word)) {
        return Some(format!("its text has `{}`", String::from_utf8_lossy(word)));
    }
    let pastes = ["##", "%:%:", "??=??="].iter().any(|mark| has(text, mark.as_bytes()));
    let part = if pastes { part_of_clock(text) } else { None };
    let part = String::from_utf8_lossy(part?);
    Some(format!("its text has `##`, and `{part}`, a part of a name such as `__TIME__`"))
}

/// Whether the value of an option, which may define macros, may tell the time together with a text that does not.
pub(super) fn option_tells_time(option: &[u8]) -> bool {
    let option = &*joined(option);
    [b"##".as_slice(), b"%:%:", b"??="].iter().any(|mark| has(option, mark))
        || part_of_clock(option).is_some()
}

/// The text with lines joined that end with a backslash, or with its trigraph. A compiler may allow spaces after it.
fn joined(text: &[u8]) -> Cow<'_, [u8]> {
    let end_of = |at: usize| {
        let after = text[at..].strip_prefix(b"\\").or_else(|| text[at..].strip_prefix(b"??/"))?;
        let spaces = after.iter().take_while(|byte| matches!(byte, b' ' | b'\t' | b'\r')).count();
        Some(text.len() - after[spaces..].strip_prefix(b"\n")?.len())
    };
    let (mut joined, mut from) = (Vec::new(), 0);
    for at in memchr2_iter(b'\\', b'?', text) {
        if let Some(end) = end_of(at) {
            joined.extend_from_slice(&text[from..at]);
            from = end;
        }
    }
    if from == 0 {
        return Cow::Borrowed(text);
    }
    joined.extend_from_slice(&text[from..]);
    Cow::Owned(joined)
}

/// A part of an identifier that macros may paste to one of the names that ask for a clock.
fn part_of_clock(text: &[u8]) -> Option<&[u8]> {
    if let Some(end) = ENDS.into_iter().find(|end| has(text, end)) {
        return Some(end);
    }
    let is_in_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    // Such an identifier has one of these letters.
    let letters = [(b'T', b'A'), (b'M', b'D'), (b'E', b'P')];
    let mut places = letters.into_iter().flat_map(|(one, other)| memchr2_iter(one, other, text));
    places.find_map(|at| {
        let before = text[..at].iter().rev().take_while(|byte| is_in_name(**byte));
        let after = text[at..].iter().take_while(|byte| is_in_name(**byte));
        let is_of_clock = |byte: &&u8| CHARACTERS.contains(byte);
        if !before.clone().all(|byte| is_of_clock(&byte)) || !after.clone().all(|byte| is_of_clock(&byte)) {
            return None;
        }
        let word = &text[at - before.count()..at + after.count()];
        (word.len() > 2 && CLOCKS.iter().any(|name| has(name, word))).then_some(word)
    })
}

/// Whether a text has a word in it.
fn has(text: &[u8], word: &[u8]) -> bool {
    memmem::find(text, word).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_that_may_tell_the_time_are_found() {
        for text in [
            "int when = __TIME__[0];",
            "int when = __TI\\\nME__[0];",
            "int when = __DA\\ \t\r\nTE__[0];",
            "int when = __TI??/\nMESTAMP__[0];",
            "#define PASTE(a, b) a ## b\nPASTE(__TI, ME__)",
            "#define PASTE(a) __T ## a\nPASTE(IME__)",
            "#define DAY(a) _ ## a\nDAY(_DATE__)",
            "#define PASTE(a, b) a %:%: b\nPASTE(__TI, ME__)",
            "#define PASTE(a, b, c, d) a ## b ## c ## d\nPASTE(__, DA, T, E__)",
        ] {
            assert!(tells_time(text.as_bytes()).is_some(), "{text}");
        }
        for text in [
            "",
            "#include HEADER",
            "#define ADD(a, b) \\\n  ((a) + (b))",
            "#define NAME(a, b) kernel_ ## a ## _ ## b\nint NAME(runtime, T);",
            "PASTE(__TI, ME__)",
            "#define AT(a) a ## _AT\nAT(DIM) AM",
            "what? /\nis\\n a ?? backslash \\",
        ] {
            assert_eq!(tells_time(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn options_that_may_tell_the_time_are_found() {
        for option in ["-DX=__TIME__", "-DX=__TI", "-DX(a)=a##ME", "X=__DATE__", "-DX=1\n__TI\\\nME__"] {
            assert!(option_tells_time(option.as_bytes()), "{option}");
        }
        for option in ["-arch=sm_90", "-I/usr/include", "-DNAME(a)=kernel(a)", "--define-macro=N=4", "-D"] {
            assert!(!option_tells_time(option.as_bytes()), "{option}");
        }
    }
}
