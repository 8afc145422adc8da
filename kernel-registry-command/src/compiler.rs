//! Compiles PTX to machine code, by `ptxas` or the library nvJitLink.

mod nvjitlink;

use std::fmt::{self, Write};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use kernel_registry_build::{toolkit_library, toolkit_program};
use kernel_registry_cuda::{CudaVersion, Target, ptx};
use kernel_registry_image::{VariantKind, read};

use self::nvjitlink::NvJitLink;

const PTXAS: &str = if cfg!(windows) { "ptxas.exe" } else { "ptxas" };

/// A compiler, which any thread may use.
#[derive(Debug)]
pub struct Compiler {
    tool: Tool,
    /// Name and version, as in `ptxas 13.0.88`.
    name: String,
    version: CudaVersion,
}

#[derive(Debug)]
enum Tool {
    Ptxas(PathBuf),
    NvJitLink(NvJitLink),
}

/// Options other than the architecture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// The maximum number of registers per thread.
    pub max_registers: Option<u32>,
    /// The optimization level, from 0 to 3. The default of compilers and drivers is 3.
    pub level: Option<u8>,
}

impl Options {
    /// Returns the lines for the key of baked code, such as `maxrregcount=64`.
    pub fn lines(self) -> String {
        let mut lines = String::new();
        for (name, value) in [("maxrregcount", self.max_registers), ("optlevel", self.level.map(u32::from))] {
            if let Some(value) = value {
                writeln!(lines, "{name}={value}").expect("memory");
            }
        }
        lines
    }

    /// Returns the command-line arguments, which are the same for both compilers.
    fn arguments(self, arch: Target) -> Vec<String> {
        let mut arguments = vec![format!("-arch={arch}")];
        arguments.extend(self.max_registers.map(|registers| format!("-maxrregcount={registers}")));
        arguments.extend(self.level.map(|level| format!("-O{level}")));
        arguments
    }
}

/// Why there's no compiler.
#[derive(Debug, thiserror::Error)]
pub enum NoCompiler {
    /// None was found.
    #[error(
        "there is neither `ptxas` nor nvJitLink: looked in `CUDA_HOME`, `CUDA_PATH`, `PATH`, `/usr/local/cuda` and the active Python \
         environment; install a CUDA toolkit, or `pip install nvidia-cuda-nvcc` in a virtual environment that is active"
    )]
    NotFound,
    /// The one that was found can't be used.
    #[error("`{}` cannot be used: {why}; set `CUDA_HOME` to another toolkit", file.display())]
    Unusable {
        /// The program or library.
        file: PathBuf,
        /// The reason, from the system or from the compiler.
        why: String,
    },
}

/// Why PTX wasn't compiled.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{compiler} does not compile it for {arch}: {words}{}", Remedied(remedy))]
pub struct NotCompiled {
    /// The compiler, with its version.
    pub compiler: String,
    /// The architecture.
    pub arch: Target,
    /// The compiler's message, or the defect of its output.
    pub words: String,
    /// The remedy, if it's known.
    pub remedy: Option<Remedy>,
}

/// A remedy for PTX that wasn't compiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remedy {
    /// Use a compiler of at least this version of CUDA: the PTX is newer than the compiler.
    Newer(CudaVersion),
    /// Use a compiler that knows the architecture.
    Arch,
}

struct Remedied<'a>(&'a Option<Remedy>);

impl fmt::Display for Remedied<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            None => Ok(()),
            Some(Remedy::Newer(version)) => {
                write!(f, "; set `CUDA_HOME` to CUDA {version} or newer")
            }
            Some(Remedy::Arch) => {
                f.write_str("; set `CUDA_HOME` to a version of CUDA that supports this architecture")
            }
        }
    }
}

impl Compiler {
    /// Returns `ptxas`, or else nvJitLink.
    ///
    /// # Errors
    ///
    /// There's neither, or the one that was found doesn't run.
    pub fn find() -> Result<Self, NoCompiler> {
        if let Some(program) = toolkit_program(PTXAS) {
            return Self::ptxas(&program);
        }
        let library = toolkit_library("libnvJitLink.so").ok_or(NoCompiler::NotFound)?;
        Self::nvjitlink(&library)
    }

