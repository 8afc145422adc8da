//! The command line: commands, options and help texts, parsed by clap.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::diff::{Figure, Growth, Limits};
use crate::failure::Failure;
use crate::fit;

#[derive(Parser)]
#[command(name = "cargo", bin_name = "cargo", disable_help_subcommand = true)]
pub(crate) enum Cargo {
    /// GPU kernels of a program: list, show and check them in its binary, declare and prebuild them, diagnose this machine,
    /// or run without a GPU
    Kernels(Kernels),
}

#[derive(Args)]
#[command(version, arg_required_else_help = true)]
pub(crate) struct Kernels {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// List the kernels registered in a binary, or in the binaries that the package builds
    List(List),
    /// Show one kernel in full: its declaration, and the resources it uses in each variant of its image
    Show(Show),
    /// Compare declarations with images: those in the binary, or images built elsewhere
    Check(Check),
    /// Compare the kernels of two builds: added, removed, signatures, registers, stack, shared memory, code
    Diff(Diff),
    /// Compute which kernels fit beside one that stays on the GPU, without a GPU
    Fit(fit::Options),
    /// Write a Rust module that declares the kernels of an image or a CUDA source, or check that one is up to date
    Declare(Declare),
    /// Make the images of a package's CUDA sources that are committed, for builds without a CUDA compiler
    Prebuild(Prebuild),
    /// Make a new package with a kernel, its declaration, and a test that needs no GPU
    New(New),
    /// Diagnose whether kernels can be warmed and launched here: driver, GPUs, variables, compiler, cudarc
    Doctor(Doctor),
    /// Run a program on a simulated CUDA driver, without a GPU: `cargo kernels sim cargo test`
    #[cfg(target_os = "linux")]
    Sim(Sim),
    /// Watch a program's driver calls: what it loads late, what takes long, and what never returns
    #[cfg(target_os = "linux")]
    Audit(Audit),
    /// Write a script with which a shell completes the arguments of `cargo-kernels`
    Completions(Completions),
}

pub(crate) const EXIT_CODES: &str = "\
Exit codes: 0 done, 2 wrong usage, 3 no such file, 4 permission denied, 5 not a binary or image, 6 truncated or damaged,
7 no kernels, or none of this name, 8 records newer than this tool, 9 the build failed, 10 images disagree with
declarations or sources, also for `--check`, 11 the doctor found problems, 13 `diff` found changes beyond the limits, 14 `fit` found a kernel that does
not fit, 15 part of an image could not be read, 1 anything else";

#[derive(Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct List {
    /// Executable, shared library, archive or object file to read; by default the package is built and its
    /// binaries are read
    #[arg(conflicts_with_all = OF_BUILDS)]
    pub(crate) path: Option<PathBuf>,

    /// Write JSON
    #[arg(long)]
    pub(crate) json: bool,

    /// List only the kernels of this package
    #[arg(long = "crate", value_name = "NAME")]
    pub(crate) package: Option<String>,

    #[command(flatten)]
    pub(crate) build: Build,
}

#[derive(Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Show {
    /// Path of the kernel or its last parts, such as `reduce` or `templates::reduce`; or its symbol
    #[arg(required_unless_present = "all")]
    name: Option<String>,

    /// Executable, shared library, archive, object file or image to read; by default the package is built and its
    /// binaries are read
    #[arg(conflicts_with_all = OF_BUILDS)]
    path: Option<PathBuf>,

    /// Show all kernels, of the file that is the only argument then, or of the package
    #[arg(long, conflicts_with = "path")]
    pub(crate) all: bool,

    /// Write JSON
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) build: Build,
}

impl Show {
    /// The name, or none for all kernels, and the file.
    pub(crate) fn name_and_path(&self) -> (Option<&str>, Option<&Path>) {
        match self.all {
            true => (None, self.name.as_deref().map(Path::new)),
            false => (self.name.as_deref(), self.path.as_deref()),
        }
    }
}

