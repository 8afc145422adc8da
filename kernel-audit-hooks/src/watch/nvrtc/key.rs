//! The cache key of a program: a digest of everything it passes to NVRTC.

use std::ffi::c_int;
use std::sync::Arc;

use memchr::memmem;

use super::entry::tells_time;
use crate::kept::{Digest, Hasher};

/// Everything that is passed to NVRTC before `nvrtcCompileProgram`.
#[derive(Clone)]
pub(super) struct Input {
    pub(super) source: Arc<Source>,
    /// Name expressions, whose lowered names will be read.
    pub(super) names: Vec<Vec<u8>>,
}

/// The arguments of `nvrtcCreateProgram`.
pub(super) struct Source {
    pub(super) text: Vec<u8>,
    /// The program's name, if it was given one.
    pub(super) name: Option<Vec<u8>>,
    /// Contents and name of each header.
    pub(super) headers: Vec<[Vec<u8>; 2]>,
    /// Whether NVRTC was told to decode the texts. These are the decoded ones.
    pub(super) is_decoded: bool,
}

/// The keys under which a result can be found.
#[derive(Clone, Copy)]
pub(super) struct Keys {
    pub(super) exact: Digest,
    /// The key without the folder in the program's name, unless the text can read the folder. CuPy puts
    /// programs into a new folder each time.
    pub(super) anywhere: Option<Digest>,
}

/// Returns whether an option may ask for line numbers. They add the headers' timestamps to the machine code.
pub(super) fn has_lines(option: &[u8]) -> bool {
    let words: [&[u8]; 4] = [b"-G", b"device-debug", b"lineinfo", b"line-info"];
    words.into_iter().any(|word| memmem::find(option, word).is_some())
}

impl Keys {
    /// Returns the keys, the more specific one first.
    pub(super) fn all(&self) -> impl Iterator<Item = Digest> + use<> {
        [Some(self.exact), self.anywhere].into_iter().flatten()
    }
}

impl Input {
    /// Returns the folder in the program's name, if the name is an absolute path.
    pub(super) fn folder(&self) -> &[u8] {
        let name = self.source.name.as_deref().filter(|name| name.starts_with(b"/")).unwrap_or_default();
        name.iter().rposition(|byte| *byte == b'/').map_or(b"", |end| &name[..end])
    }

    /// Returns the keys for these options and this compiler, or why the result may depend on more than that.
    pub(super) fn keys(&self, options: &[&[u8]], compiler: Digest) -> Result<Keys, String> {
        let Source { text, name, headers, is_decoded } = &*self.source;
        let texts = || {
            let headers = headers.as_flattened().iter().map(|text| &**text);
            let names = self.names.iter().map(|name| &**name);
            [&**text].into_iter().chain(headers).chain(names).chain(options.iter().copied())
        };
        if let Some(why) = texts().find_map(tells_time) {
            return Err(why);
        }
        if let Some(option) = options.iter().find(|option| memmem::find(option, b"pch").is_some()) {
            let option = if *is_decoded { "--pch".into() } else { String::from_utf8_lossy(option) };
            return Err(format!("its option `{option}` shares headers with other compilations"));
        }
        let mut hasher = Hasher::new("NVRTC program");
        let mut add_all = |texts: &mut dyn ExactSizeIterator<Item = &[u8]>| {
            hasher.add(&(texts.len() as u64).to_le_bytes());
            texts.for_each(|text| hasher.add(text));
        };
        add_all(&mut headers.as_flattened().iter().map(|text| &**text));
        add_all(&mut self.names.iter().map(|name| &**name));
        add_all(&mut options.iter().copied());
        hasher.add(text);
        hasher.add(compiler.to_string().as_bytes());
        hasher.add(arithmetic().as_bytes());
        if *is_decoded {
            hasher.add(b"decoded");
        }
        let key = |kind: &[u8], name: &[u8]| {
            let mut hasher = hasher.clone();
            hasher.add(kind);
            hasher.add(name);
            hasher.digest()
        };
        let folder = self.folder();
        let kind = if name.is_some() { b"named".as_slice() } else { b"" };
        let name = name.as_deref().unwrap_or_default();
        let in_any = (!folder.is_empty() && !texts().any(names_its_file)).then(|| &name[folder.len()..]);
        Ok(Keys { exact: key(kind, name), anywhere: in_any.map(|name| key(b"in any folder", name)) })
    }
}

/// Returns whether a text may read its file's name, by names such as `__FILE__`, `__builtin_FILE` or
/// `source_location`, or by pasting names. Shadow compilations can't rule that out: a text may compare the
/// name's length with a constant.
fn names_its_file(text: &[u8]) -> bool {
    ["FILE", "source_location", "##"].iter().any(|word| memmem::find(text, word.as_bytes()).is_some())
}

