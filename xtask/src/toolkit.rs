//! `cargo xtask toolkit`: installs CUDA compilers from Python wheels. CUDA 13.0 is complete; from CUDA 12.0
//! it only installs the compilers that make and check images for every driver. Also installs a linker for
//! machines with an old glibc, and the files that cuda-core's build needs.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::run::{Outcome, remove, target};

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Print only lines of `NAME=value`, for scripts
    #[arg(long)]
    print_env: bool,
}

/// A set of compatible wheels, and its folder in `target/toolkit`.
struct Release {
    folder: &'static str,
    wheels: &'static [&'static str],
}

const CUDA_13_0: Release = Release {
    folder: "cuda-13.0",
    wheels: &[
        "nvidia-cuda-nvcc==13.0.88",
        "nvidia-nvvm==13.0.88",
        "nvidia-cuda-crt==13.0.88",
        "nvidia-cuda-nvrtc==13.0.88",
        "nvidia-cuda-cccl==13.0.85",
        "nvidia-cuda-runtime==13.0.96",
    ],
};

const CUDA_12_0: Release = Release {
    folder: "cuda-12.0",
    wheels: &[
        "nvidia-cuda-nvrtc-cu12==12.0.140",
        // This wheel only has ptxas.
        "nvidia-cuda-nvcc-cu12==12.0.140",
        // This wheel has headers such as `cuda_fp16.h`.
        "nvidia-cuda-runtime-cu12==12.0.146",
    ],
};

/// The inputs of cuda-core's build: headers of CUDA and of cuRAND, and libclang. It needs no compiler.
const CUDA_CORE: Release = Release {
    folder: "cuda-core",
    wheels: &[
        "nvidia-cuda-runtime==13.0.96",
        "nvidia-cuda-crt==13.0.88",
        "nvidia-curand==10.4.0.35",
        "libclang==18.1.1",
    ],
};

const ZIG: Release = Release { folder: "zig", wheels: &["ziglang==0.15.2"] };

/// The file in a release's folder that lists the installed wheels. It's written last, so without it the
/// installation is incomplete.
const MARKER: &str = "wheels";

/// The paths of the compilers.
pub(crate) struct Toolkit {
    /// nvcc and NVRTC of CUDA 13.0; the value of `CUDA_HOME`.
    pub(crate) home: PathBuf,
    /// The folder of the NVRTC library of CUDA 12.0.
    pub(crate) old_nvrtc: PathBuf,
    /// ptxas of CUDA 12.0.
    pub(crate) old_ptxas: PathBuf,
}

pub(crate) fn toolkit(options: &Options) -> Outcome {
    let toolkit = install()?;
    let export = if options.print_env { "" } else { "export " };
    println!("{export}CUDA_HOME={}", toolkit.home.display());
    println!("{export}NVRTC_12_0={}", toolkit.old_nvrtc.display());
    Ok(())
}

/// Installs zig, and returns its path.
pub(crate) fn zig() -> Outcome<PathBuf> {
    Ok(ZIG.install(&folder()?)?.join("ziglang/zig"))
}

/// Installs the inputs of cuda-core's build. Returns the variables that lead the build to them.
pub(crate) fn cuda_core() -> Outcome<[(&'static str, OsString); 3]> {
    let installed = CUDA_CORE.install(&folder()?)?;
    // The wheel of libclang lacks headers such as `stddef.h`, so the C compiler's are used.
    let headers = Command::new("cc").arg("-print-file-name=include").output()?;
    let headers = String::from_utf8(headers.stdout)?;
    Ok([
        ("CUDA_TOOLKIT_PATH", installed.join("nvidia/cu13").into()),
        ("LIBCLANG_PATH", installed.join("clang/native").into()),
        ("BINDGEN_EXTRA_CLANG_ARGS", format!("-isystem {}", headers.trim()).into()),
    ])
}

fn folder() -> Outcome<PathBuf> {
    Ok(std::path::absolute(target())?.join("toolkit"))
}

/// Installs the toolkits that are missing.
pub(crate) fn install() -> Outcome<Toolkit> {
    if !cfg!(all(target_os = "linux", target_env = "gnu")) {
        return Err("the wheels are installed on Linux with glibc only: \
                    install CUDA by NVIDIA's installer, and set `CUDA_HOME` to it"
            .into());
    }
    let folder = folder()?;
    let home = CUDA_13_0.install(&folder)?.join("nvidia/cu13");
    let old = CUDA_12_0.install(&folder)?.join("nvidia");
    let lib64 = home.join("lib64");
    // nvcc links host programs with libraries in `lib64`, but the wheels use `lib`.
    #[cfg(unix)]
    if !lib64.exists() {
        std::os::unix::fs::symlink("lib", &lib64)?;
    }
    Ok(Toolkit { home, old_nvrtc: old.join("cuda_nvrtc/lib"), old_ptxas: old.join("cuda_nvcc/bin/ptxas") })
}

impl Release {
    fn install(&self, toolkits: &Path) -> Outcome<PathBuf> {
        let folder = toolkits.join(self.folder);
        let marker = folder.join(MARKER);
        let wanted = self.wheels.join("\n") + "\n";
        if fs::read_to_string(&marker).is_ok_and(|there| there == wanted) {
            return Ok(folder);
        }
        // Pip would leave an existing folder unchanged, without an error.
        remove(&folder)?;
        eprintln!("installing {} into {}", self.wheels.join(", "), folder.display());
        pip(&folder, self.wheels)?;
        fs::write(&marker, wanted)?;
        Ok(folder)
    }
}

/// Installs wheels without their dependencies, which would be newer.
fn pip(folder: &Path, wheels: &[&str]) -> Outcome {
    let pip = || {
        let mut command = Command::new("python3");
        command.args(["-m", "pip", "--disable-pip-version-check"]);
        // The folder belongs to xtask, so installing as root is fine.
        command.env("PIP_ROOT_USER_ACTION", "ignore");
        command
    };
    match pip().arg("--version").output() {
        Err(error) => return Err(format!("`python3` does not start ({error}): install Python 3").into()),
        Ok(answer) if !answer.status.success() => {
            return Err("`python3` has no pip: install it, as by `python3 -m ensurepip`".into());
        }
        Ok(_) => {}
    }
    let mut install = pip();
    install.args(["install", "--quiet", "--no-deps", "--no-compile", "--only-binary", ":all:"]);
    // Standard output is reserved for scripts.
    install.arg("--target").arg(folder).args(wheels).stdout(Stdio::from(io::stderr()));
    let status = install.status()?;
    if status.success() {
        return Ok(());
    }
    Err(format!(
        "pip could not install the CUDA compilers ({status}): \
         see what it says above, and that there is a network and room for 800 MB"
    )
    .into())
}
