//! The compiler options that are the same for all sources of a build.

use std::path::PathBuf;

/// The compiler options that are the same for all sources of a build.
#[derive(Clone, Debug, Default)]
pub(crate) struct Options {
    pub(crate) std: Option<String>,
    pub(crate) includes: Vec<PathBuf>,
    /// `NAME` or `NAME=value`.
    pub(crate) defines: Vec<String>,
    pub(crate) flags: Vec<String>,
}
