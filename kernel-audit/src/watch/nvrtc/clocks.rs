//! Finds out whether a text may tell the time at which it is compiled. What is not clear counts as if it did.

/// The macros that tell the time.
const CLOCKS: [&[u8]; 3] = [b"__DATE__", b"__TIME__", b"__TIMESTAMP__"];

/// Why a text may tell the time, if it may.
pub(super) fn tells_time(text: &[u8]) -> Option<String> {
    let text = spliced(text);
    if let Some(word) = CLOCKS.into_iter().find(|word| has(&text, word)) {
        return Some(format!("its text has `{}`", String::from_utf8_lossy(word)));
    }
    let pastes = ["##", "%:%:", "??=??="].iter().any(|mark| has(&text, mark.as_bytes()));
    let part = String::from_utf8_lossy(part_of_clock(&text).filter(|_| pastes)?);
    Some(format!("its text has `##`, and `{part}`, a part of a name such as `__TIME__`"))
}

/// Whether the value of an option, which may define macros, may tell the time together with a text that does not.
pub(super) fn option_tells_time(option: &[u8]) -> bool {
    let option = spliced(option);
    [b"##".as_slice(), b"%:%:", b"??="].iter().any(|mark| has(&option, mark))
        || part_of_clock(&option).is_some()
}

/// The text with lines joined that end with a backslash, or with its trigraph. A compiler may allow spaces after it.
fn spliced(text: &[u8]) -> Vec<u8> {
    let mut spliced = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((byte, after)) = rest.split_first() {
        let next = rest.strip_prefix(b"\\").or_else(|| rest.strip_prefix(b"??/")).and_then(|after| {
            let spaces = after.iter().take_while(|byte| matches!(byte, b' ' | b'\t' | b'\r')).count();
            after[spaces..].strip_prefix(b"\n")
        });
        rest = next.unwrap_or_else(|| {
            spliced.push(*byte);
            after
        });
    }
    spliced
}

/// The first identifier that macros may paste to one of the names that ask for a clock.
fn part_of_clock(text: &[u8]) -> Option<&[u8]> {
    let is_in_name = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    let is_part = |word: &&[u8]| {
        let ends = ["__TI", "__DA", "TIME__", "DATE__"];
        let has_letter = word.iter().any(u8::is_ascii_alphabetic);
        let is_inside = word.len() > 2 && has_letter && CLOCKS.iter().any(|name| has(name, word));
        is_inside || ends.iter().any(|end| has(word, end.as_bytes()))
    };
    text.split(|byte| !is_in_name(byte)).find(is_part)
}

/// Whether a text has a word in it.
fn has(text: &[u8], word: &[u8]) -> bool {
    let Some((first, rest)) = word.split_first() else { return false };
    let mut text = text;
    while let Some(at) = text.iter().position(|byte| byte == first) {
        text = &text[at + 1..];
        if text.starts_with(rest) {
            return true;
        }
    }
    false
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
        ] {
            assert!(tells_time(text.as_bytes()).is_some(), "{text}");
        }
        for text in [
            "",
            "#include HEADER",
            "#define ADD(a, b) \\\n  ((a) + (b))",
            "#define NAME(a, b) kernel_ ## a ## _ ## b\nint NAME(runtime, T);",
            "PASTE(__TI, ME__)",
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
