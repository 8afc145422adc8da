//! PTX that a program loaded. A preload lists it, so that it can be compiled to machine code ahead of time.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use kernel_registry_cuda::fatbin;
use kernel_registry_files::sha256;
use kernel_registry_format::baked;

use super::origin::{Malformed, Origin};

/// The prefix of a preload's PTX lines.
const PREFIX: &str = "ptx ";

/// The placeholder for no options.
const NO_OPTIONS: &str = "-";

/// A PTX image and the options that the program loaded it with.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub struct Ptx {
    /// The options that change the machine code, such as `maxrregcount=64`, with commas between them. Empty if there are none.
    pub options: String,
    /// Where the image is.
    pub origin: Origin,
}

impl Ptx {
    /// Describes PTX that was loaded with these comma-separated options.
    pub fn new(options: &str, origin: Origin) -> Self {
        Ptx { options: options.to_owned(), origin }
    }
}

impl fmt::Display for Ptx {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let options = if self.options.is_empty() { NO_OPTIONS } else { &self.options };
        write!(f, "{PREFIX}{options} {}", self.origin)
    }
}

impl FromStr for Ptx {
    type Err = Malformed;

    fn from_str(line: &str) -> Result<Self, Malformed> {
        let parts = line.strip_prefix(PREFIX).and_then(|rest| rest.split_once(' '));
        let (options, origin) = parts.ok_or_else(|| Malformed { line: 1, text: line.to_owned() })?;
        Ok(Ptx::new(if options == NO_OPTIONS { "" } else { options }, origin.parse()?))
    }
}

/// Returns the path of the file with the machine code of a preload's PTX: the preload's path and a suffix.
pub fn baked_file(preload: &Path) -> PathBuf {
    let mut file = preload.as_os_str().to_owned();
    file.push(baked::SUFFIX);
    file.into()
}

/// Returns the key of the machine code that this PTX compiles to with these comma-separated options.
pub fn baked_key(ptx: &[u8], options: &str) -> [u8; 32] {
    key(baked::text(ptx), options)
}

/// Returns the key of the machine code that the PTX of a fatbin's entry compiles to. Devices compile different entries of a fatbin.
pub fn baked_key_of_entry(entry: &fatbin::Entry<'_>, options: &str) -> [u8; 32] {
    key(entry.payload, options)
}

fn key(code: &[u8], options: &str) -> [u8; 32] {
    let lines: String =
        options.split(',').filter(|line| !line.is_empty()).map(|line| format!("{line}\n")).collect();
    sha256(&baked::key_parts(code, &lines))
}
