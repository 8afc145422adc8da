//! The command line of `list`.

use std::path::PathBuf;

use clap::Args;

use super::build::{Build, OF_BUILDS};
use crate::failure::EXIT_CODES;

#[derive(Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct List {
    /// Executable, shared library, archive or object file to read; by default the package is built and its
    /// binaries are read
    #[arg(conflicts_with_all = OF_BUILDS)]
    pub(crate) path: Option<PathBuf>,

    /// Write JSON
    #[arg(long)]
    pub(crate) json: bool,

    /// List only the kernels of this package
    #[arg(long = "crate", value_name = "NAME")]
    pub(crate) package: Option<String>,

    #[command(flatten)]
    pub(crate) build: Build,
}
