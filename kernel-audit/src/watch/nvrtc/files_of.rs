//! Finds out whether NVRTC may read a file, or a clock, when it compiles a program. What is not clear counts as if it did.

/// What the compiler reads besides a text and the headers that are passed with it.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Reads {
    Nothing,
    /// With the reason for that.
    Files(String),
}

/// The macros that tell the time.
const CLOCKS: [&[u8]; 3] = [b"__DATE__", b"__TIME__", b"__TIMESTAMP__"];
/// The operators that ask for a file.
const ASKS: [&[u8]; 2] = [b"__has_include", b"__has_embed"];

/// Whether the compiler may read a file for this text. `is_header` says whether a header of this name is passed: NVRTC prefers such a header to a
/// file. Headers in angle brackets are searched in the folders of options only, and in NVRTC itself.
pub(super) fn reads(text: &[u8], is_header: &dyn Fn(&[u8]) -> bool) -> Reads {
    let text = spliced(text);
    if let Some(word) = CLOCKS.into_iter().find(|word| find(&text, word, 0).is_some()) {
        return Reads::Files(format!("its text has `{}`", String::from_utf8_lossy(word)));
    }
    let pastes = ["##", "%:%:", "??=??="].iter().any(|mark| find(&text, mark.as_bytes(), 0).is_some());
    if let Some(part) = part_of_name(&text).filter(|_| pastes) {
        let part = String::from_utf8_lossy(part);
        return Reads::Files(format!("its text has `##`, and `{part}`, a part of a name such as `__TIME__`"));
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

/// The first identifier that macros may paste to one of the names that ask for a clock or a file.
fn part_of_name(text: &[u8]) -> Option<&[u8]> {
    let is_in_name = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    let is_part = |word: &&[u8]| {
        let ends = ["__TI", "__DA", "TIME__", "DATE__"];
        let has_letter = word.iter().any(u8::is_ascii_alphabetic);
        let is_clocks =
            word.len() > 2 && has_letter && CLOCKS.iter().any(|name| find(name, word, 0).is_some());
        is_clocks
            || ends.iter().any(|end| find(word, end.as_bytes(), 0).is_some())
            || word.starts_with(b"__has_") && ASKS.iter().any(|name| name != word && name.starts_with(word))
    };
    text.split(|byte| !is_in_name(byte)).find(is_part)
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

/// Whether a directive can end with what follows these bytes: there is a `#`, in one of its three spellings, or a `__has_`, in the same line, or right
/// before, but for comments of any number of lines.
fn is_directive(before: &[u8]) -> bool {
    const MARKS: [&str; 4] = ["#", "%:", "??=", "__has_"];
    let line = before.rsplit(|byte| *byte == b'\n').next().unwrap_or_default();
    if MARKS.iter().any(|mark| find(line, mark.as_bytes(), 0).is_some()) {
        return true;
    }
    let ends_with_mark = |text: &[u8]| MARKS.iter().any(|mark| text.ends_with(mark.as_bytes()));
    let mut rest = before.trim_ascii_end();
    while let Some(comment) = rest.strip_suffix(b"*/") {
        // A comment can have `/*` in it, and then it is not known here where the comment begins.
        let from = comment.windows(2).rposition(|end| end == b"*/").map_or(0, |end| end + 2);
        let begins = (from..comment.len()).filter(|at| comment[*at..].starts_with(b"/*"));
        let mut befores = begins.map(|at| comment[..at].trim_ascii_end());
        let Some(first) = befores.next() else { return true };
        if ends_with_mark(first) || befores.any(ends_with_mark) {
            return true;
        }
        // With something else before it, it is no directive.
        rest = if first.len() <= from { first } else { b"" };
    }
    ends_with_mark(rest)
}

/// The first of the options that may make the compiler read or write a file, or read a clock.
pub(super) fn reading_option<'a>(options: &[&'a [u8]]) -> Option<&'a [u8]> {
    let mut is_value = false;
    options.iter().copied().find(|option| {
        let was_value = is_value;
        is_value = matches!(option.trim_ascii(), b"-D" | b"-define-macro" | b"--define-macro");
        option_reads(option) || was_value && definition_reads(option)
    })
}

