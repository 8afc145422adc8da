//! Finds the kernels of a PTX module in its text.
//!
//! A module can be split: a text with some of its kernels, and all of its functions and declarations, is a
//! module again. `kernel-registry-image` says whether its kernels work without each other.

pub mod lexer;

use core::fmt;
use core::iter::once;
use core::ops::Range;

use lexer::{Kind, Lexer, opaque_length};

/// A kernel in the text of a module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kernel<'a> {
    /// The kernel's name.
    pub name: &'a str,
    /// The kernel's bytes in the text, with the comments and directives in front of it.
    pub range: Range<usize>,
}

/// The error for a text that isn't a PTX module in which all kernels have a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MalformedPtx {
    /// The offset in bytes at which the text becomes malformed.
    pub offset: usize,
}

/// Returns major and minor version of the PTX language, from the line `.version 8.0`.
///
/// ```
/// assert_eq!(kernel_registry_cuda::ptx::version(b"//\n.version 8.4\n.target sm_75\n"), Some((8, 4)));
/// ```
pub fn version(text: &[u8]) -> Option<(u16, u16)> {
    let line = text.split(|byte| *byte == b'\n').find_map(|line| line.strip_prefix(b".version "))?;
    let (major, minor) = str::from_utf8(line).ok()?.trim().split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// Iterates over the kernels of a module, in order. The text ends at a zero byte, if there is one. An error
/// ends the iteration.
///
/// ```
/// let text = b".version 8.0 .target sm_80 .entry a() { ret; } .entry b() { { ret; } }";
/// let names: Vec<_> = kernel_registry_cuda::ptx::kernels(text).map(|kernel| kernel.unwrap().name).collect();
/// assert_eq!(names, ["a", "b"]);
/// ```
pub fn kernels(text: &[u8]) -> Kernels<'_> {
    Kernels { text, at: 0 }
}

/// Leaves kernels out of a module. Returns the remaining parts of the text; joined, they are a module again.
/// `kernels` are all kernels of the text, and `keep` says by a kernel's index whether it stays.
pub fn cut<'t>(
    text: &'t [u8],
    kernels: &'t [Kernel<'_>],
    keep: impl Fn(usize) -> bool + 't,
) -> impl Iterator<Item = &'t [u8]> {
    let end = kernels.last().map_or(0, |last| last.range.end);
    let rest = text.get(end..).unwrap_or_default();
    let end = end + rest.iter().position(|byte| *byte == 0).unwrap_or(rest.len());
    let left_out = kernels.iter().enumerate().filter(move |(number, _)| !keep(*number));
    let mut from = 0;
    left_out.map(|(_, kernel)| kernel.range.clone()).chain(once(end..end)).flat_map(move |range| {
        let part = text.get(from..range.start).unwrap_or_default();
        from = range.end;
        // The line break separates the tokens on both sides.
        [part, b"\n"]
    })
}

/// The iterator that [`kernels`] returns.
#[derive(Clone, Debug)]
pub struct Kernels<'a> {
    text: &'a [u8],
    at: usize,
}

/// A token of a module's text, outside of braces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token<'a> {
    Word(&'a [u8]),
    Punct(u8),
}

impl<'a> Iterator for Kernels<'a> {
    type Item = Result<Kernel<'a>, MalformedPtx>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.kernel();
        if let Err(MalformedPtx { .. }) = next {
            self.text = &[];
        }
        next.transpose()
    }
}

