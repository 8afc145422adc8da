//! The keys of a program's result: digests of all that the result depends on, except files that the compiler reads.

use std::env;
use std::os::unix::ffi::OsStrExt;

use super::clocks::{option_tells_time, tells_time};
use crate::kept::{Digest, Hasher};

/// What a program is made of, before it is compiled. The texts themselves are not kept.
#[derive(Clone)]
pub(super) struct Parts {
    hasher: Hasher,
    /// The name that its author gave it, if any.
    pub(super) name: Option<Vec<u8>>,
    /// The length of the text.
    pub(super) length: u64,
    /// Names that the program will ask for.
    pub(super) names: Vec<Vec<u8>>,
    /// Why its results cannot be kept.
    why_not: Option<String>,
}

/// The keys of a result.
#[derive(Clone, Copy)]
pub(super) struct Keys {
    /// The key of the program with its name.
    pub(super) exact: Digest,
    /// The key of the program with its name in any folder, if the name has a folder. Python's packages put programs into a new folder each time.
    pub(super) anywhere: Option<Digest>,
}

impl Parts {
    pub(super) fn new(text: &[u8], name: Option<&[u8]>, headers: &[(&[u8], &[u8])]) -> Self {
        let mut hasher = Hasher::new("NVRTC program");
        hasher.add(text);
        hasher.add(&(headers.len() as u64).to_le_bytes());
        for (content, name) in headers {
            hasher.add(content);
            hasher.add(name);
        }
        let why_not =
            [text].into_iter().chain(headers.iter().map(|(content, _)| *content)).find_map(tells_time);
        Parts {
            hasher,
            name: name.map(<[u8]>::to_vec),
            length: text.len() as u64,
            names: Vec::new(),
            why_not,
        }
    }

    /// The folder in the program's name, if the name is an absolute path.
    pub(super) fn folder(&self) -> &[u8] {
        let name = self.name.as_deref().filter(|name| name.starts_with(b"/")).unwrap_or_default();
        name.iter().rposition(|byte| *byte == b'/').map_or(b"", |end| &name[..end])
    }

    /// The keys of the result with these options, by this compiler.
    pub(super) fn keys(&self, options: &[&[u8]], compiler: Digest) -> Result<Keys, String> {
        if let Some(why) = &self.why_not {
            return Err(why.clone());
        }
        if let Some(option) = options.iter().find(|option| option_tells_time(option)) {
            return Err(format!("its option `{}` may tell the time", String::from_utf8_lossy(option)));
        }
        let mut hasher = self.hasher.clone();
        for texts in [self.names.iter().map(|name| &**name).collect(), options.to_vec()] {
            hasher.add(&(texts.len() as u64).to_le_bytes());
            texts.into_iter().for_each(|text| hasher.add(text));
        }
        // Line numbers have the path of the program, which is that of the folder where it is compiled.
        let has_lines = options.iter().any(|option| has_lines(option));
        if has_lines {
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
        let key = |kind: &[u8], name: &[u8]| {
            let mut hasher = hasher.clone();
            hasher.add(kind);
            hasher.add(name);
            hasher.digest()
        };
        let name = self.name.as_deref();
        let (folder, kind) = (self.folder(), if name.is_some() { b"named".as_slice() } else { b"" });
        let in_any = (!folder.is_empty() && !has_lines).then(|| &name.unwrap_or_default()[folder.len()..]);
        Ok(Keys {
            exact: key(kind, name.unwrap_or_default()),
            anywhere: in_any.map(|name| key(b"in any folder", name)),
        })
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

    fn keys(parts: &Parts, options: &[&[u8]]) -> Result<Keys, String> {
        parts.keys(options, Digest::new(b"compiler"))
    }

    #[test]
    fn all_that_the_result_depends_on_changes_the_keys() {
        let with_name = |mut parts: Parts, name: &[u8]| {
            parts.names.push(name.to_vec());
            parts
        };
        let named = |text: &[u8], name: &[u8]| Parts::new(text, Some(name), &[]);
        let plain = || named(TEXT, b"/tmp/1/a.cu");
        let header = |text: &[u8], name: &[u8]| Parts::new(TEXT, Some(b"/tmp/1/a.cu"), &[(text, name)]);
        let all = [
            keys(&plain(), &[]),
            keys(&named(b"__global__ void l() {}", b"/tmp/1/a.cu"), &[]),
            keys(&named(TEXT, b"/tmp/1/b.cu"), &[]),
            keys(&header(b"int x;", b"x.h"), &[]),
            keys(&header(b"int y;", b"x.h"), &[]),
            keys(&header(b"int x;", b"y.h"), &[]),
            keys(&with_name(plain(), b"k"), &[]),
            keys(&plain(), &[b"k"]),
            keys(&plain(), &[b"-arch=sm_90"]),
            keys(&plain(), &[b"-arch=sm_80"]),
            plain().keys(&[], Digest::new(b"another compiler")),
        ];
        let all: Vec<_> = all.into_iter().map(Result::unwrap).collect();
        let mut digests: Vec<_> = all.iter().flat_map(|keys| [keys.exact, keys.anywhere.unwrap()]).collect();
        let without_folder: [Option<&[u8]>; 4] = [None, Some(b""), Some(b"a.cu"), Some(b"/a.cu")];
        for name in without_folder {
            let keys = keys(&Parts::new(TEXT, name, &[]), &[]).unwrap();
            assert!(keys.anywhere.is_none());
            digests.push(keys.exact);
        }
        let lines = keys(&plain(), &[b"-lineinfo"]).unwrap();
        assert!(lines.anywhere.is_none());
        digests.push(lines.exact);
        let count = digests.len();
        digests.sort();
        digests.dedup();
        assert_eq!(digests.len(), count);
    }

    #[test]
    fn a_name_in_another_folder_has_the_same_second_key() {
        let named = |name: &[u8]| keys(&Parts::new(TEXT, Some(name), &[]), &[]).unwrap();
        let (one, two) = (named(b"/tmp/1/a.cu"), named(b"/tmp/2/a.cu"));
        assert_ne!(one.exact, two.exact);
        assert_eq!(one.anywhere, two.anywhere);
        assert_eq!(named(b"/tmp/1/a.cu").exact, one.exact);
    }

    #[test]
    fn options_that_ask_for_line_numbers_are_found() {
        for option in ["-G", " -G ", "--device-debug", "-lineinfo", "-lineinfo ", "--generate-line-info"] {
            assert!(has_lines(option.as_bytes()), "{option}");
        }
        assert!(!has_lines(b"-w"));
    }

    #[test]
    fn a_program_that_may_tell_the_time_has_no_key() {
        let why = |text: &[u8], header: &[u8], option: &[u8]| {
            keys(&Parts::new(text, None, &[(header, b"x.h")]), &[option]).map(|_| ()).unwrap_err()
        };
        assert!(why(b"__TIME__", b"", b"-w").contains("`__TIME__`"));
        assert!(why(TEXT, b"__DATE__", b"-w").contains("`__DATE__`"));
        assert!(why(TEXT, b"", b"-DX=__TIME__").contains("`-DX=__TIME__` may tell the time"));
    }
}