/// Whether an option may make the compiler read or write a file, by the words in its name. A text can hold several options.
fn option_reads(option: &[u8]) -> bool {
    let mut words = option.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    let name_of = |word: &[u8]| word.split(|byte| *byte == b'=').next().unwrap_or_default().to_owned();
    let is_definition = |word: &[u8]| word.starts_with(b"-D") || name_of(word).ends_with(b"-define-macro");
    let defines = words.clone().any(is_definition);
    defines && definition_reads(option) || words.any(word_reads)
}

/// Whether a macro of this definition may lead the compiler to a file or a clock.
fn definition_reads(definition: &[u8]) -> bool {
    let text = spliced(definition);
    let has = |word: &&[u8]| find(&text, word, 0).is_some();
    [b"include".as_slice(), b"embed", b"##", b"%:%:", b"??="].iter().any(has) || part_of_name(&text).is_some()
}

fn word_reads(word: &[u8]) -> bool {
    const WORDS: [&str; 13] = [
        "include",
        "header",
        "pch",
        "file",
        "path",
        "dir",
        "cache",
        "dependency",
        "trace",
        "time",
        "keep",
        "output",
        "optf",
    ];
    const NONE: [&str; 2] = ["no-source-include", "modify-stack-limit"];
    let text = String::from_utf8_lossy(word).to_ascii_lowercase();
    let (dashes, all) = (text.len() - text.trim_start_matches('-').len(), text.trim_start_matches('-'));
    let name = all.split('=').next().unwrap_or_default();
    if dashes == 0 || NONE.contains(&name) {
        // `@file` names a file of options. What has no dash is the value of the option before.
        return text.starts_with('@');
    }
    // `-D` is followed by any name.
    if word.starts_with(b"-D") || word.starts_with(b"-U") {
        return false;
    }
    // These have options of another program in their values.
    let hands_on = name.contains("ptxas") || name.contains("nvvm");
    let looked_at = if hands_on { all } else { name };
    word.starts_with(b"-I")
        || name.starts_with('m') && name.len() <= 2
        || WORDS.iter().any(|word| looked_at.contains(word))
        || hands_on && word.split(|byte| matches!(byte, b'=' | b',')).any(|option| option == b"-o")
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
            "#inc??/\nlude \"other.h\"",
            "#inc\\ \t\nlude \"other.h\"",
            "# /*\n*/ include HEADER",
            "# /*\n*/ include \"other.h\"",
            "%: /* one */ /*\n*/ include HEADER",
            "# /* /*\n*/ include HEADER",
            "??= /* a *\n * b */\t/**/ embed \"data\"",
            "#define PASTE(a, b) a ## b\nPASTE(__TI, ME__)",
            "#define PASTE(a) __T ## a\nPASTE(IME__)",
            "#define DAY(a) _ ## a\nDAY(_DATE__)",
            "#define PASTE(a, b) a %:%: b\n#if PASTE(__has_inc, lude)(HEADER)",
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
            "#define NAME(a, b) kernel_ ## a ## _ ## b\nint NAME(runtime, T);",
            "int a; // its value\n/* what is */ include = 1;",
            "PASTE(__TI, ME__)",
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
            " -Id",
            "\t-Id ",
            "-w -Id",
            "-DX=__TIME__",
            "-DX=__TI",
            "-DX(a)=a##ME",
            "--define-macro=X=__DATE__",
            "-define-macro=X=include",
            "-D X=embed",
            "-DX=1\n#inc\\\nlude HEADER",
            "--ptxas-options=--options-file=zz",
            "-Xptxas=--output-file=zz",
            "-Xptxas=-v,-o=zz",
            "--ptxas-options=-optf=zz",
            "--use-bundled-headers=d",
        ] {
            assert_eq!(reading_option(&[b"-w", option.as_bytes()]), Some(option.as_bytes()), "{option}");
        }
        for define in ["-D", " -D", "--define-macro"] {
            let options = [define.as_bytes(), b"X=__TIME__"];
            assert_eq!(reading_option(&options), Some(options[1]), "{define}");
            assert_eq!(reading_option(&[define.as_bytes(), b"X=1", b"__TIME__"]), None, "{define}");
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
            " -w ",
            "--define-macro=N=4",
            "-DNAME(a)=kernel(a)",
            "--ptxas-options=-v,-O3",
            "-Xptxas=-dlcm=ca",
        ] {
            assert_eq!(reading_option(&[option.as_bytes()]), None, "{option}");
        }
    }
}
