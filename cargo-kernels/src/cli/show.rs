//! The command line of `show`.

use std::path::{Path, PathBuf};

use clap::Args;

use super::build::{Build, OF_BUILDS};
use crate::failure::EXIT_CODES;

#[derive(Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Show {
    /// Path of the kernel or its last parts, such as `reduce` or `templates::reduce`; or its symbol
    #[arg(required_unless_present = "all")]
    name: Option<String>,

    /// Executable, shared library, archive, object file or image to read; by default the package is built and its
    /// binaries are read
    #[arg(conflicts_with_all = OF_BUILDS)]
    path: Option<PathBuf>,

    /// Show all kernels, of the file that is the only argument then, or of the package
    #[arg(long, conflicts_with = "path")]
    pub(crate) all: bool,

    /// Write JSON
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) build: Build,
}

impl Show {
    /// The name, or none for all kernels, and the file.
    pub(crate) fn name_and_path(&self) -> (Option<&str>, Option<&Path>) {
        match self.all {
            true => (None, self.name.as_deref().map(Path::new)),
            false => (self.name.as_deref(), self.path.as_deref()),
        }
    }
}
