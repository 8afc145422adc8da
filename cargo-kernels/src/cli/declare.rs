//! The command line of `declare`.

use std::path::PathBuf;

use clap::Args;

use crate::failure::EXIT_CODES;

#[derive(Args, Clone)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Declare {
    /// Image to read: PTX, cubin or fatbin; or a CUDA source (`.cu`), which is compiled as build scripts do; or a folder of
    /// these
    #[arg(value_name = "IMAGE")]
    pub(crate) file: PathBuf,

    /// Write the module to this file instead of printing it; the modules of a folder to this folder
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,

    /// Write nothing, and fail if the declarations in this file or folder differ from those that would be written
    #[arg(long, value_name = "FILE", conflicts_with = "output")]
    pub(crate) check: Option<PathBuf>,

    /// Path of the image in the declarations, relative to the folder of Cargo.toml; by default that of IMAGE
    #[arg(long, value_name = "PATH")]
    pub(crate) image: Option<String>,

    /// CUDA source of the image, for the names of parameters, the fields of structs, and the types of `extern "C"` kernels
    #[arg(long, value_name = "FILE")]
    pub(crate) source: Option<PathBuf>,

    /// Flags for the compiler of the source: `-- -I include -std=c++17`
    #[arg(last = true, value_name = "FLAGS")]
    pub(crate) flags: Vec<String>,
}
