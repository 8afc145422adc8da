//! `cargo xtask cudarc`: builds and runs a program with each way in which cudarc loads or links the driver; checks it with each
//! CUDA version. `cargo xtask candle`: checks a program that depends on candle too, which decides how cudarc is built, and
//! kernel-registry-candle. `cargo xtask adopt`: builds and runs a program whose modules are adopted, in several profiles.
//! `cargo xtask cuda-core`: builds and runs examples/cuda-core, which uses NVIDIA's cuda-core beside cudarc.
//!
//! The other commands need nothing of NVIDIA's: linked programs are linked with stubs, as on machines without a driver, and nvcc is
//! a script. `cuda-core` needs NVIDIA's headers, from Python wheels.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use cargo_metadata::{MetadataCommand, Package};

use crate::run::{Outcome, cargo, remove, target, workspace};
use crate::toolkit;

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

/// A script in place of nvcc. It answers as nvcc does, and makes empty files, because candle's build script writes the names of
/// these files into its sources.
const NVCC: &str = r#"#!/bin/sh
case "$1" in
--version) printf 'nvcc\n\n\nCuda compilation tools, release RELEASE, VRELEASE.0\n' ;;
--list-gpu-code) echo sm_80 ;;
esac
for argument; do
    case "$before" in
    -o) : >"$argument" ;;
    --output-directory) folder=$argument ;;
    esac
    before=$argument
done
[ -z "$folder" ] || : >"$folder/$(basename "$before" .cu).ptx"
"#;

/// Libraries that a program with `static-linking` is linked with, apart from NVRTC.
const EMPTY: [&str; 4] = ["stdc++", "cudart_static", "nvptxcompiler_static", "nvrtc-builtins_static"];

pub(crate) fn cudarc() -> Outcome {
    let folder = Folder::new("cudarc", "")?;
    let cudarc = folder.cudarc()?;
    let toolkit = folder.toolkit(cudarc.manifest_path.as_std_path())?;

    for way in ["", "dynamic-loading", "dynamic-linking", "static-linking"] {
        println!("== {}", if way.is_empty() { "no way is named" } else { way });
        let mut build = folder.cargo(&["build", "--features", way]);
        succeeds(build.env("CUDA_HOME", &toolkit))?;
        folder.runs(way.ends_with("linking"))?;
    }
    for version in cudarc.features.keys().filter_map(|feature| feature.strip_prefix("cuda-1")) {
        let version = format!("1{version}");
        // Some features that begin with `cuda-1` are no versions.
        let Ok(number) = version.parse::<u32>() else { continue };
        println!("== CUDA {number}");
        let mut check = folder.cargo(&["check", "--features", &format!("cudarc/cuda-{version}")]);
        if number >= 12_000 { succeeds(&mut check)? } else { says(&mut check, TOO_OLD)? }
    }
    for (release, error) in [("11.8", TOO_OLD), ("13.5", UNKNOWN)] {
        println!("== nvcc {release} on the path");
        let path = folder.nvcc(release)?;
        says(folder.cargo(&["check"]).env("PATH", &path), error)?;
        succeeds(folder.cargo(&["check"]).env("PATH", &path).env("CUDARC_CUDA_VERSION", "12000"))?;
    }
    Ok(())
}

/// The error of kernel-registry-cudarc.
const TOO_OLD: &str = "Set CUDARC_CUDA_VERSION=12000 for the build";

/// cudarc's own error, which troubleshooting explains.
const UNKNOWN: &str = "Unsupported cuda toolkit version: `13.5`";

pub(crate) fn candle() -> Outcome {
    let folder = Folder::new("candle", "candle-core = { version = \"0.11\", features = [\"cuda\"] }\n")?;
    let path = folder.nvcc("13.0")?;
    succeeds(folder.cargo(&["check"]).env("PATH", &path).env("CUDA_COMPUTE_CAP", "80"))?;
    let mut own = folder.cargo(&["check", "--all-targets", "--locked"]);
    own.current_dir(workspace().join("kernel-registry-candle"));
    succeeds(own.env("PATH", &path).env("CUDA_COMPUTE_CAP", "80"))
}

