//! The PTX that a program loaded, for machine code that is compiled from it ahead of time.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use kernel_registry_files::sha256;
use kernel_registry_format::baked;

use super::origin::{Malformed, Origin};

/// What a line begins with.
const WORD: &str = "ptx ";

/// What stands for no options.
const NONE: &str = "-";

/// A PTX image, and the options with which the program loaded it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub struct Ptx {
    /// The options that change the machine code, such as `maxrregcount=64`, with commas between them. Empty if there are none.
    pub options: String,
    /// Where the image is.
    pub origin: Origin,
}

impl Ptx {
    /// A PTX image.
    pub fn new(options: &str, origin: Origin) -> Self {
        Ptx { options: options.to_owned(), origin }
    }
}

impl fmt::Display for Ptx {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let options = if self.options.is_empty() { NONE } else { &self.options };
        write!(f, "{WORD}{options} {}", self.origin)
    }
}

impl FromStr for Ptx {
    type Err = Malformed;

    fn from_str(line: &str) -> Result<Self, Malformed> {
        let parts = line.strip_prefix(WORD).and_then(|rest| rest.split_once(' '));
        let (options, origin) = parts.ok_or_else(|| Malformed { line: 1, text: line.to_owned() })?;
        Ok(Ptx::new(if options == NONE { "" } else { options }, origin.parse()?))
    }
}

/// The file beside a preload that has machine code of its PTX.
pub fn baked_file(preload: &Path) -> PathBuf {
    let mut file = preload.as_os_str().to_owned();
    file.push(baked::SUFFIX);
    file.into()
}

/// The key of machine code for PTX that is compiled with these options.
pub fn baked_key(ptx: &[u8], options: &str) -> [u8; 32] {
    let lines: String =
        options.split(',').filter(|line| !line.is_empty()).map(|line| format!("{line}\n")).collect();
    sha256(&baked::key_parts(baked::text(ptx), &lines))
}
