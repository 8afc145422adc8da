//! `cargo xtask candle`: checks kernel-registry-candle, and a program that depends on candle, which then
//! decides how cudarc is built. A script replaces nvcc. With `--test`, builds kernel-registry-candle, and
//! runs its tests and an example on the simulated driver.
//!
//! That needs nvcc for candle's PTX. The kernels that candle launches with `<<<>>>` are left out, and cuBLAS
//! and cuRAND are stubs, because all of them would call CUDA's runtime library, which refuses the simulated
//! driver.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cudarc::{Folder, kernels};
use crate::run::{Outcome, run, succeeds, succeeds_and, target, workspace};
use crate::{stubs, toolkit};

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Build kernel-registry-candle, and run its tests on the simulated driver, with two devices
    #[arg(long)]
    test: bool,
}

pub(crate) fn candle(options: &Options) -> Outcome {
    if options.test { test() } else { check() }
}

fn package() -> PathBuf {
    workspace().join("kernel-registry-candle")
}

fn check() -> Outcome {
    let folder = Folder::new("candle", "candle-core = { version = \"0.11\", features = [\"cuda\"] }\n")?;
    let path = folder.nvcc_on_path("13.0")?;
    let check = |command: &mut Command| {
        succeeds(command.env("PATH", &path).env_remove("NVCC").env("CUDA_COMPUTE_CAP", "80"))
    };
    check(&mut folder.cargo(&["check"]))?;
    check(folder.cargo(&["check", "--all-targets", "--locked"]).current_dir(package()))
}

/// The output of the smallest example.
const PRINTED: &str = "[1.0, 4.0, 9.0]";

fn test() -> Outcome {
    let built = std::path::absolute(target())?.join("candle");
    let (toolkit, libraries) = (built.join("stubs"), built.join("stubs/lib64"));
    stubs::libraries(&libraries, &package())?;
    stubs::empty_library(&libraries, "cudart")?;
    let candle = stubs::package("candle-kernels", &package())?;
    let linked = fs::read_to_string(candle.manifest_path.with_file_name("src/ffi.rs"))?;
    stubs::static_library(&libraries, "moe", &linked)?;
    let nvcc = toolkit::install()?.home.join("bin/nvcc");
    stubs::nvcc_for_ptx(&toolkit.join("bin"), &nvcc, &libraries.join("libmoe.a"))?;
    let mut test = kernels(&["sim", "--devices", "2"], Path::new("env"));
    // The simulated device's architecture, for which candle has all its kernels. candle's build script
    // prefers NVCC to the path.
    test.args(["--unset=NVCC", "CUDA_COMPUTE_CAP=90"]).arg(format!("CUDA_HOME={}", toolkit.display()));
    test.arg(format!("PATH={}", stubs::first_on_path(&toolkit.join("bin"))?));
    test.arg(env!("CARGO")).args(["test", "--quiet", "--locked"]);
    test.arg("--manifest-path").arg(package().join("Cargo.toml")).arg("--target-dir").arg(&built);
    run(test.env("LD_LIBRARY_PATH", &libraries))?;
    let mut example = kernels(&["sim"], &built.join("debug/examples/simple"));
    succeeds_and(example.env("LD_LIBRARY_PATH", &libraries), PRINTED)
}
