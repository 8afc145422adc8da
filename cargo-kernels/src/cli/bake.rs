//! The options of `bake`, and of commands that know of baked code.

use std::path::PathBuf;

use clap::Args;
use kernel_registry_image::Target;

use crate::failure::EXIT_CODES;

#[derive(Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Bake {
    /// Executable or shared library with PTX
    pub(crate) binary: PathBuf,

    /// Compile for GPUs of this architecture, such as sm_90; can be repeated. By default those of this machine
    #[arg(long, value_name = "ARCH")]
    pub(crate) arch: Vec<Target>,

    /// The file to write; by default the one that BINARY looks for, which is BINARY.baked
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}
