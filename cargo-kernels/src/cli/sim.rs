//! The command line of `sim`.

use std::ffi::OsString;

use clap::Args;

const SIM: &str = "\
The program and its children find the simulated driver as libcuda.so and libcuda.so.1. The first use builds it
with cargo, in the target directory of the package here, or in ~/.cache. Options override the variables
`KERNEL_REGISTRY_SIM_*`. NVIDIA's runtime API (cudaMalloc) does not work on it.

Exit codes: those of the program; 16 if it succeeded and has races; 17 if it fails in an order that `--explore` tried; 127 if there is none of that name, 126 if it cannot be run, 2 wrong usage, 9 the driver
could not be built, 1 anything else";

#[derive(Args)]
#[command(after_help = SIM)]
pub(crate) struct Sim {
    /// Number of devices, or any other value of `KERNEL_REGISTRY_SIM_DEVICES`
    #[arg(long, value_name = "NUMBER")]
    pub(crate) devices: Option<String>,

    /// CUDA version that the driver supports, such as 12.4; newer functions are missing from it
    #[arg(long, value_name = "VERSION", value_parser = version)]
    pub(crate) driver: Option<String>,

    /// What to do after reporting a deadlock
    #[arg(long, value_name = "WHAT", value_parser = ["wait", "fail", "abort"])]
    pub(crate) deadlock: Option<String>,

    /// Look for races: accesses of kernels and copies to the same memory that nothing orders
    #[arg(long)]
    pub(crate) races: bool,

    /// Run the program in up to so many orders of its threads, streams, blocks and warps, until it fails, hangs or races in one
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) explore: Option<u64>,

    /// Set `KERNEL_REGISTRY_SIM_NAME`, as in `--set ARCH=80`; can be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = variable)]
    pub(crate) set: Vec<(String, String)>,

    /// Build the driver without the network
    #[arg(long)]
    pub(crate) offline: bool,

    /// The program and its arguments
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

/// Checks that a CUDA version is written as `12.4`.
fn version(value: &str) -> Result<String, &'static str> {
    let is_number = |part: &str| part.parse::<u8>().is_ok();
    match value.split_once('.') {
        Some((major, minor)) if is_number(major) && is_number(minor) => Ok(value.to_owned()),
        _ => Err("write it as 12.4"),
    }
}

fn variable(value: &str) -> Result<(String, String), &'static str> {
    let is_name = |name: &str| name.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_');
    match value.split_once('=') {
        Some((name, value)) if is_name(name) && !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("write it as `ARCH=80`, without the prefix `KERNEL_REGISTRY_SIM_`"),
    }
}
