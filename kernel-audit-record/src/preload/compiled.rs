//! What a preload names of NVRTC's results.

use std::fmt;
use std::path::{Path, PathBuf};

use kernel_registry_format::is_control;

use crate::kept::Digest;

/// What a line of such a result begins with.
const WORD: &str = "nvrtc";

/// A result of NVRTC, in a file of the folder beside the preload.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Compiled {
    /// The digest of the file.
    pub digest: Digest,
    /// The name of the program, for people.
    pub name: String,
    /// The folder where the file is now, if that is known.
    #[doc(hidden)]
    pub folder: PathBuf,
}

impl Compiled {
    /// The result of a program of this name, whose file has this digest and is in this folder.
    #[doc(hidden)]
    pub fn new(digest: Digest, name: &str, folder: &Path) -> Self {
        Compiled { digest, name: name.replace(is_control, "\u{fffd}"), folder: folder.to_owned() }
    }

    /// The line of this result, whose key is that of the program, its options, and the compiler.
    pub(super) fn write(&self, f: &mut fmt::Formatter<'_>, key: &Digest) -> fmt::Result {
        writeln!(f, "{WORD} {key} {} {}", self.digest, self.name)
    }

    /// Reads a line. Returns `None` if it is one of something else, and an error if it is damaged.
    pub(super) fn parse(line: &str) -> Option<Result<(Digest, Self), ()>> {
        let rest = line.strip_prefix(WORD)?.strip_prefix(' ')?;
        let parse = || {
            let mut words = rest.splitn(3, ' ');
            let (key, digest) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
            let name = words.next().filter(|name| !name.contains(is_control))?;
            let compiled = Compiled { digest, name: name.to_owned(), folder: PathBuf::new() };
            Some((key, compiled))
        };
        Some(parse().ok_or(()))
    }
}
