//! The command line of `new`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::failure::EXIT_CODES;

#[derive(Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct New {
    /// Folder to make; its last part is the package's name
    #[arg(value_name = "NAME")]
    pub(crate) folder: PathBuf,

    /// Depend on a checkout of kernel-registry, the folder that `git clone` made, by a relative path if this is one
    #[arg(long, value_name = "DIR")]
    pub(crate) path: Option<PathBuf>,

    /// Make a git repository, unless the folder is in one; or none
    #[arg(long, value_name = "VCS", default_value = "git")]
    pub(crate) vcs: Vcs,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Vcs {
    Git,
    None,
}