/// Describes the thread's floating-point environment, in which NVRTC folds constants. It sets its own locale.
fn arithmetic() -> String {
    format!("{} {:x}", fegetround(), control())
}

unsafe extern "C" {
    safe fn fegetround() -> c_int;
}

/// Returns the control bits for rounding, precision and denormal numbers.
fn control() -> u64 {
    #[cfg(target_arch = "x86_64")]
    {
        const VECTORS: u32 = 1 << 15 | 3 << 13 | 1 << 6;
        const X87: u16 = 0xf00;
        let (mut vectors, mut x87) = (0_u32, 0_u16);
        // SAFETY: the instructions store four and two bytes.
        unsafe {
            std::arch::asm!("stmxcsr [{}]", in(reg) &raw mut vectors, options(nostack));
            std::arch::asm!("fnstcw [{}]", in(reg) &raw mut x87, options(nostack));
        }
        u64::from(vectors & VECTORS) << 16 | u64::from(x87 & X87)
    }
    #[cfg(target_arch = "aarch64")]
    {
        const TINY: u64 = 1 << 24 | 1 << 19;
        let control: u64;
        // SAFETY: the instruction reads a register.
        unsafe { std::arch::asm!("mrs {}, fpcr", out(reg) control, options(nomem, nostack)) };
        control & TINY
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &[u8] = b"__global__ void k() {}";

    fn input(text: &[u8], name: Option<&[u8]>, headers: &[(&[u8], &[u8])]) -> Input {
        let headers = headers.iter().map(|(text, name)| [text.to_vec(), name.to_vec()]).collect();
        let source =
            Source { text: text.to_vec(), name: name.map(<[u8]>::to_vec), headers, is_decoded: false };
        Input { source: Arc::new(source), names: Vec::new() }
    }

    fn keys(input: &Input, options: &[&[u8]]) -> Result<Keys, String> {
        input.keys(options, Digest::new(b"compiler"))
    }

    #[test]
    fn all_that_the_result_depends_on_changes_the_keys() {
        let with_name = |mut input: Input, name: &[u8]| {
            input.names.push(name.to_vec());
            input
        };
        let named = |text: &[u8], name: &[u8]| input(text, Some(name), &[]);
        let plain = || named(TEXT, b"/tmp/1/a.cu");
        let header = |text: &[u8], name: &[u8]| input(TEXT, Some(b"/tmp/1/a.cu"), &[(text, name)]);
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
            let keys = keys(&input(TEXT, name, &[]), &[]).unwrap();
            assert!(keys.anywhere.is_none());
            digests.push(keys.exact);
        }
        let count = digests.len();
        digests.sort();
        digests.dedup();
        assert_eq!(digests.len(), count);
    }

    #[test]
    fn a_name_in_another_folder_has_the_same_second_key() {
        let named = |name: &[u8]| keys(&input(TEXT, Some(name), &[]), &[]).unwrap();
        let (one, two) = (named(b"/tmp/1/a.cu"), named(b"/tmp/2/a.cu"));
        assert_ne!(one.exact, two.exact);
        assert_eq!(one.anywhere, two.anywhere);
        assert_eq!(named(b"/tmp/1/a.cu").exact, one.exact);
        let file = input(b"char x[sizeof(__FILE__)];", Some(b"/tmp/1/a.cu"), &[]);
        assert!(keys(&file, &[]).unwrap().anywhere.is_none());
    }

    #[test]
    fn a_program_that_may_tell_the_time_has_no_key() {
        let why = |text: &[u8], header: &[u8], option: &[u8]| {
            keys(&input(text, None, &[(header, b"x.h")]), &[option]).map(|_| ()).unwrap_err()
        };
        assert!(why(b"__TIME__", b"", b"-w").contains("`__TIME__`"));
        assert!(why(TEXT, b"__DATE__", b"-w").contains("`__DATE__`"));
        assert!(why(TEXT, b"", b"-DX=__TIME__").contains("`__TIME__`"));
        assert!(why(TEXT, b"", b"--create-pch=x").contains("--create-pch=x"));
    }

    #[test]
    fn a_thread_that_rounds_otherwise_has_other_keys() {
        let key = || keys(&input(TEXT, None, &[]), &[]).unwrap().exact;
        let before = key();
        assert_eq!(before, key());
        unsafe extern "C" {
            safe fn fesetround(direction: c_int) -> c_int;
        }
        let nearest = fegetround();
        let zero = if cfg!(target_arch = "aarch64") { 0xc0_0000 } else { 0xc00 };
        assert_eq!(fesetround(zero), 0);
        let other = key();
        assert_eq!(fesetround(nearest), 0);
        assert_ne!(before, other);
    }
}