pub(crate) fn adopt() -> Outcome {
    let folder = Folder::new("adopt", "")?;
    let toolkit = folder.toolkit(folder.cudarc()?.manifest_path.as_std_path())?;
    // ld.bfd and mold do not leave out a library that only code which is left out calls.
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

/// Returns the command `cargo kernels`, which runs a program.
fn kernels(args: &[&str], program: &Path) -> Command {
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
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str, dependencies: &str) -> Outcome<Self> {
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

    /// Returns the target folder, which all packages share.
    fn built(&self) -> PathBuf {
        self.0.with_file_name("target")
    }

    fn cargo(&self, args: &[&str]) -> Command {
        let mut command = cargo();
        command.current_dir(&self.0).env("CARGO_TARGET_DIR", self.built());
        command.env_remove("CUDARC_CUDA_VERSION").args(&args[..1]).arg("--quiet").args(&args[1..]);
        command
    }

    /// Returns the package of cudarc that the program is built with.
    fn cudarc(&self) -> Outcome<Package> {
        let metadata = MetadataCommand::new().current_dir(&self.0).exec()?;
        let found = metadata.packages.into_iter().find(|package| package.name.as_str() == "cudarc");
        found.ok_or_else(|| "cudarc is not among the dependencies".into())
    }

    /// Makes an nvcc of this release, and returns a `PATH` that begins with its folder.
    fn nvcc(&self, release: &str) -> Outcome<String> {
        let folder = self.0.join(release);
        fs::create_dir_all(&folder)?;
        let nvcc = folder.join("nvcc");
        fs::write(&nvcc, NVCC.replace("RELEASE", release))?;
        fs::set_permissions(&nvcc, Permissions::from_mode(0o755))?;
        Ok(format!("{}:{}", folder.display(), std::env::var("PATH")?))
    }

    /// Makes a folder for `CUDA_HOME`, with stubs of the driver and of NVRTC as NVIDIA's toolkit has them: each function returns an
    /// error.
    fn toolkit(&self, cudarc: &Path) -> Outcome<PathBuf> {
        let libraries = self.0.join("toolkit/lib64");
        fs::create_dir_all(&libraries)?;
        let make =
            |program: &str, args: &[&str]| succeeds(Command::new(program).args(args).current_dir(&libraries));
        for (name, bindings, soname) in [
            ("cuda", "src/driver/sys/mod.rs", "libcuda.so.1"),
            ("nvrtc", "src/nvrtc/sys/mod.rs", "libnvrtc.so.13"),
        ] {
            let text = fs::read_to_string(cudarc.with_file_name(bindings))?;
            let prefix = if name == "cuda" { "cu" } else { name };
            let functions = text.split("pub unsafe fn ").filter(|function| function.starts_with(prefix));
            let mut functions: Vec<_> = functions
                .filter_map(|function| function.split('(').next())
                .filter(|name| *name != "culib")
                .collect();
            functions.sort_unstable();
            functions.dedup();
            let stub: String =
                functions.iter().map(|name| format!("int {name}(void) {{ return 34; }}\n")).collect();
            let (source, object) = (format!("{name}.c"), format!("{name}.o"));
            fs::write(libraries.join(&source), stub)?;
            make("cc", &["-fPIC", "-c", &source, "-o", &object])?;
            let (soname, shared) = (format!("-Wl,-soname,{soname}"), format!("lib{name}.so"));
            make("cc", &["-shared", &soname, &object, "-o", &shared])?;
        }
        make("ar", &["crs", "libnvrtc_static.a", "nvrtc.o"])?;
        EMPTY.iter().try_for_each(|name| make("ar", &["crs", &format!("lib{name}.a")]))?;
        Ok(self.0.join("toolkit"))
    }

    /// Runs the program: without a driver, on the simulated one, and under the audit.
    fn runs(&self, linked: bool) -> Outcome {
        let program = self.built().join("debug/program");
        let without = output(Command::new(&program).arg("audit"))?;
        let expected = if linked { "libcuda.so.1" } else { "error: there is no CUDA driver" };
        // On a machine with a driver, the program computes, or prints the driver's error.
        if !text(&without).contains(expected) && !without.status.success() {
            return Err(format!("without a driver: {}", text(&without)).into());
        }
        succeeds_and(&mut kernels(&["sim"], &program), COMPUTED)?;
        succeeds_and(&mut kernels(&["audit", "--sim"], &program), COMPUTED)?;
        // The program installs the audit itself. If the driver is linked, the loader has bound it already, so the audit says that
        // it is too late.
        let inside = if linked { "the driver was opened before the audit was installed" } else { COMPUTED };
        succeeds_and(kernels(&["sim"], &program).arg("audit"), inside)
    }
}

/// Returns standard output and standard error as text.
fn text(output: &Output) -> String {
    String::from_utf8_lossy(&[&*output.stdout, &output.stderr].concat()).into_owned()
}

fn output(command: &mut Command) -> Outcome<Output> {
    command.output().map_err(|error| format!("{command:?}: {error}").into())
}

fn succeeds(command: &mut Command) -> Outcome {
    succeeds_and(command, "")
}

/// Runs a command that has to succeed, and to print these words.
fn succeeds_and(command: &mut Command, words: &str) -> Outcome {
    says_and(command, words, true)
}

/// Runs a command that has to fail with one error, which contains these words.
fn says(command: &mut Command, words: &str) -> Outcome {
    says_and(command, words, false)
}

fn says_and(command: &mut Command, words: &str, success: bool) -> Outcome {
    let output = output(command)?;
    let text = text(&output);
    let errors = text.lines().filter(|line| line.starts_with("error[")).count();
    if output.status.success() != success || !text.contains(words) || errors > 1 {
        let expected = if success { "success" } else { "one error" };
        return Err(format!("{command:?}: expected {expected} with `{words}`, and it said:\n{text}").into());
    }
    Ok(())
}
