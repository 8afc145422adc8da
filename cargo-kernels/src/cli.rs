//! The command line, parsed by clap. The files in `cli` have the options of `fit`, of `sim`, and of builds by cargo.

mod bake;
mod build;
mod fit;
mod growth;
#[cfg(not(target_os = "linux"))]
mod linux;
#[cfg(target_os = "linux")]
mod sim;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::{Args, Parser, Subcommand, ValueEnum};
use kernel_registry_image::Target;

use self::build::OF_BUILDS;
use crate::failure::EXIT_CODES;

pub(crate) use self::bake::Bake;
pub(crate) use self::build::{Build, Package};
pub(crate) use self::fit::Fit;
pub(crate) use self::growth::Growth;
#[cfg(not(target_os = "linux"))]
pub(crate) use self::linux::OnLinux;
#[cfg(target_os = "linux")]
pub(crate) use self::sim::Sim;

#[derive(Parser)]
#[command(name = "cargo", bin_name = "cargo", disable_help_subcommand = true)]
pub(crate) enum Cargo {
    /// GPU kernels of a program: list, show and check them in its binary, declare and prebuild them, diagnose this machine,
    /// or run without a GPU
    Kernels(Kernels),
}

#[derive(Args)]
#[command(version, propagate_version = true, arg_required_else_help = true)]
pub(crate) struct Kernels {
    #[command(subcommand)]
    pub(crate) command: Command,
}

// A process has one value of this type, so its size does not matter.
#[cfg_attr(target_os = "linux", expect(clippy::large_enum_variant))]
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
    /// Compute which kernels fit beside a resident kernel, without a GPU
    Fit(Fit),
    /// Write a Rust module that declares the kernels of an image or a CUDA source, or check that one is up to date
    Declare(Declare),
    /// Make the images of a package's CUDA sources that are committed, for builds without a CUDA compiler
    Prebuild(Prebuild),
    /// Compile the PTX of a binary, and write the machine code beside it, so that no driver has to compile it
    Bake(Bake),
    /// Make a new package with a kernel, its declaration, and a test that needs no GPU
    New(New),
    /// Diagnose whether kernels can be warmed and launched here: driver, GPUs, variables, compiler, cudarc
    Doctor(Doctor),
    /// Run a program on a simulated CUDA driver, without a GPU: `cargo kernels sim cargo test`
    #[cfg(target_os = "linux")]
    Sim(Sim),
    /// Watch a program's driver calls: what it loads late, what takes long, and what never returns
    #[cfg(target_os = "linux")]
    Audit(kernel_audit::command::Audit),
    /// Run a program on a simulated CUDA driver: on Linux only
    #[cfg(not(target_os = "linux"))]
    #[command(hide = true)]
    Sim(OnLinux),
    /// Watch a program's driver calls: on Linux only
    #[cfg(not(target_os = "linux"))]
    #[command(hide = true)]
    Audit(OnLinux),
}

#[derive(Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct List {
    /// Write JSON
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) binaries: Binaries,
}

/// Options that choose the binaries to read, and the package whose kernels count.
#[derive(Args)]
pub(crate) struct Binaries {
    /// Executable, shared library, archive or object file to read; by default the package is built and its
    /// binaries are read
    #[arg(conflicts_with_all = OF_BUILDS)]
    pub(crate) path: Option<PathBuf>,

    /// Only the kernels of this package
    #[arg(long = "crate", value_name = "NAME")]
    pub(crate) package: Option<String>,

    #[command(flatten)]
    pub(crate) build: Build,
}

#[derive(Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Show {
    /// Path of the kernel or its last parts, such as `reduce` or `templates::reduce`; or its symbol; or a file, to show all of
    /// its kernels
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
    /// Returns the name of the wanted kernel, or `None` for all, and the file to read. If the only argument is a file, all of its
    /// kernels are wanted.
    pub(crate) fn name_and_path(&self) -> (Option<&str>, Option<&Path>) {
        let is_file =
            |name: &String| self.path.is_none() && name.contains(['/', '.']) && Path::new(name).is_file();
        match self.all || self.name.as_ref().is_some_and(is_file) {
            true => (None, self.name.as_deref().map(Path::new)),
            false => (self.name.as_deref(), self.path.as_deref()),
        }
    }
}

#[derive(Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Check {
    /// Compare with this image (PTX, cubin or fatbin) instead of those in the binary; can be repeated
    #[arg(long, value_name = "FILE")]
    pub(crate) image: Vec<PathBuf>,

    /// Also fail for this
    #[arg(long, value_name = "WHAT")]
    pub(crate) deny: Vec<Deny>,

    /// For `--deny jit`: the architecture that has to have machine code, such as sm_90; can be repeated. By default any is enough
    #[arg(long, value_name = "ARCH")]
    pub(crate) arch: Vec<Target>,

    /// For `--deny jit`: the file of baked code; by default the one beside the binary
    #[arg(long, value_name = "FILE")]
    pub(crate) baked: Option<PathBuf>,

    /// Write JSON
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) binaries: Binaries,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Deny {
    /// Kernels of images that nothing declares
    Unused,
    /// Crates with kernels that the binary depends on and lacks, because no code names them. With a path: the binary of a package in the
    /// current folder, as cargo built it
    Unlinked,
    /// Parameters with other names than in the CUDA source
    Names,
    /// Kernels that nvcc linked and no `warm_all` warms
    Unwarmed,
    /// Images of which the driver compiles PTX, because neither they nor the file of baked code have machine code
    Jit,
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

    #[command(flatten)]
    pub(crate) limits: DiffLimits,
}

/// Limits for the kernels of both builds.
#[derive(Args, Default)]
#[command(next_help_heading = "Limits (for each kernel and architecture of both builds)")]
pub(crate) struct DiffLimits {
    /// By how much registers may grow: `+10%` or `+8`
    #[arg(long, value_name = "GROWTH")]
    pub(crate) max_registers: Option<Growth>,

    /// By how much the stack may grow
    #[arg(long, value_name = "GROWTH")]
    pub(crate) max_stack: Option<Growth>,

    /// By how much static shared memory may grow
    #[arg(long, value_name = "GROWTH")]
    pub(crate) max_shared: Option<Growth>,

    /// By how much machine code, or the text in PTX, may grow
    #[arg(long, value_name = "GROWTH")]
    pub(crate) max_code: Option<Growth>,

    /// Local frames may not grow: spilled registers are in them, and images do not tell them from arrays
    #[arg(long)]
    pub(crate) no_new_spills: bool,

    /// No kernel may be removed
    #[arg(long)]
    pub(crate) no_removed: bool,
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

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Vcs {
    Git,
    None,
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

/// Returns the arguments with `kernels` as the first argument, as cargo passes them: so `cargo-kernels list` means `cargo kernels
/// list`.
pub(crate) fn arguments() -> Vec<OsString> {
    let mut arguments: Vec<_> = std::env::args_os().collect();
    if arguments.get(1).is_none_or(|first| first != "kernels") {
        arguments.insert(arguments.len().min(1), "kernels".into());
    }
    arguments
}
