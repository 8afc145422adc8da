//! Helpers for the integration tests, which build fixtures as users would, and run programs.

pub mod evidence;
pub mod guide;

use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, Once, OnceLock, PoisonError};
use std::time::Duration;

pub use kernel_registry_command::with_causes;
use serde_json::Value;

/// Installs the simulated driver if `KERNEL_REGISTRY_SIM=1` is set, so that programs for GPUs run without
/// one.
pub fn simulate_if_told() {
    if is_simulated() {
        kernel_registry_sim::install().expect("nothing has used CUDA yet");
    }
}

/// Returns whether `KERNEL_REGISTRY_SIM=1` is set.
pub fn is_simulated() -> bool {
    std::env::var_os("KERNEL_REGISTRY_SIM").is_some_and(|value| value == "1")
}

/// Returns the profiles of a manifest that compile the simulator with optimizations, so that tests run fast.
pub fn fast_simulation() -> String {
    let crates = [("kernel-registry-cuda", 3), ("kernel-registry-image", 1), ("kernel-registry-ptx", 1)];
    crates.map(|(name, level)| format!("[profile.dev.package.{name}]\nopt-level = {level}\n\n")).concat()
}

/// Reports a skipped test on standard error, which the test harness doesn't capture. Panics if the variable
/// `required` is set.
pub fn left_out(why: &str, required: &str) {
    assert!(std::env::var_os(required).is_none(), "{why}, and `{required}` is set");
    let _ = std::io::stderr().write_all(format!("LEFT OUT: {why}\n").as_bytes());
}

/// Arguments of cargo for a release build with LTO. `thin` makes cargo compile dependencies to bitcode that
/// any kind of LTO can use; `fat` here would compile the dependencies again.
pub const LTO: [&str; 3] = ["--release", "--config", "profile.release.lto='thin'"];

/// A compiler flag for the package itself, which overrides the kind of LTO in [`LTO`].
pub const FAT: &str = "-Clto=fat";

/// Compiler flags that choose GNU ld instead of lld, rustc's default on x86-64. rustc only accepts the first
/// flag there.
pub const BFD: &str = if cfg!(target_arch = "x86_64") {
    "-Clinker-features=-lld -Clink-arg=-fuse-ld=bfd"
} else {
    "-Clink-arg=-fuse-ld=bfd"
};
/// Compiler flags that choose mold in the same way.
pub const MOLD: &str = if cfg!(target_arch = "x86_64") {
    "-Clinker-features=-lld -Clink-arg=-fuse-ld=mold"
} else {
    "-Clink-arg=-fuse-ld=mold"
};

/// A way to build a fixture.
#[derive(Clone, Debug, Default)]
pub struct Build<'a> {
    /// Further arguments for `cargo`.
    pub args: &'a [&'a str],
    /// Compiler flags for the package itself. The dependencies are built once, without them.
    pub flags: &'a str,
}

impl Build<'_> {
    /// Builds a package. Returns its executables and libraries, in a folder that later builds don't change.
    pub fn build(&self, package: &str) -> Vec<PathBuf> {
        // Cargo writes every variant of an executable to the same path, so it's copied before the next build.
        static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
        let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let mut cargo = cargo();
        cargo.args([if self.flags.is_empty() { "build" } else { "rustc" }, "--package", package]);
        cargo.args(["--message-format", "json-render-diagnostics"]).args(self.args);
        if !self.args.contains(&"--release") && has_same_features(package) {
            cargo.args(["--features", "same-features"]);
        }
        if !self.flags.is_empty() {
            cargo.arg("--").args(self.flags.split(' '));
        }
        let output = cargo.output().expect("cargo runs");
        assert!(
            output.status.success(),
            "{self:?} of {package}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        let messages = String::from_utf8(output.stdout).expect("JSON is UTF-8");
        let folder = scratch_folder();
        let files = messages.lines().filter_map(|line| files_of(package, line)).flatten();
        files.map(|file| copied(&file, &folder)).collect()
    }

    /// Builds a package with one binary or library, and returns that file.
    pub fn file(&self, package: &str, extension: &str) -> PathBuf {
        let files = self.build(package);
        let found = files.iter().find(|file| file.extension().unwrap_or_default() == extension);
        found.unwrap_or_else(|| panic!("a `{extension}` among {files:?}")).clone()
    }

    /// Builds a package with one executable, and returns it.
    pub fn executable(&self, package: &str) -> PathBuf {
        self.file(package, "")
    }
}

