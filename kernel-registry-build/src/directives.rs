//! Parses the preprocessor directives that name headers: `#include`, `__has_include`, and `#define` for
//! macros that name one.

/// How a directive names a header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Header {
    /// `"name"`
    Quoted(String),
    /// `<name>`
    Angled(String),
    /// A macro without arguments. It may be defined as any of the others.
    Macro(String),
    /// Anything else, like the call of a macro.
    Other,
}

/// A directive that makes the image depend on a header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Include {
    pub(crate) header: Header,
    /// Whether the directive is `#include_next`, which skips the first header of that name.
    pub(crate) next: bool,
    /// The directive as it is written, on one line.
    pub(crate) text: String,
}

/// The directives of a text. Conditions are ignored.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Directives {
    pub(crate) includes: Vec<Include>,
    /// Macros without parameters, and how they would name a header.
    pub(crate) macros: Vec<(String, Header)>,
}

/// The operator that asks whether there is a header.
const HAS_INCLUDE: &str = "__has_include";

impl Directives {
    /// Finds the directives line by line, so that a misread quote or comment can't hide the rest of the file.
    /// As a side effect, a directive inside a multi-line comment counts too.
    pub(crate) fn parse(text: &str) -> Self {
        let mut found = Directives::default();
        let text = text.replace("\\\r\n", "").replace("\\\n", "").replace("%:", "#");
        for (line, directive) in text.lines().flat_map(|line| bodies(line).map(move |body| (line, body))) {
            let (word, rest) = identifier(blank(directive));
            match word {
                "include" | "include_next" => found.includes.push(Include {
                    header: Header::parse(rest),
                    next: word == "include_next",
                    text: line.trim().to_owned(),
                }),
                "if" | "elif" => {
                    found.includes.extend(find_has_includes(rest).map(|(header, next)| Include {
                        header,
                        next,
                        text: line.trim().to_owned(),
                    }))
                }
                "define" => {
                    let (name, value) = identifier(blank(rest));
                    // A parenthesis without a space before it begins parameters.
                    if !name.is_empty() && !value.starts_with('(') {
                        found.macros.push((name.to_owned(), Header::parse(value)));
                    }
                }
                _ => {}
            }
        }
        found
    }
}

impl Header {
    /// Parses the text after `#include`, or the value of a macro.
    pub(crate) fn parse(text: &str) -> Self {
        let text = blank(text);
        let until = |end| text[1..].split_once(end).map(|(name, _)| name.to_owned());
        let header = match text.chars().next() {
            Some('"') => until('"').map(Header::Quoted),
            Some('<') => until('>').map(Header::Angled),
            _ => {
                let (name, rest) = identifier(text);
                let rest = blank(rest);
                let alone = !name.is_empty() && (rest.is_empty() || rest.starts_with("//"));
                alone.then(|| Header::Macro(name.to_owned()))
            }
        };
        header.unwrap_or(Header::Other)
    }
}

/// Returns the text after each `#` that can begin a directive. Only spaces and the end of a comment may
/// precede the `#`.
fn bodies(line: &str) -> impl Iterator<Item = &str> {
    line.match_indices('#').filter_map(|(at, _)| {
        let before = line[..at].rsplit("*/").next().unwrap_or_default();
        blank(before).is_empty().then(|| &line[at + 1..])
    })
}

/// Finds the headers of `__has_include` in a condition.
fn find_has_includes(condition: &str) -> impl Iterator<Item = (Header, bool)> {
    condition.match_indices(HAS_INCLUDE).filter_map(|(at, name)| {
        let rest = &condition[at + name.len()..];
        let next = rest.strip_prefix("_next");
        let header = blank(next.unwrap_or(rest)).strip_prefix('(')?;
        // A quoted name may contain a parenthesis, a macro's name can't.
        let header = match Header::parse(header) {
            Header::Other => Header::parse(header.split(')').next()?),
            header => header,
        };
        Some((header, next.is_some()))
    })
}

/// Removes spaces and comments at the beginning.
fn blank(text: &str) -> &str {
    let text = text.trim_start();
    match text.strip_prefix("/*").and_then(|comment| comment.split_once("*/")) {
        Some((_, rest)) => blank(rest),
        None => text,
    }
}

/// Splits a text into the identifier that it begins with, and the rest.
fn identifier(text: &str) -> (&str, &str) {
    let part = |c: char| c.is_alphanumeric() || c == '_';
    let digit = text.starts_with(|c: char| c.is_ascii_digit());
    text.split_at(if digit { 0 } else { text.find(|c| !part(c)).unwrap_or(text.len()) })
}

#[cfg(test)]
mod tests {
    use super::Header::{Angled, Macro, Other, Quoted};
    use super::*;

    fn headers(text: &str) -> Vec<Header> {
        Directives::parse(text).includes.into_iter().map(|include| include.header).collect()
    }

    #[test]
    fn names_are_read_however_they_are_written() {
        let quoted = [Quoted("h.h".to_owned())];
        for text in [
            "#include \"h.h\"",
            "  #  include\t\"h.h\" // more",
            "#inc\\\nlude \\\r\n\"h.h\"",
            "%:include \"h.h\"",
            "/* a # \n b */ # /* c */ include /**/ \"h.h\"",
            "#include_next \"h.h\"",
            "#if defined(__has_include) && __has_include ( \"h.h\" )",
            "#elif __has_include_next(\"h.h\")",
            "const char* s = R\"(\n/*)\";\n#include \"h.h\"",
        ] {
            assert_eq!(headers(text), quoted, "{text}");
        }
        assert_eq!(headers("#include <a/b.h>"), [Angled("a/b.h".to_owned())]);
        assert_eq!(headers("#include HEADER // of the board"), [Macro("HEADER".to_owned())]);
        assert_eq!(headers("#if __has_include(HEADER)"), [Macro("HEADER".to_owned())]);
        assert_eq!(headers("#include STR(h.h)\n#include\n#include <\n#include /*\n"), vec![Other; 4]);
        let none = "// #include \"a.h\"\nint include; # \"b.h\"\n#included \"c.h\"\n#ifdef __has_include\n";
        assert_eq!(headers(none), []);
    }

    #[test]
    fn macros_are_read() {
        let text =
            "#define A \"a.h\"\n# define B <b.h>\n#define C A\n#define D(x) #x\n#define E\n#define F 3\n";
        let (a, b, c) = (Quoted("a.h".to_owned()), Angled("b.h".to_owned()), Macro("A".to_owned()));
        let expected = [("A", a), ("B", b), ("C", c), ("E", Other), ("F", Other)];
        assert_eq!(Directives::parse(text).macros, expected.map(|(name, header)| (name.to_owned(), header)));
    }
}
