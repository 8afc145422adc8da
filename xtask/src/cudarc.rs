//! `cargo xtask cudarc`: builds and runs a program with each of cudarc's ways to load or link the driver, and
//! checks it with each CUDA version. `cargo xtask adopt`: builds and runs a program whose modules are
//! adopted, in several profiles. `cargo xtask cuda-core`: builds and runs examples/cuda-core, which uses
//! NVIDIA's cuda-core and cudarc.
//!
//! The first two need nothing from NVIDIA: linked programs are linked with stubs, as on machines without a
//! driver, and nvcc is a script. `cuda-core` needs NVIDIA's headers, from Python wheels.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::run::{Outcome, cargo, output, remove, says, succeeds, succeeds_and, target, text, workspace};
use crate::{stubs, toolkit};

const PROGRAM: &str = r#"
/// y = a*x + y
#[kernel_registry::gpu_kernel(image = "saxpy.ptx", block = 256)]
pub unsafe fn saxpy(n: u32, a: f32, x: &[f32], y: &mut [f32]);

fn run() -> Result<f32, Box<dyn std::error::Error>> {
    if std::env::args().nth(1).is_some() {
        kernel_audit::install()?;
    }
    let context = kernel_registry::context(0)?;
    kernel_registry::warm_all(&context)?;
    let stream = context.new_stream()?;
    let x = stream.clone_htod(&[1.0_f32; 3])?;
    let mut y = stream.clone_htod(&[2.0_f32; 3])?;
    // SAFETY: both vectors have three elements.
    unsafe { saxpy::launch(&stream, saxpy::over(3), 3, 0.5, &x, &mut y)? };
    Ok(stream.clone_dtoh(&y)?[0])
}

fn main() {
    match run() {
        Ok(y) => println!("computed {y}"),
        Err(error) => println!("error: {error}"),
    }
}
"#;

/// The line that the program prints if there is a driver.
const COMPUTED: &str = "computed 2.5";

const IMAGE: &str = "cargo-kernels/template/prebuilt/cuda__saxpy.cu.ptx";

pub(crate) fn cudarc() -> Outcome {
    let folder = Folder::new("cudarc", "")?;
    let cudarc = stubs::package("cudarc", &folder.0)?;
    let toolkit = folder.toolkit()?;

    for way in ["", "dynamic-loading", "dynamic-linking", "static-linking"] {
        println!("== {}", if way.is_empty() { "no way is named" } else { way });
        let mut build = folder.cargo(&["build", "--features", way]);
        succeeds(build.env("CUDA_HOME", &toolkit))?;
        folder.runs(way.ends_with("linking"))?;
    }
    for version in cudarc.features.keys().filter_map(|feature| feature.strip_prefix("cuda-1")) {
        let version = format!("1{version}");
        // Some features that begin with `cuda-1` aren't versions.
        let Ok(number) = version.parse::<u32>() else { continue };
        println!("== CUDA {number}");
        let mut check = folder.cargo(&["check", "--features", &format!("cudarc/cuda-{version}")]);
        if number >= 12_000 { succeeds(&mut check)? } else { says(&mut check, TOO_OLD)? }
    }
    for (release, error) in [("11.8", TOO_OLD), ("13.5", UNKNOWN)] {
        println!("== nvcc {release} on the path");
        let path = folder.nvcc_on_path(release)?;
        says(folder.cargo(&["check"]).env("PATH", &path), error)?;
        succeeds(folder.cargo(&["check"]).env("PATH", &path).env("CUDARC_CUDA_VERSION", "12000"))?;
    }
    Ok(())
}

/// The error of kernel-registry-cudarc.
const TOO_OLD: &str = "Set CUDARC_CUDA_VERSION=12000 for the build";

/// cudarc's own error, which troubleshooting explains.
const UNKNOWN: &str = "Unsupported cuda toolkit version: `13.5`";

pub(crate) fn adopt() -> Outcome {
    let folder = Folder::new("adopt", "")?;
    let toolkit = folder.toolkit()?;
    // ld.bfd and mold keep a library even if only discarded code calls it.
    let libraries = toolkit.join("lib64");
    fs::copy(libraries.join("libnvrtc.so"), libraries.join("libnvrtc.so.13"))?;
    let bfd: &[&str] = &["-Clinker-features=-lld", "-Clink-arg=-fuse-ld=bfd"];
    let mold: &[&str] = &["-Clinker-features=-lld", "-Clink-arg=-fuse-ld=mold"];
    for (profile, linker, flags) in [
        ("dev", "the compiler's linker", &[][..]),
        ("dev", "ld.bfd", bfd),
        ("dev", "mold", mold),
        ("release", "the compiler's linker", &[]),
        ("fat", "the compiler's linker", &[]),
    ] {
        println!("== profile {profile}, linked by {linker}");
        let mut build = folder.cargo(&["rustc", "--locked", "--profile", profile, "--"]);
        build.args(flags).current_dir(workspace().join("tests/adopt"));
        succeeds(build.env("CUDA_HOME", &toolkit))?;
        let output = if profile == "dev" { "debug" } else { profile };
        let program = folder.built().join(output).join("adopt-tests");
        for args in [&["sim"][..], &["audit", "--sim"]] {
            succeeds_and(kernels(args, &program).env("LD_LIBRARY_PATH", &libraries), ADOPTED)?;
        }
    }
    Ok(())
}