/// Returns whether a fixture has the feature `same-features`, which gives its dependencies the features that
/// the workspace asks for, so that cargo doesn't build them again. In a release nothing is built yet, and
/// more features take longer.
fn has_same_features(package: &str) -> bool {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(package).join("Cargo.toml");
    let manifest = fs::read_to_string(manifest).unwrap_or_default();
    manifest.lines().any(|line| line.starts_with("same-features = ") && line.contains("optional"))
}

/// Returns the files in a message of cargo, if it's about an artifact of this package.
fn files_of(package: &str, line: &str) -> Option<Vec<PathBuf>> {
    let message: Value = serde_json::from_str(line).expect("cargo writes JSON");
    let id = message["package_id"].as_str()?;
    let of_package = message["reason"] == "compiler-artifact" && id.contains(&format!("/{package}#"));
    let is_script = message["target"]["kind"][0] == "custom-build";
    let files = message["filenames"].as_array()?;
    (of_package && !is_script).then(|| files.iter().filter_map(Value::as_str).map(PathBuf::from).collect())
}

/// Copies a file into a folder, and returns the copy's path.
pub fn copied(file: &Path, folder: &Path) -> PathBuf {
    let copy = folder.join(file.file_name().expect("files have names"));
    fs::copy(file, &copy).expect("the target directory is writable");
    copy
}

/// Returns a command that runs cargo in the workspace, without variables that could change a build.
pub fn cargo() -> Command {
    let mut command = Command::new(env!("CARGO"));
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the tests are in the workspace");
    command.current_dir(workspace);
    build_alike(&mut command);
    command
}

/// Makes a command build in the tests' target directory, without variables that could change a build.
/// Packages outside of the workspace get the workspace's profiles too, so that all builds share the compiled
/// dependencies.
pub fn build_alike(command: &mut Command) {
    static PROFILES: Once = Once::new();
    PROFILES.call_once(|| {
        let folder = scratch().join(".cargo");
        fs::create_dir_all(&folder).expect("the target directory is writable");
        let debug = "debug = false";
        let profiles = format!(
            "[profile.dev]\n{debug}\n\n[profile.dev.build-override]\n{debug}\n\n{}",
            fast_simulation()
        );
        fs::write(folder.join("config.toml"), profiles).expect("the target directory is writable");
    });
    command.env("CARGO_TARGET_DIR", target());
    for name in ["RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS", "CARGO_BUILD_TARGET", "RUSTC_WRAPPER"] {
        command.env_remove(name);
    }
}

/// Returns the target directory of the tests. A test can build there, because cargo releases its lock before
/// it runs tests.
pub fn target() -> PathBuf {
    let triple = triple_folder();
    let is_named = triple.file_name().is_some_and(|name| name == TRIPLE);
    let target = if is_named { triple.parent().unwrap_or(&triple) } else { &triple };
    target.to_owned()
}

/// Returns the folder in which cargo puts the programs of the profile `dev`.
pub fn programs() -> PathBuf {
    triple_folder().join("debug")
}

/// Returns the folder in which cargo puts documentation.
pub fn documentation() -> PathBuf {
    triple_folder().join("doc")
}

/// The target that the tests are built for.
const TRIPLE: &str =
    if cfg!(target_arch = "aarch64") { "aarch64-unknown-linux-gnu" } else { "x86_64-unknown-linux-gnu" };

/// Returns the target directory, or the target's folder in it if cargo was told to build for a target.
fn triple_folder() -> PathBuf {
    let executable = std::env::current_exe().expect("a running test has a path");
    executable.ancestors().nth(3).expect("`target/debug/deps` are folders").to_owned()
}

/// Returns a command that compiles for the same target as the tests.
pub fn rustc() -> Command {
    let mut command = Command::new("rustc");
    command.args(["--target", TRIPLE]);
    let linker = format!("CARGO_TARGET_{}_LINKER", TRIPLE.to_uppercase().replace('-', "_"));
    if let Ok(linker) = std::env::var(linker) {
        command.arg(format!("-Clinker={linker}"));
    }
    command
}

/// Returns a limit for the time of a test. Where programs are slow, as under an emulator, the variable
/// `TESTS_PATIENCE` has the factor that makes all limits longer.
pub fn limit(seconds: u64) -> Duration {
    let factor = std::env::var("TESTS_PATIENCE").ok().and_then(|factor| factor.parse().ok());
    Duration::from_secs(seconds) * factor.unwrap_or(1)
}

/// Returns the folder below the target directory for files of tests.
pub fn scratch() -> PathBuf {
    target().join("tests-scratch")
}

