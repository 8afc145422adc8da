//! The command line of `check`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::build::{Build, OF_BUILDS};
use crate::failure::EXIT_CODES;

#[derive(Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Check {
    /// Executable, shared library, archive or object file to read; by default the package is built and its
    /// binaries are read
    #[arg(conflicts_with_all = OF_BUILDS)]
    pub(crate) path: Option<PathBuf>,

    /// Compare with this image (PTX, cubin or fatbin) instead of those in the binary; can be repeated
    #[arg(long, value_name = "FILE")]
    pub(crate) image: Vec<PathBuf>,

    /// Also fail for this: kernels in images that no declaration names
    #[arg(long, value_name = "WHAT")]
    pub(crate) deny: Vec<Deny>,

    /// Write JSON
    #[arg(long)]
    pub(crate) json: bool,

    /// Check only the kernels of this package
    #[arg(long = "crate", value_name = "NAME")]
    pub(crate) package: Option<String>,

    #[command(flatten)]
    pub(crate) build: Build,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Deny {
    Unused,
}
