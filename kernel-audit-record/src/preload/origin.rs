//! Where an image is, in a line of a preload, and lines that mean nothing.

use std::error::Error;
use std::fmt;
use std::path::Path;
use std::str::FromStr;

use kernel_registry_format::{Printable, is_control};

/// What preloads of all versions begin with.
#[doc(hidden)]
pub const BEGIN: &str = "kernel-registry preload ";
/// The first line of a preload.
pub(super) const HEADER: &str = "kernel-registry preload 1";

/// The origin of an image: a part of a file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub struct Origin {
    /// The file.
    pub path: String,
    /// The offset of the image in the file.
    pub offset: u64,
    /// The length of the image.
    pub bytes: u64,
    /// The [`hash`](super::hash()) of the image.
    pub hash: u64,
    /// How the program loads it.
    pub how: How,
}

/// How a program loads an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum How {
    /// `cuLibraryLoadData`: CUDA's runtime library of version 12 and newer.
    Library,
    /// `cuModuleLoadData` and its like.
    Module,
}

impl How {
    const WORDS: [(How, &str); 2] = [(How::Library, "library"), (How::Module, "module")];
}

impl Origin {
    #[doc(hidden)]
    pub fn new(path: &str, offset: u64, bytes: u64, hash: u64, how: How) -> Self {
        Origin { path: path.to_owned(), offset, bytes, hash, how }
    }

    /// Returns whether the image is a [copy](super::keep_copy).
    pub fn is_copy(&self) -> bool {
        self.offset == 0 && Path::new(&self.path).extension().is_some_and(|extension| extension == "image")
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Origin { path, offset, bytes, hash, how } = self;
        let how = How::WORDS[*how as usize].1;
        write!(f, "{how} {hash:016x} {bytes} {offset:#x} {path}")
    }
}

impl FromStr for Origin {
    type Err = Malformed;

    fn from_str(line: &str) -> Result<Self, Malformed> {
        let origin = || {
            let mut words = line.splitn(5, ' ');
            let how = words.next()?;
            let (how, _) = How::WORDS.into_iter().find(|(_, word)| *word == how)?;
            let hash = u64::from_str_radix(words.next()?, 16).ok()?;
            let bytes = words.next()?.parse().ok()?;
            let offset = u64::from_str_radix(words.next()?.strip_prefix("0x")?, 16).ok()?;
            let path = words.next().filter(|path| !path.is_empty() && !path.contains(is_control))?;
            Some(Origin { path: path.to_owned(), offset, bytes, hash, how })
        };
        origin().ok_or_else(|| Malformed { line: 1, text: line.to_owned() })
    }
}

/// The error for a text that is no preload.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Malformed {
    /// The line, counted from 1.
    pub line: usize,
    /// The text of that line.
    pub text: String,
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Malformed { line, text } = self;
        let text: String = text.chars().take(80).collect();
        let text = Printable(&text);
        if *line == 1 && !text.to_string().starts_with(BEGIN) {
            return write!(f, "line 1 is `{text}`, and a preload begins with `{HEADER}`");
        }
        write!(f, "line {line} means nothing: `{text}`; record it again by `kernel-audit --record`")
    }
}

impl Error for Malformed {}