impl<'a> Kernels<'a> {
    fn kernel(&mut self) -> Result<Option<Kernel<'a>>, MalformedPtx> {
        // Where the linkage directives in front of `.entry` begin.
        let mut linkage = None;
        loop {
            let before = self.at;
            match self.token()? {
                None => return Ok(None),
                Some(Token::Word(b".entry")) => {
                    let name = self.name()?;
                    self.body()?;
                    return Ok(Some(Kernel { name, range: linkage.unwrap_or(before)..self.at }));
                }
                Some(Token::Word(b".visible" | b".weak")) => {
                    linkage.get_or_insert(before);
                    continue;
                }
                Some(Token::Punct(b'{')) => self.skip_block()?,
                Some(Token::Punct(b'}')) => return Err(self.malformed()),
                Some(_) => {}
            }
            linkage = None;
        }
    }

    fn name(&mut self) -> Result<&'a str, MalformedPtx> {
        match self.token()? {
            Some(Token::Word(name)) => core::str::from_utf8(name).map_err(|_| self.malformed()),
            _ => Err(self.malformed()),
        }
    }

    /// Skips the directives after a kernel's name, and its body.
    fn body(&mut self) -> Result<(), MalformedPtx> {
        loop {
            match self.token()? {
                Some(Token::Punct(b'{')) => return self.skip_block(),
                // A directive such as `.pragma "nounroll";`, whose string isn't a token.
                Some(Token::Word(b".pragma")) => match self.token()? {
                    Some(Token::Punct(b';')) => {}
                    _ => return Err(self.malformed()),
                },
                // The kernel is only declared.
                None | Some(Token::Punct(b';' | b'}')) => return Err(self.malformed()),
                Some(_) => {}
            }
        }
    }

    /// Returns the next token, skipping blanks, comments and strings.
    fn token(&mut self) -> Result<Option<Token<'a>>, MalformedPtx> {
        loop {
            let Some(next) = Lexer::new(self.text, self.at).next() else {
                self.at = self.text.len();
                return Ok(None);
            };
            self.at = next.range.start;
            match next.kind {
                Kind::Text => self.skip_text()?,
                Kind::Word => {
                    self.at = next.range.end;
                    return Ok(Some(Token::Word(&self.text[next.range])));
                }
                Kind::Sign(0) => return Ok(None),
                Kind::Sign(sign) if sign.is_ascii_punctuation() => {
                    self.at = next.range.end;
                    return Ok(Some(Token::Punct(sign)));
                }
                Kind::Sign(_) | Kind::Open => return Err(self.malformed()),
            }
        }
    }

    /// Skips the text up to the brace that closes an open one. Most of a module is skipped here.
    fn skip_block(&mut self) -> Result<(), MalformedPtx> {
        let mut depth = 1_u32;
        while depth > 0 {
            self.at += find_special(self.rest()).ok_or_else(|| self.malformed())?;
            match self.rest().first() {
                Some(b'{') => depth += 1,
                Some(b'}') => depth -= 1,
                Some(b'"' | b'/') => {
                    self.skip_text()?;
                    continue;
                }
                _ => return Err(self.malformed()),
            }
            self.at += 1;
        }
        Ok(())
    }

    /// Skips a string or a comment, or a lone slash. ptxas has no escapes, so a string with a backslash is an
    /// error.
    fn skip_text(&mut self) -> Result<(), MalformedPtx> {
        let rest = self.rest();
        let length = opaque_length(rest).ok_or_else(|| self.malformed())?.max(1);
        if rest.starts_with(b"\"") && rest[..length].iter().any(|byte| matches!(byte, b'\\' | b'\n')) {
            return Err(self.malformed());
        }
        self.at += length;
        Ok(())
    }

    fn rest(&self) -> &'a [u8] {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn malformed(&self) -> MalformedPtx {
        MalformedPtx { offset: self.at }
    }
}

/// Returns the offset of the first byte that matters within braces. Searching chunk by chunk lets the
/// compiler vectorize the loop.
fn find_special(text: &[u8]) -> Option<usize> {
    let is_special = |byte: &u8| matches!(byte, b'{' | b'}' | b'"' | b'/' | 0);
    let mut chunks = text.chunks(32);
    let at = chunks.position(|chunk| chunk.iter().fold(false, |found, byte| found | is_special(byte)))? * 32;
    text[at..].iter().position(is_special).map(|within| at + within)
}

impl fmt::Display for MalformedPtx {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the text is not that of a module with kernels, from byte {} on", self.offset)
    }
}

impl core::error::Error for MalformedPtx {}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::string::{String, ToString};
    use std::vec::Vec;

    use super::*;

    const MODULE: &str = r#"
// Generated { by "something
.version 8.0
.target sm_80, debug
.address_size 64
.file 1 "a{b.cu"
.extern .func (.param .b32 r) vprintf (.param .b64 a);
.global .align 1 .b8 $str[3] = {1, 2, 0};
	// .globl	first