    /// Uses this `ptxas`.
    ///
    /// # Errors
    ///
    /// It doesn't run, or doesn't report its version.
    pub fn ptxas(program: &Path) -> Result<Self, NoCompiler> {
        let unusable = |why: String| NoCompiler::Unusable { file: program.to_owned(), why };
        let output = Command::new(program).arg("--version").output();
        let output = output.map_err(|error| unusable(error.to_string()))?;
        let text = String::from_utf8_lossy(&output.stdout);
        // `Cuda compilation tools, release 13.0, V13.0.88`
        let version = text.split_once(", V").and_then(|(_, rest)| rest.split_whitespace().next());
        let numbers = version.map(|version| version.split('.').map(str::parse).collect::<Vec<_>>());
        let (Some(version), Some([Ok(major), Ok(minor), ..])) = (version, numbers.as_deref()) else {
            return Err(unusable("it doesn't report its version".to_owned()));
        };
        let (name, version) = (format!("ptxas {version}"), CudaVersion::new(*major, *minor));
        Ok(Compiler { tool: Tool::Ptxas(program.to_owned()), name, version })
    }

    /// Uses this nvJitLink.
    ///
    /// # Errors
    ///
    /// It can't be loaded.
    pub fn nvjitlink(library: &Path) -> Result<Self, NoCompiler> {
        let linker =
            NvJitLink::open(library).map_err(|why| NoCompiler::Unusable { file: library.to_owned(), why })?;
        let version = linker.version();
        Ok(Compiler { name: format!("nvJitLink {version}"), version, tool: Tool::NvJitLink(linker) })
    }

    /// Returns the compiler's name and version.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Compiles PTX, and checks that the result is for the architecture and has the kernels.
    ///
    /// # Errors
    ///
    /// The compiler rejects the PTX, or its output isn't as expected.
    pub fn compile(&self, text: &[u8], arch: Target, options: Options) -> Result<Vec<u8>, NotCompiled> {
        let text = text.split(|byte| *byte == 0).next().unwrap_or_default();
        let arguments = options.arguments(arch);
        let made = match &self.tool {
            Tool::Ptxas(program) => run_ptxas(program, text, &arguments),
            Tool::NvJitLink(linker) => linker.compile(text, &arguments),
        };
        made.and_then(|cubin| checked(&cubin, text, arch).map(|()| cubin)).map_err(|words| {
            let remedy = match version(text) {
                Some(newer) if newer > self.version.newest_ptx() => {
                    Some(Remedy::Newer(CudaVersion::first_with(newer)))
                }
                _ => ["option 'gpu-name'", "UNRECOGNIZED_ARCH"]
                    .iter()
                    .any(|words_of| words.contains(words_of))
                    .then_some(Remedy::Arch),
            };
            NotCompiled { compiler: self.name.clone(), arch, words: words.trim_end().to_owned(), remedy }
        })
    }
}

/// Returns the version of PTX, even if its line is indented or has more on it.
fn version(text: &[u8]) -> Option<(u16, u16)> {
    ptx::version(text).or_else(|| match read(text).ok()?.variants.first()?.kind {
        VariantKind::Ptx { version: (major, minor) } => Some((major.into(), minor.into())),
        VariantKind::Cubin => None,
    })
}

/// Runs `ptxas`. The error is its message.
fn run_ptxas(program: &Path, text: &[u8], arguments: &[String]) -> Result<Vec<u8>, String> {
    let in_words = |error: io::Error| error.to_string();
    let folder = tempfile::tempdir().map_err(in_words)?;
    // It runs in this folder, so that its messages have short paths.
    fs::write(folder.path().join("a.ptx"), text).map_err(in_words)?;
    let program = std::path::absolute(program).map_err(in_words)?;
    let mut command = Command::new(program);
    command.current_dir(folder.path()).args(arguments).args(["-o", "a.cubin", "a.ptx"]);
    let output = command.output().map_err(in_words)?;
    if output.status.success() {
        return fs::read(folder.path().join("a.cubin")).map_err(in_words);
    }
    let words = [output.stderr, output.stdout].concat();
    let words = String::from_utf8_lossy(&words);
    // ptxas of CUDA 12 crashes after some messages.
    Err(if words.trim().is_empty() { output.status.to_string() } else { words.into_owned() })
}

/// Checks that a cubin is for the architecture, and has all kernels of the PTX.
fn checked(cubin: &[u8], text: &[u8], arch: Target) -> Result<(), String> {
    let cubin = read(cubin).map_err(|error| format!("its output can't be read: {error}"))?;
    let [code] = &cubin.variants[..] else { return Err("its output isn't machine code".to_owned()) };
    if code.kind != VariantKind::Cubin || code.target.sm != arch.sm {
        return Err(format!("its output is for {}", code.target));
    }
    let image = read(text).map_err(|error| error.to_string())?;
    let mut entries = image.variants.iter().flat_map(|variant| &variant.entries);
    match entries.find(|entry| code.entry(&entry.symbol).is_none()) {
        Some(missing) => Err(format!("its output lacks the kernel `{}`", missing.symbol)),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
