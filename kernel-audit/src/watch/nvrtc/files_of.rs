//! Finds out whether NVRTC may read a file, or a clock, when it compiles a program. What is not clear counts as if it did.

/// What the compiler reads besides a text and the headers that are passed with it.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Reads {
    Nothing,
    /// With the reason for that.
    Files(String),
}

/// Whether the compiler may read a file for this text. `is_header` says whether a header of this name is passed: NVRTC prefers such a header to a
/// file. Headers in angle brackets are searched in the folders of options only, and in NVRTC itself.
pub(super) fn reads(text: &[u8], is_header: &dyn Fn(&[u8]) -> bool) -> Reads {
    let text = spliced(text);
    for word in [b"__DATE__".as_slice(), b"__TIME__", b"__TIMESTAMP__"] {
        if find(&text, word, 0).is_some() {
            return Reads::Files(format!("its text has `{}`", String::from_utf8_lossy(word)));
        }
    }
    for directive in [b"include".as_slice(), b"embed"] {
        let mut from = 0;
        while let Some(at) = find(&text, directive, from) {
            from = at + directive.len();
            match included(&text[from..]) {
                Some((b'<', _)) if directive == b"include" => {}
                Some((b'"', name)) if directive == b"include" && is_header(name) => {}
                Some((_, name)) if directive == b"include" || is_directive(&text[..at]) => {
                    let name = String::from_utf8_lossy(name);
                    return Reads::Files(format!("it includes `{name}`, which is not among its headers"));
                }
                None if is_directive(&text[..at]) => {
                    return Reads::Files("what it includes is the result of a macro".to_owned());
                }
                _ => {}
            }
        }
    }
    Reads::Nothing
}

/// The text with lines joined that end with a backslash.
fn spliced(text: &[u8]) -> Vec<u8> {
    let mut spliced = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((byte, after)) = rest.split_first() {
        rest = match (byte, after) {
            (b'\\', [b'\n', after @ ..]) | (b'\\', [b'\r', b'\n', after @ ..]) => after,
            _ => {
                spliced.push(*byte);
                after
            }
        };
    }
    spliced
}

/// Where a word begins in a text, from this offset on.
fn find(text: &[u8], word: &[u8], from: usize) -> Option<usize> {
    let (first, rest) = word.split_first()?;
    let mut at = from;
    loop {
        at += text.get(at..)?.iter().position(|byte| byte == first)?;
        if text[at + 1..].starts_with(rest) {
            return Some(at);
        }
        at += 1;
    }
}

/// The name between quotes or angle brackets that follows a directive, and which of these it is.
fn included(text: &[u8]) -> Option<(u8, &[u8])> {
    let text = text.strip_prefix(b"_next").unwrap_or(text);
    let start = text.iter().position(|byte| !matches!(byte, b' ' | b'\t' | b'('))?;
    let end = match text[start] {
        b'<' => b'>',
        b'"' => b'"',
        _ => return None,
    };
    let name = &text[start + 1..];
    let length = name.iter().position(|byte| *byte == end || *byte == b'\n')?;
    Some((text[start], &name[..length]))
}

/// Whether a directive can end with what follows these bytes: there is a `#`, in one of its three spellings, or a `__has_`, in the same line.
fn is_directive(before: &[u8]) -> bool {
    let line = before.rsplit(|byte| *byte == b'\n').next().unwrap_or_default();
    ["#", "%:", "??=", "__has_"].iter().any(|mark| find(line, mark.as_bytes(), 0).is_some())
}

/// Whether an option may make the compiler read or write a file, by the words in its name.
pub(super) fn option_reads(option: &[u8]) -> bool {
    const WORDS: [&str; 11] =
        ["include", "pch", "file", "path", "dir", "cache", "dependency", "trace", "time", "keep", "output"];
    const NONE: [&str; 2] = ["no-source-include", "modify-stack-limit"];
    let text = String::from_utf8_lossy(option).to_ascii_lowercase();
    let (dashes, name) = (text.len() - text.trim_start_matches('-').len(), text.trim_start_matches('-'));
    let name = name.split(['=', ' ']).next().unwrap_or_default();
    if dashes == 0 || NONE.contains(&name) {
        // `@file` names a file of options. What has no dash is the value of the option before.
        return text.starts_with('@');
    }
    // `-D` is followed by any name.
    if option.starts_with(b"-D") || option.starts_with(b"-U") {
        return false;
    }
    option.starts_with(b"-I")
        || name.starts_with('m') && name.len() <= 2
        || WORDS.iter().any(|word| name.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_that_may_read_files_are_found() {
        let is_read = |text: &str| reads(text.as_bytes(), &|name| name == b"known.h") != Reads::Nothing;
        for text in [
            "#include \"other.h\"",
            "  #  include  \"other.h\"",
            "%:include \"other.h\"",
            "??=include \"other.h\"",
            "/* a comment */ #include \"other.h\"",
            "#inc\\\nlude \"other.h\"",
            "#inc\\\r\nlude \"other.h\"",
            "#include_next \"other.h\"",
            "#include HEADER",
            "#/* a comment */include HEADER",
            "#if __has_include(\"other.h\")\n#endif",
            "#if __has_include(HEADER)\n#endif",
            "#embed \"data\"",
            "int when = __TIME__[0];",
            "#include \"known.h\"\n#include \"other.h\"",
        ] {
            assert!(is_read(text), "{text}");
        }
        for text in [
            "",
            "#include \"known.h\"",
            "#include <cuda_fp16.h>",
            "#if __has_include(<cuda_fp16.h>)",
            "// it includes all\nint include = 1;",
            "__device__ int embedding;",
            "#define ADD(a, b) \\\n  ((a) + (b))\n#include \"known.h\"",
            "in",
            "include",
        ] {
            assert!(!is_read(text), "{text}");
        }
    }

    #[test]
    fn options_that_may_read_files_are_found() {
        for option in [
            "-I/usr/include",
            "-I",
            "--include-path=/x",
            "-include",
            "--pre-include=x.h",
            "-pch",
            "--pch-dir=x",
            "--use-pch=x",
            "--device-time-trace=x",
            "-time=x",
            "@options",
            "--options-file=x",
            "-MD",
        ] {
            assert!(option_reads(option.as_bytes()), "{option}");
        }
        for option in [
            "-arch=sm_90",
            "--gpu-architecture=compute_90",
            "-std=c++17",
            "-default-device",
            "--no-source-include",
            "-DFILE=1",
            "-D",
            "X=file",
            "-use_fast_math",
            "-lineinfo",
            "-Xptxas",
            "-v",
            "-dlto",
            "--maxrregcount=64",
            "-w",
            "-rdc=true",
            "--split-compile=0",
        ] {
            assert!(!option_reads(option.as_bytes()), "{option}");
        }
    }
}
