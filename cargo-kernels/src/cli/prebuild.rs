//! The command line of `prebuild`.

use std::path::PathBuf;

use clap::Args;

use super::build::Package;
use crate::failure::EXIT_CODES;

#[derive(Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Prebuild {
    /// Write nothing, and fail if committed images are not those of the sources
    #[arg(long)]
    pub(crate) check: bool,

    /// NVRTC 12.0: the library, or a folder that has it, also one that `pip install --target` made; by default the one that
    /// builds would use
    #[arg(long, value_name = "PATH")]
    pub(crate) nvrtc: Option<PathBuf>,

    #[command(flatten, next_help_heading = "Package")]
    pub(crate) package: Package,
}