#[derive(Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Check {
    /// Executable, shared library, archive or object file to read; by default the package is built and its
    /// binaries are read
    #[arg(conflicts_with_all = OF_BUILDS)]
    pub(crate) path: Option<PathBuf>,

    /// Compare with this image (PTX, cubin or fatbin) instead of those in the binary; can be repeated
    #[arg(long, value_name = "FILE")]
    pub(crate) image: Vec<PathBuf>,

    /// Also fail for this: kernels in images that no declaration names
    #[arg(long, value_name = "WHAT")]
    pub(crate) deny: Vec<Deny>,

    /// Write JSON
    #[arg(long)]
    pub(crate) json: bool,

    /// Check only the kernels of this package
    #[arg(long = "crate", value_name = "NAME")]
    pub(crate) package: Option<String>,

    #[command(flatten)]
    pub(crate) build: Build,
}

#[derive(Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Diff {
    /// The earlier build: a binary with kernels, an image (PTX, cubin or fatbin), or a file with the output of
    /// `cargo kernels show --all --json` for either
    pub(crate) old: PathBuf,

    /// The later build, likewise
    pub(crate) new: PathBuf,

    /// Write JSON
    #[arg(long)]
    pub(crate) json: bool,

    /// Write Markdown, for a pull request
    #[arg(long, conflicts_with = "json")]
    pub(crate) markdown: bool,

    /// Also write a page of HTML to this file
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,

    #[command(flatten)]
    limits: DiffLimits,
}

/// Limits for the kernels of both builds.
#[derive(Args)]
#[command(next_help_heading = "Limits (for each kernel and architecture of both builds)")]
struct DiffLimits {
    /// By how much registers may grow: `+10%` or `+8`
    #[arg(long, value_name = "GROWTH")]
    max_registers: Option<Growth>,

    /// By how much the stack may grow
    #[arg(long, value_name = "GROWTH")]
    max_stack: Option<Growth>,

    /// By how much static shared memory may grow
    #[arg(long, value_name = "GROWTH")]
    max_shared: Option<Growth>,

    /// By how much machine code, or the text in PTX, may grow
    #[arg(long, value_name = "GROWTH")]
    max_code: Option<Growth>,

    /// Local frames may not grow: spilled registers are in them, and images do not tell them from arrays
    #[arg(long)]
    no_new_spills: bool,

    /// No kernel may be removed
    #[arg(long)]
    no_removed: bool,
}

impl Diff {
    pub(crate) fn limits(&self) -> Limits {
        let DiffLimits { max_registers, max_stack, max_shared, max_code, no_new_spills, no_removed } =
            self.limits;
        let growth = [
            (Figure::Registers, max_registers),
            (Figure::Stack, max_stack),
            (Figure::Shared, max_shared),
            (Figure::Code, max_code),
        ];
        let growth = growth.into_iter().filter_map(|(figure, growth)| Some((figure, growth?)));
        Limits { growth: growth.collect(), no_new_spills, no_removed }
    }
}

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

#[derive(Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct New {
    /// Folder to make; its last part is the package's name
    #[arg(value_name = "NAME")]
    pub(crate) folder: PathBuf,

    /// Depend on a checkout of kernel-registry, the folder that `git clone` made, by a relative path if this is one
    #[arg(long, value_name = "DIR")]
    pub(crate) path: Option<PathBuf>,

    /// Make a git repository, unless the folder is in one; or none
    #[arg(long, value_name = "VCS", default_value = "git")]
    pub(crate) vcs: Vcs,
}

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

const COMPLETIONS: &str = "\
Shells complete `cargo-kernels`, the program, which takes the same arguments as `cargo kernels`. For bash:

    cargo kernels completions bash > ~/.local/share/bash-completion/completions/cargo-kernels";

#[derive(Args)]
#[command(after_help = COMPLETIONS)]
pub(crate) struct Completions {
    /// The shell
    pub(crate) shell: clap_complete::Shell,
}