.visible .entry first(
	.param .u64 p /* } */
)
.maxntid 128, 1, 1
.pragma "nounroll";
{
	.reg .b32 %r<2>; // }
	{ // begin inline asm
	mul.lo.s32 %r1, %r1, 8/4;
	}
	ld.global.v2.u32 {%r0, %r1}, [%rd1];
	ret;
}
.func helper() { ret; }
.weak .entry _Z6secondIfEvv() { ret; }.entry third{ret;}
.section .debug_str { $L: .b8 95, 0 }
"#;

    fn read(text: &str) -> Result<Vec<(String, String)>, MalformedPtx> {
        let kernels = kernels(text.as_bytes());
        kernels.map(|kernel| kernel.map(|k| (k.name.to_string(), text[k.range].to_string()))).collect()
    }

    #[test]
    fn a_kernel_includes_the_comments_and_directives_before_it() {
        let kernels = read(MODULE).unwrap();
        let names: Vec<_> = kernels.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["first", "_Z6secondIfEvv", "third"]);
        assert!(kernels[0].1.starts_with("\n\t// .globl\tfirst\n.visible .entry first("), "{kernels:?}");
        assert!(kernels[0].1.ends_with("ret;\n}"), "{kernels:?}");
        assert_eq!(kernels[1].1, "\n.weak .entry _Z6secondIfEvv() { ret; }");
        assert_eq!(kernels[2].1, ".entry third{ret;}");
    }

    #[test]
    fn leaving_out_kernels_keeps_the_rest_of_the_module() {
        let all: Vec<_> = kernels(MODULE.as_bytes()).map(Result::unwrap).collect();
        let piece = |keep: &[usize]| {
            let text = MODULE.to_string() + "\0more";
            let parts: Vec<_> = cut(text.as_bytes(), &all, |number| keep.contains(&number)).collect();
            String::from_utf8(parts.concat()).unwrap()
        };
        assert_eq!(piece(&[0, 1, 2]), MODULE.to_string() + "\n");
        let rest = piece(&[]);
        assert_eq!(read(&rest), Ok(Vec::new()));
        assert!(rest.contains("vprintf") && rest.contains("helper") && rest.contains(".debug_str"), "{rest}");
        for (kept, kernel) in all.iter().enumerate() {
            let names: Vec<_> = read(&piece(&[kept])).unwrap().into_iter().map(|(name, _)| name).collect();
            assert_eq!(names, [kernel.name]);
        }
        let close = b".address_size 64.entry a(){}.func b(){}";
        let close_kernels = [Kernel { name: "a", range: 16..28 }];
        let parts: Vec<_> = cut(close, &close_kernels, |_| false).collect();
        assert_eq!(parts.concat(), b".address_size 64\n.func b(){}\n");
    }

    #[test]
    fn a_zero_ends_the_text() {
        let ended = MODULE.to_string() + "\0.entry more() { ret; }";
        assert_eq!(read(&ended), read(MODULE));
    }

    #[test]
    fn malformed_texts_are_errors() {
        for text in [
            "}",
            ".entry",
            ".entry ;",
            ".entry a",
            ".entry a();",
            ".entry a() {",
            ".entry a() { { ret; }",
            ".entry a() { \" }",
            ".entry a() { /* }",
            ".entry a() { // }",
            ".entry a() { \0 }",
            ".entry a() { // \0 \n }",
            ".entry a() .pragma x; { }",
            ".file 1 \"a\\\" .entry b() {}\"",
            ".global .b8 x = {1, 2",
            "/* .entry a() {}",
            ".visible \u{e9} .entry a() {}",
        ] {
            assert!(read(text).is_err(), "{text}");
        }
        assert_eq!(read(""), Ok(Vec::new()));
    }

    /// A text that is cut off anywhere yields the kernels before the cut, or an error.
    #[test]
    fn texts_that_are_cut_off() {
        let whole = read(MODULE).unwrap();
        for end in 0..MODULE.len() {
            if let Ok(kernels) = read(&MODULE[..end]) {
                assert_eq!(kernels, whole[..kernels.len()], "{end}");
            }
        }
    }

    #[test]
    fn damaged_texts_end() {
        let mut text = MODULE.as_bytes().to_vec();
        for at in 0..text.len() {
            for byte in *b"{}\"/*\\;.\0\xff" {
                let was = core::mem::replace(&mut text[at], byte);
                assert!(kernels(&text).count() <= 5);
                text[at] = was;
            }
        }
    }
}