/// Creates an empty folder for one test.
pub fn scratch_folder() -> PathBuf {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let executable = std::env::current_exe().expect("a running test has a path");
    let name = executable.file_name().expect("and a name").display().to_string();
    // The folder is named after the test rather than the process or the build, so that the next run reuses
    // it.
    let test = name.split('-').next().unwrap_or_default();
    let folder = scratch().join(test).join(count.to_string());
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("the target directory is writable");
    folder
}

/// Runs `cargo kernels` with these arguments.
pub fn cargo_kernels(args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Output {
    cargo_kernels_command().args(args).output().expect("the tool runs")
}

/// Returns the command `cargo kernels`, which is only built once.
pub fn cargo_kernels_command() -> Command {
    static TOOL: OnceLock<PathBuf> = OnceLock::new();
    // `--workspace` selects the features of the whole workspace, which the dependencies are already built
    // with.
    let build = Build { args: &["--workspace", "--bin", "cargo-kernels"], flags: "" };
    let tool = TOOL.get_or_init(|| build.executable("cargo-kernels"));
    let mut command = Command::new(tool);
    command.arg("kernels");
    command
}

/// Checks that a tool failed with this code and one sentence, and returns that.
pub fn fails(output: Output, code: i32) -> String {
    let message = String::from_utf8(output.stderr).expect("UTF-8");
    assert_eq!(output.status.code(), Some(code), "{message}");
    let sentence = message.strip_prefix("error: ").unwrap_or_else(|| panic!("{message}"));
    sentence.trim_end().to_owned()
}

/// Writes a file in a new folder.
pub fn file(name: &str, bytes: &[u8]) -> PathBuf {
    let file = scratch_folder().join(name);
    fs::write(&file, bytes).expect("the target directory is writable");
    file
}

/// Checks that the documentation has a table row for every field of these JSON objects.
pub fn are_documented(objects: &[&Value], documentation: &str) {
    let fields = |object: &&Value| object.as_object().expect("an object").keys().cloned().collect::<Vec<_>>();
    for field in objects.iter().flat_map(fields) {
        assert!(documentation.contains(&format!("| `{field}` |")), "`{field}` is not documented");
    }
}

/// Returns the Rust paths of the kernels that `cargo kernels list` finds in a file.
pub fn listed(file: &Path) -> Vec<String> {
    let output = cargo_kernels(["list".as_ref(), file.as_os_str(), "--json".as_ref()]);
    assert!(output.status.success(), "{}: {}", file.display(), String::from_utf8_lossy(&output.stderr));
    let list: Value = serde_json::from_slice(&output.stdout).expect("the list is JSON");
    let kernels = list["kernels"].as_array().expect("with an array of kernels");
    kernels.iter().map(|kernel| kernel["path"].as_str().expect("with paths").to_owned()).collect()
}

/// Runs a command that must succeed, and returns the lines that it prints.
pub fn lines(command: &mut Command) -> Vec<String> {
    let output = command.output().expect("the program runs");
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("UTF-8").lines().map(str::to_owned).collect()
}

/// Dependencies with the features that the workspace asks for, so that cargo has already built cudarc.
const CUDARC: &str = "libc = \"0.2\"\n\
    cudarc = { version = \"0.19\", default-features = false, features = [\"cublas\", \"f16\"] }\n";

/// Creates a package outside of the workspace that a test can change and build. It has the workspace's lock
/// file.
pub fn package(main: &str) -> PathBuf {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the tests are in the workspace");
    let folder = scratch_folder();
    let registry = workspace.join("kernel-registry");
    let resident = workspace.join("kernel-registry-resident");
    let resident = if main.contains("kernel_registry_resident") {
        format!("kernel-registry-resident.path = {resident:?}\n")
    } else {
        String::new()
    };
    let manifest = format!(
        "[package]\nname = \"changing\"\nedition = \"2024\"\n[workspace]\n\
         [dependencies]\nkernel-registry.path = {registry:?}\n{resident}{CUDARC}"
    );
    fs::create_dir(folder.join("src")).expect("the target directory is writable");
    fs::write(folder.join("Cargo.toml"), manifest).expect("the target directory is writable");
    fs::write(folder.join("src/main.rs"), main).expect("the target directory is writable");
    copied(&workspace.join("Cargo.lock"), &folder);
    folder
}

/// Adds CUDA sources to a package, a build script that compiles them, and a fake toolkit. The toolkit's
/// compiler copies each source as PTX, without the lines that begin with `extern` or `struct`. Returns the
/// toolkit's folder.
pub fn with_sources(package: &Path, sources: &[(&str, &str)]) -> PathBuf {
    const NVCC: &str = "#!/bin/sh\n\
        if [ \"$1\" = --version ]; then echo 'Cuda compilation tools, release 13.0, V13.0.88'; exit; fi\n\
        while [ $# -gt 0 ]; do\n\
        case $1 in -o) out=$2; shift ;; *.cu) src=$1 ;; esac; shift\n\
        done\n\
        sed '/^extern/d; /^struct/d; /^__global__/d' \"$src\" > \"$out\"\n";
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the tests are in the workspace");
    let write = |path: &str, text: &str| {
        let path = package.join(path);
        fs::create_dir_all(path.parent().expect("in the package")).expect("the target directory is writable");
        fs::write(&path, text).expect("the target directory is writable");
        path
    };
    let manifest = fs::read_to_string(package.join("Cargo.toml")).expect("the package has a manifest");
    // All test packages share a target directory, where cargo confuses packages with the same name and time.
    let number = package.file_name().expect("a folder").display();
    let manifest = manifest.replace("\"changing\"", &format!("\"changing-{number}\""));
    let build = workspace.join("kernel-registry-build");
    write("Cargo.toml", &format!("{manifest}[build-dependencies]\nkernel-registry-build.path = {build:?}\n"));
    write("build.rs", "fn main() { kernel_registry_build::compile(); }\n");
    for (path, text) in sources {
        write(path, text);
    }
    let nvcc = write("toolkit/bin/nvcc", NVCC);
    fs::set_permissions(nvcc, fs::Permissions::from_mode(0o755)).expect("the target directory is writable");
    write("toolkit/include/cuda_runtime.h", "");
    package.join("toolkit")
}

/// Makes cargo find a toolkit on `PATH`. A change of `CUDA_HOME` would make cargo build cudarc and its
/// dependents again.
pub fn with_toolkit(cargo: &mut Command, toolkit: &Path) {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = [toolkit.join("bin")].into_iter().chain(std::env::split_paths(&path));
    cargo.env("PATH", std::env::join_paths(folders).expect("paths without colons"));
    cargo.env_remove("CUDA_HOME").env_remove("CUDA_PATH");
}

/// Compiles the code in the README and the guides.
#[cfg(doctest)]
mod documents {
    #[doc = include_str!("../../README.md")]
    struct Readme;
    #[doc = include_str!("../../docs/audit.md")]
    struct Audit;
    #[doc = include_str!("../../docs/audit-late.md")]
    struct AuditLate;
    #[doc = include_str!("../../docs/audit-sections.md")]
    struct AuditSections;
    #[doc = include_str!("../../docs/audit-reference.md")]
    struct AuditReference;
    #[doc = include_str!("../../kernel-audit/README.md")]
    struct AuditCrate;
    #[doc = include_str!("../../docs/rust-kernels.md")]
    struct RustKernels;
    #[doc = include_str!("../../docs/guide/adopt.md")]
    struct Adopt;
    #[doc = include_str!("../../docs/guide/baked.md")]
    struct Baked;
    #[doc = include_str!("../../docs/guide/candle.md")]
    struct Candle;
    #[doc = include_str!("../../docs/guide/ci.md")]
    struct Ci;
    #[doc = include_str!("../../docs/guide/command.md")]
    struct Command;
    #[doc = include_str!("../../docs/guide/crates.md")]
    struct Crates;
    #[doc = include_str!("../../docs/guide/cuda-core.md")]
    struct CudaCore;
    #[doc = include_str!("../../docs/guide/declaring.md")]
    struct Declaring;
    #[doc = include_str!("../../docs/guide/explore.md")]
    struct Explore;
    #[doc = include_str!("../../docs/guide/faq.md")]
    struct Faq;
    #[doc = include_str!("../../docs/guide/from-cudarc.md")]
    struct FromCudarc;
    #[doc = include_str!("../../docs/guide/graphs.md")]
    struct Graphs;
    #[doc = include_str!("../../docs/guide/images.md")]
    struct Images;
    #[doc = include_str!("../../docs/guide/linked.md")]
    struct Linked;
    #[doc = include_str!("../../docs/guide/resident-header.md")]
    struct ResidentHeader;
    #[doc = include_str!("../../docs/guide/races.md")]
    struct Races;
    #[doc = include_str!("../../docs/guide/services.md")]
    struct Services;
    #[doc = include_str!("../../docs/guide/start.md")]
    struct Start;
    #[doc = include_str!("../../docs/guide/troubleshooting.md")]
    struct Troubleshooting;
    #[doc = include_str!("../../docs/guide/versions.md")]
    struct Versions;
    #[doc = include_str!("../../docs/guide/warming.md")]
    struct Warming;
}
