//! The command line of `doctor`.

use std::path::PathBuf;

use clap::Args;

use crate::failure::EXIT_CODES;

#[derive(Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Doctor {
    /// Write JSON
    #[arg(long)]
    pub(crate) json: bool,

    /// Cargo.toml of the package whose cudarc is checked; by default the package of the current folder
    #[arg(long, value_name = "PATH")]
    pub(crate) manifest_path: Option<PathBuf>,
}