#[cfg(target_os = "linux")]
const SIM: &str = "\
The program and its children find the simulated driver as libcuda.so and libcuda.so.1. The first use builds it
with cargo, in the target directory of the package here, or in ~/.cache. Options override the variables
`KERNEL_REGISTRY_SIM_*`. NVIDIA's runtime API (cudaMalloc) does not work on it.

Exit codes: those of the program; 127 if there is none of that name, 126 if it cannot be run, 2 wrong usage, 9 the driver
could not be built, 1 anything else";

#[cfg(target_os = "linux")]
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

#[cfg(target_os = "linux")]
const AUDIT: &str = "\
The program and its children find a library as libcuda.so.1 that stands before the driver. The first use builds it with
cargo, in the target directory of the package here, or in ~/.cache. A program says that it is ready by calling
`kernel_registry_audit_ready()`, which that library exports; in Python `ctypes.CDLL(\"libcuda.so.1\")` has it.

Exit codes: those of the program; 12 if it succeeded and there are findings: calls that were late after the program was
ready, or that did not return in time; 127 if there is no such program, 126 if it cannot be run, 2 wrong usage, 9 the library
could not be built, 1 anything else. Of `--merge`: 12 if there are findings, 3 no such file, 6 no record could be read";

#[cfg(target_os = "linux")]
#[derive(Args)]
#[command(after_help = AUDIT)]
pub(crate) struct Audit {
    /// Watch the program on the simulated driver, without a GPU
    #[arg(long)]
    pub(crate) sim: bool,

    /// What happens to calls that are late after the program is ready: they are reported, answered with
    /// CUDA_ERROR_NOT_PERMITTED, or end the program
    #[arg(long, value_name = "WHAT", value_parser = ["report", "refuse", "abort"], default_value = "report")]
    pub(crate) after_ready: String,

    /// Take the program as ready after this time, if it does not say so itself
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) ready_after: Option<f64>,

    /// Take a process as ready when it gets this signal
    #[arg(long, value_name = "SIGNAL", value_parser = ready_signal)]
    pub(crate) ready_signal: Option<i32>,

    /// Explain a call that has not returned for this time
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value_t = 5.0)]
    pub(crate) hang_after: f64,

    /// What happens then
    #[arg(long, value_name = "WHAT", value_parser = ["report", "abort"], default_value = "report")]
    pub(crate) on_hang: String,

    /// List other calls that take this long
    #[arg(long, value_name = "MILLISECONDS", default_value_t = 10)]
    pub(crate) slow: u64,

    /// Give each process's record room for so many events, of 80 bytes each
    #[arg(long, value_name = "NUMBER", default_value_t = 65_536, value_parser = clap::value_parser!(u32).range(1..=16_777_216))]
    pub(crate) events: u32,

    /// Write the report as JSON to this file, or to the standard output with `-`
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,

    /// Write the report as a page to this file: a summary, a timeline, and tables
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,

    /// Write the timeline to this file, in the Trace Event format of Perfetto and chrome://tracing
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: Option<PathBuf>,

    /// Run no program: report on these records, or on those in these folders, and compare the processes
    #[arg(
        long,
        value_name = "RECORD",
        num_args = 1..,
        conflicts_with_all = ["sim", "after_ready", "ready_after", "hang_after", "on_hang", "slow", "records", "events", "ready_signal"]
    )]
    pub(crate) merge: Vec<PathBuf>,

    /// Keep the records of the processes in this folder
    #[arg(long, value_name = "FOLDER")]
    pub(crate) records: Option<PathBuf>,

    /// Build without the network
    #[arg(long)]
    pub(crate) offline: bool,

    /// Run nothing, but copy this command and the library to a folder, for machines without Rust
    #[arg(
        long,
        value_name = "FOLDER",
        conflicts_with_all = ["sim", "after_ready", "ready_after", "hang_after", "on_hang", "slow", "records", "events", "ready_signal", "json", "html", "trace", "merge", "command"]
    )]
    pub(crate) pack: Option<PathBuf>,

    /// The program and its arguments
    #[arg(
        trailing_var_arg = true,
        allow_hyphen_values = true,
        required_unless_present_any = ["pack", "merge"],
        conflicts_with = "merge",
        value_name = "COMMAND"
    )]
    pub(crate) command: Vec<OsString>,
}

