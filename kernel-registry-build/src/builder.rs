//! Defines `Build`: the options of a build script.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use crate::environment::Environment;
use crate::options::Options;

/// Sources to compile, and the options to compile them with. Paths are relative to the package, the folder of
/// Cargo.toml.
///
/// ```no_run
/// // build.rs
/// fn main() {
///     kernel_registry_build::Build::new()
///         .file("cuda/saxpy.cu")
///         .files(["cuda/reduce.cu", "cuda/cluster.cu"])
///         .arch("sm_80")
///         .ptx("compute_75")
///         .arch_for("cuda/cluster.cu", "sm_90")
///         .ptx_for("cuda/cluster.cu", "compute_90")
///         .std("c++20")
///         .include("include")
///         .define("WARP", "32")
///         .flag("--use_fast_math")
///         .compile();
/// }
/// ```
#[derive(Clone, Debug, Default)]
#[must_use = "nothing is compiled before `compile` or `try_compile` is called"]
pub struct Build {
    pub(crate) files: Vec<PathBuf>,
    pub(crate) archs: Vec<String>,
    pub(crate) ptx: Vec<String>,
    /// Architectures of individual sources: path, real architectures, virtual architectures.
    pub(crate) special: Vec<(PathBuf, Vec<String>, Vec<String>)>,
    pub(crate) options: Options,
    pub(crate) package: Option<PathBuf>,
    pub(crate) out_dir: Option<PathBuf>,
    pub(crate) quiet: bool,
    pub(crate) environment: Environment,
}

impl Build {
    /// Creates a build of every `cuda/**/*.cu` of the package, for the default architectures.
    pub fn new() -> Self {
        Build::default()
    }

    /// Compiles this source. If files are named, other files in `cuda/` are not compiled.
    pub fn file(mut self, source: impl AsRef<Path>) -> Self {
        self.files.push(source.as_ref().to_owned());
        self
    }

    /// Compiles these sources.
    pub fn files<P: AsRef<Path>>(self, sources: impl IntoIterator<Item = P>) -> Self {
        sources.into_iter().fold(self, Build::file)
    }

    /// Adds machine code for an architecture, like `sm_90`. If NVRTC compiles and does not know the
    /// architecture, it makes only PTX, and a warning is printed.
    pub fn arch(mut self, arch: impl Into<String>) -> Self {
        self.archs.push(arch.into());
        self
    }

    /// Adds PTX for an architecture, like `compute_75`. Drivers compile this PTX for every newer device.
    ///
    /// If only `arch` was called, there is PTX for the lowest of its architectures.
    pub fn ptx(mut self, arch: impl Into<String>) -> Self {
        self.ptx.push(arch.into());
        self
    }

    /// Adds machine code to the image of one source. That image then has only the targets set for this
    /// source.
    pub fn arch_for(mut self, source: impl AsRef<Path>, arch: impl Into<String>) -> Self {
        self.special(source.as_ref()).0.push(arch.into());
        self
    }

    /// Adds PTX to the image of one source. That image then has only the targets set for this source.
    pub fn ptx_for(mut self, source: impl AsRef<Path>, arch: impl Into<String>) -> Self {
        self.special(source.as_ref()).1.push(arch.into());
        self
    }

    fn special(&mut self, source: &Path) -> (&mut Vec<String>, &mut Vec<String>) {
        let there = self.special.iter().position(|(path, ..)| path == source);
        let index = there.unwrap_or(self.special.len());
        if there.is_none() {
            self.special.push((source.to_owned(), Vec::new(), Vec::new()));
        }
        let (_, archs, ptx) = &mut self.special[index];
        (archs, ptx)
    }

    /// Sets the C++ standard, like `c++20`. The compiler's own default is C++17.
    pub fn std(mut self, standard: impl Into<String>) -> Self {
        self.options.std = Some(standard.into());
        self
    }

    /// Adds a folder that is searched for headers. If the folder is part of the repository, name it by a path
    /// relative to the package: headers of absolute folders are [compared less
    /// strictly](crate#committed-images) with those of a committed image.
    pub fn include(mut self, folder: impl AsRef<Path>) -> Self {
        self.options.includes.push(folder.as_ref().to_owned());
        self
    }

    /// Defines a macro. Without a value it is 1: `.define("FAST", None)`.
    pub fn define<'a>(mut self, name: &str, value: impl Into<Option<&'a str>>) -> Self {
        self.options.defines.push(match value.into() {
            Some(value) => format!("{name}={value}"),
            None => name.to_owned(),
        });
        self
    }

    /// Passes an option to the compiler. NVRTC knows fewer options than nvcc: options that concern only the
    /// host are not passed to NVRTC, and options for the assembler (`-Xptxas`) only where NVRTC makes machine
    /// code.
    pub fn flag(mut self, flag: impl Into<String>) -> Self {
        self.options.flags.push(flag.into());
        self
    }

    /// Sets the folder of the package, instead of the folder that cargo names.
    pub fn package(mut self, folder: impl AsRef<Path>) -> Self {
        self.package = Some(folder.as_ref().to_owned());
        self
    }

    /// Sets the folder for images, instead of cargo's `OUT_DIR`.
    pub fn out_dir(mut self, folder: impl AsRef<Path>) -> Self {
        self.out_dir = Some(folder.as_ref().to_owned());
        self
    }

    /// Sets whether to tell cargo, on standard output, what to watch and what the compiler warned of. The
    /// default is to tell. Outside of build scripts, read the warnings and files in the
    /// [`Report`](crate::Report).
    pub fn cargo_output(mut self, yes: bool) -> Self {
        self.quiet = !yes;
        self
    }

    /// Sets an environment variable, for the search for compilers and for the compilers themselves. An empty
    /// value means unset.
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.environment.set(name.as_ref(), value.as_ref());
        self
    }

    /// Ignores all variables of the environment. Only variables that are set afterwards count.
    pub fn env_clear(mut self) -> Self {
        self.environment.clear();
        self
    }
}
