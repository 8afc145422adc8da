//! The key of a program's result: a digest of all that the result depends on. A program that may read a file has none.

use std::env;
use std::os::unix::ffi::OsStrExt;

use super::files_of::{Reads, reading_option, reads};
use crate::kept::{Digest, Hasher};

/// What a program is made of, before it is compiled. The texts themselves are not kept.
#[derive(Clone)]
pub(super) struct Parts {
    hasher: Hasher,
    /// The name that its author gave it, if any.
    pub(super) name: Option<String>,
    /// The length of the text.
    pub(super) length: u64,
    /// Names that the program will ask for.
    pub(super) names: Vec<Vec<u8>>,
    /// Why its results cannot be kept.
    reads: Option<String>,
}

impl Parts {
    pub(super) fn new(text: &[u8], name: Option<&[u8]>, headers: &[(&[u8], &[u8])]) -> Self {
        let mut hasher = Hasher::new("NVRTC program");
        hasher.add(text);
        hasher.add(if name.is_some() { b"named" } else { b"" });
        hasher.add(name.unwrap_or_default());
        hasher.add(&(headers.len() as u64).to_le_bytes());
        for (content, name) in headers {
            hasher.add(content);
            hasher.add(name);
        }
        let texts = [text].into_iter().chain(headers.iter().map(|(content, _)| *content));
        let is_header = |name: &[u8]| headers.iter().any(|(_, its)| *its == name);
        let reads = texts.map(|text| reads(text, &is_header)).find_map(|reads| match reads {
            Reads::Nothing => None,
            Reads::Files(why) => Some(why),
        });
        let name = name.map(|name| String::from_utf8_lossy(name).into_owned());
        Parts { hasher, name, length: text.len() as u64, names: Vec::new(), reads }
    }

    /// The key of the result with these options, by this compiler.
    pub(super) fn key(&self, options: &[&[u8]], compiler: Digest) -> Result<Digest, String> {
        if let Some(why) = &self.reads {
            return Err(why.clone());
        }
        if let Some(option) = reading_option(options) {
            return Err(format!("its option `{}` may read files", String::from_utf8_lossy(option)));
        }
        let mut hasher = self.hasher.clone();
        for texts in [self.names.iter().map(|name| &**name).collect(), options.to_vec()] {
            hasher.add(&(texts.len() as u64).to_le_bytes());
            texts.into_iter().for_each(|text| hasher.add(text));
        }
        // Line numbers have the path of the program, which is that of the folder where it is compiled.
        if options.iter().any(|option| has_lines(option)) {
            let folder =
                env::current_dir().map_err(|error| format!("the working directory is not known: {error}"))?;
            hasher.add(folder.as_os_str().as_bytes());
        }
        let mut variables: Vec<_> =
            env::vars_os().filter(|(name, _)| is_compilers(name.as_bytes())).collect();
        variables.sort();
        for (name, value) in variables {
            hasher.add(name.as_bytes());
            hasher.add(value.as_bytes());
        }
        hasher.add(compiler.to_string().as_bytes());
        Ok(hasher.digest())
    }
}

/// Whether an option may ask for line numbers, alone or among others.
fn has_lines(option: &[u8]) -> bool {
    const WORDS: [&str; 4] = ["-G", "device-debug", "lineinfo", "line-info"];
    let option = String::from_utf8_lossy(option);
    WORDS.iter().any(|word| option.contains(word))
}

/// Whether a variable of this name may change what the compiler does.
fn is_compilers(name: &[u8]) -> bool {
    ["NVRTC", "NVVM", "PTXAS"].iter().any(|prefix| name.starts_with(prefix.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &[u8] = b"__global__ void k() {}";

    fn key(parts: &Parts, options: &[&[u8]]) -> Result<Digest, String> {
        parts.key(options, Digest::new(b"compiler"))
    }

    #[test]
    fn all_that_the_result_depends_on_changes_the_key() {
        let with_name = |mut parts: Parts, name: &[u8]| {
            parts.names.push(name.to_vec());
            parts
        };
        let plain = || Parts::new(TEXT, None, &[]);
        let keys = [
            key(&plain(), &[]),
            key(&Parts::new(b"__global__ void l() {}", None, &[]), &[]),
            key(&Parts::new(TEXT, Some(b""), &[]), &[]),
            key(&Parts::new(TEXT, Some(b"a.cu"), &[]), &[]),
            key(&Parts::new(TEXT, None, &[(b"int x;", b"x.h")]), &[]),
            key(&Parts::new(TEXT, None, &[(b"int y;", b"x.h")]), &[]),
            key(&Parts::new(TEXT, None, &[(b"int x;", b"y.h")]), &[]),
            key(&with_name(plain(), b"k"), &[]),
            key(&plain(), &[b"k"]),
            key(&plain(), &[b"-arch=sm_90"]),
            key(&plain(), &[b"-arch=sm_80"]),
            key(&plain(), &[b"-lineinfo"]),
            plain().key(&[], Digest::new(b"another compiler")),
        ];
        for (index, one) in keys.iter().enumerate() {
            assert!(one.is_ok(), "{one:?}");
            assert!(!keys[..index].contains(one), "{index}");
        }
        assert_eq!(key(&plain(), &[]), keys[0]);
    }

    #[test]
    fn options_that_ask_for_line_numbers_are_found() {
        for option in ["-G", " -G ", "--device-debug", "-lineinfo", "-lineinfo ", "--generate-line-info"] {
            assert!(has_lines(option.as_bytes()), "{option}");
        }
        assert!(!has_lines(b"-w"));
    }

    #[test]
    fn a_program_that_may_read_files_has_no_key() {
        let why = |text: &[u8], options: &[&[u8]]| {
            key(&Parts::new(text, None, &[(b"", b"x.h")]), options).unwrap_err()
        };
        assert!(why(b"#include \"y.h\"", &[]).contains("`y.h`"));
        assert!(why(TEXT, &[b"-I/usr/include"]).contains("`-I/usr/include` may read files"));
        assert!(Parts::new(b"#include \"x.h\"", None, &[(b"", b"x.h")]).key(&[], Digest::new(b"")).is_ok());
        let nested: &[(&[u8], &[u8])] = &[(b"#include \"z.h\"", b"x.h")];
        assert!(Parts::new(b"#include \"x.h\"", None, nested).key(&[], Digest::new(b"")).is_err());
    }
}