/// A time in seconds.
fn seconds(value: &str) -> Result<f64, &'static str> {
    let seconds = value.parse().ok().filter(|seconds| Duration::try_from_secs_f64(*seconds).is_ok());
    seconds.ok_or("write it as 2.5")
}

/// A signal that programs seldom use for something else.
#[cfg(target_os = "linux")]
fn ready_signal(value: &str) -> Result<i32, &'static str> {
    match value.strip_prefix("SIG").unwrap_or(value) {
        "USR1" => Ok(libc::SIGUSR1),
        "USR2" => Ok(libc::SIGUSR2),
        _ => Err("write it as USR1 or USR2"),
    }
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

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Vcs {
    Git,
    None,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Deny {
    Unused,
}

/// The options of a build, which a path makes needless.
pub(crate) const OF_BUILDS: [&str; 12] = [
    "bin",
    "release",
    "profile",
    "target",
    "spec",
    "features",
    "all_features",
    "no_default_features",
    "manifest_path",
    "locked",
    "offline",
    "quiet",
];

/// Options that are passed on to `cargo build`.
#[derive(Args)]
#[command(next_help_heading = "Building (without a path)")]
pub(crate) struct Build {
    /// Build and read this binary only
    #[arg(long, value_name = "NAME")]
    pub(crate) bin: Option<String>,

    /// Build with optimisations
    #[arg(short, long)]
    pub(crate) release: bool,

    /// Build with this profile
    #[arg(long, value_name = "NAME", conflicts_with = "release")]
    pub(crate) profile: Option<String>,

    /// Build for this target
    #[arg(long, value_name = "TRIPLE")]
    pub(crate) target: Option<String>,

    #[command(flatten)]
    pub(crate) package: Package,
}

/// Which package, and how cargo is run on it.
#[derive(Args)]
pub(crate) struct Package {
    /// Build this package of the workspace
    #[arg(short = 'p', long = "package", value_name = "SPEC")]
    pub(crate) spec: Option<String>,

    /// Features to activate
    #[arg(short = 'F', long, value_name = "FEATURES")]
    pub(crate) features: Vec<String>,

    /// Activate all features
    #[arg(long)]
    pub(crate) all_features: bool,

    /// Do not activate the default feature
    #[arg(long)]
    pub(crate) no_default_features: bool,

    /// Path to Cargo.toml
    #[arg(long, value_name = "PATH")]
    pub(crate) manifest_path: Option<PathBuf>,

    /// Fail if Cargo.lock would change
    #[arg(long)]
    pub(crate) locked: bool,

    /// Use no network
    #[arg(long)]
    pub(crate) offline: bool,

    /// Print no messages of cargo but warnings and errors
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

/// The arguments as cargo passes them: `cargo-kernels list` and `cargo kernels list` mean the same.
pub(crate) fn arguments() -> Vec<OsString> {
    let mut arguments: Vec<_> = std::env::args_os().collect();
    if arguments.get(1).is_none_or(|first| first != "kernels") {
        arguments.insert(arguments.len().min(1), "kernels".into());
    }
    arguments
}

/// The program of a command, and its arguments. What begins with a dash is a mistyped option.
pub(crate) fn program(command: &[OsString]) -> Result<Option<(&OsString, &[OsString])>, Failure> {
    match command.split_first() {
        Some((option, _)) if option.as_encoded_bytes().starts_with(b"-") => {
            Err(Failure::NoOption { option: option.clone() })
        }
        split => Ok(split),
    }
}