/// The line that the program prints if modules were adopted.
const ADOPTED: &str = "adopted";

/// Returns a `cargo kernels` command that runs a program.
pub(crate) fn kernels(args: &[&str], program: &Path) -> Command {
    let mut command = cargo();
    command.current_dir(workspace());
    command.args(["run", "--quiet", "--locked", "--package", "cargo-kernels", "--", "kernels"]);
    command.args(args).arg("--").arg(program);
    command
}

pub(crate) fn cuda_core() -> Outcome {
    let built = std::path::absolute(target())?.join("cudarc/target");
    let mut build = cargo();
    build.current_dir(workspace().join("examples/cuda-core")).env("CARGO_TARGET_DIR", &built);
    succeeds(build.envs(toolkit::cuda_core()?).args(["build", "--quiet", "--locked"]))?;
    let program = built.join("debug/cuda-core-example");
    const BOTH: &str = "computed 1048576 elements twice, all of them right";
    succeeds_and(&mut kernels(&["sim"], &program), BOTH)?;
    succeeds_and(&mut kernels(&["audit", "--sim"], &program), BOTH)
}

/// A package outside of the workspace.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new(name: &str, dependencies: &str) -> Outcome<Self> {
        let folder = std::path::absolute(target())?.join("cudarc").join(name);
        remove(&folder)?;
        fs::create_dir_all(folder.join("src"))?;
        let workspace = workspace();
        let manifest = format!(
            "[package]\nname = \"program\"\nedition = \"2024\"\n[workspace]\n[features]\n\
             dynamic-loading = [\"cudarc/dynamic-loading\"]\n\
             dynamic-linking = [\"cudarc/dynamic-linking\"]\n\
             static-linking = [\"cudarc/static-linking\"]\n[dependencies]\n{dependencies}\
             cudarc = {{ version = \"0.19.10\", default-features = false }}\n\
             kernel-registry.path = {:?}\nkernel-audit = {{ path = {:?}, features = [\"watch\"] }}\n",
            workspace.join("kernel-registry"),
            workspace.join("kernel-audit"),
        );
        fs::write(folder.join("Cargo.toml"), manifest)?;
        fs::write(folder.join("src/main.rs"), PROGRAM)?;
        fs::copy(workspace.join(IMAGE), folder.join("saxpy.ptx"))?;
        fs::copy(workspace.join("Cargo.lock"), folder.join("Cargo.lock"))?;
        Ok(Folder(folder))
    }

    /// Returns the target folder, shared by all packages.
    fn built(&self) -> PathBuf {
        self.0.with_file_name("target")
    }

    pub(crate) fn cargo(&self, args: &[&str]) -> Command {
        let mut command = cargo();
        command.current_dir(&self.0).env("CARGO_TARGET_DIR", self.built());
        command.env_remove("CUDARC_CUDA_VERSION").args(&args[..1]).arg("--quiet").args(&args[1..]);
        command
    }

    /// Writes a stub of nvcc of this release, and returns a `PATH` that starts with its folder.
    pub(crate) fn nvcc_on_path(&self, release: &str) -> Outcome<String> {
        let folder = self.0.join(release);
        stubs::nvcc(&folder, release)?;
        stubs::first_on_path(&folder)
    }

    /// Makes a folder for `CUDA_HOME`, with stubs of NVIDIA's libraries.
    fn toolkit(&self) -> Outcome<PathBuf> {
        let toolkit = self.0.join("toolkit");
        let libraries = toolkit.join("lib64");
        stubs::libraries(&libraries, &self.0)?;
        stubs::static_libraries(&libraries)?;
        Ok(toolkit)
    }

    /// Runs the program: without a driver, on the simulated one, and under the audit.
    fn runs(&self, linked: bool) -> Outcome {
        let program = self.built().join("debug/program");
        let without = output(Command::new(&program).arg("audit"))?;
        let expected = if linked { "libcuda.so.1" } else { "error: there is no CUDA driver" };
        // On a machine with a driver, the program either computes or prints the driver's error.
        if !text(&without).contains(expected) && !without.status.success() {
            return Err(format!("without a driver: {}", text(&without)).into());
        }
        succeeds_and(&mut kernels(&["sim"], &program), COMPUTED)?;
        succeeds_and(&mut kernels(&["audit", "--sim"], &program), COMPUTED)?;
        // The program installs the audit itself. A linked driver was bound by the loader before that, so the
        // audit reports that it's too late.
        let inside = if linked { "the driver was opened before the audit was installed" } else { COMPUTED };
        succeeds_and(kernels(&["sim"], &program).arg("audit"), inside)
    }
}
