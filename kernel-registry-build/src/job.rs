//! Defines a compiler's job, which is one source with its options, and its result.

use std::path::{Path, PathBuf};

use crate::environment::Environment;
use crate::options::Options;
use crate::source::Source;

/// One source to compile, with everything that can change the result.
pub(crate) struct Job<'a> {
    pub(crate) package: &'a Path,
    pub(crate) source: &'a Source,
    pub(crate) options: &'a Options,
    pub(crate) environment: &'a Environment,
}

/// The output of a compiler, except for the image.
pub(crate) struct Compiled {
    /// The lines of the warnings.
    pub(crate) warnings: Vec<String>,
    /// The source and its headers.
    pub(crate) files: Vec<PathBuf>,
    /// Whether the source or a header includes the device header.
    pub(crate) device_header: bool,
}
