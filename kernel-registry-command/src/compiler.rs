//! A compiler of PTX to machine code: `ptxas`, or the library nvJitLink, whichever is there.

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

/// A compiler. Any thread may compile.
#[derive(Debug)]
pub struct Compiler {
    tool: Tool,
    /// With its version, as in `ptxas 13.0.88`.
    name: String,
    version: CudaVersion,
}

#[derive(Debug)]
enum Tool {
    Ptxas(PathBuf),
    NvJitLink(NvJitLink),
}

/// What a compiler is told, besides the architecture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// The most registers of a thread.
    pub max_registers: Option<u32>,
    /// The level of optimisation, from 0 to 3. Without it compilers and drivers take 3.
    pub level: Option<u8>,
}

impl Options {
    /// The lines that are part of the key of baked code: `maxrregcount=64`.
    pub fn lines(self) -> String {
        let mut lines = String::new();
        for (name, value) in [("maxrregcount", self.max_registers), ("optlevel", self.level.map(u32::from))] {
            if let Some(value) = value {
                writeln!(lines, "{name}={value}").expect("memory");
            }
        }
        lines
    }

    /// As arguments for either compiler.
    fn arguments(self, arch: Target) -> Vec<String> {
        let mut arguments = vec![format!("-arch={arch}")];
        arguments.extend(self.max_registers.map(|registers| format!("-maxrregcount={registers}")));
        arguments.extend(self.level.map(|level| format!("-O{level}")));
        arguments
    }
}

/// Why there is no compiler.
#[derive(Debug, thiserror::Error)]
pub enum NoCompiler {
    /// None was found.
    #[error(
        "there is neither `ptxas` nor nvJitLink: looked in `CUDA_HOME`, `CUDA_PATH`, `PATH`, `/usr/local/cuda` and the active Python \
         environment; install a CUDA toolkit, or `pip install nvidia-cuda-nvcc` in a virtual environment that is active"
    )]
    NotFound,
    /// The one that was found cannot be used.
    #[error("`{}` cannot be used: {why}; set `CUDA_HOME` to another toolkit", file.display())]
    Unusable {
        /// The program or library.
        file: PathBuf,
        /// The system's reason, or its own.
        why: String,
    },
}

/// Why PTX was not compiled.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{compiler} does not compile it for {arch}: {words}{}", Remedied(remedy))]
pub struct NotCompiled {
    /// The compiler, with its version.
    pub compiler: String,
    /// The architecture.
    pub arch: Target,
    /// What the compiler says, or what is wrong with what it made.
    pub words: String,
    /// What helps, where that is known.
    pub remedy: Option<Remedy>,
}

/// What helps where PTX was not compiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remedy {
    /// The PTX is newer than the compiler: one of this version of CUDA takes it.
    Newer(CudaVersion),
    /// The compiler does not know the architecture.
    Arch,
}

struct Remedied<'a>(&'a Option<Remedy>);

impl fmt::Display for Remedied<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            None => Ok(()),
            Some(Remedy::Newer(version)) => {
                write!(f, "; take a compiler of CUDA {version} or newer, by `CUDA_HOME`")
            }
            Some(Remedy::Arch) => {
                f.write_str("; take a compiler of a CUDA that has this architecture, by `CUDA_HOME`")
            }
        }
    }
}

impl Compiler {
    /// The first compiler: `ptxas`, then nvJitLink.
    ///
    /// # Errors
    ///
    /// There is none, or the first one does not run.
    pub fn find() -> Result<Self, NoCompiler> {
        if let Some(program) = toolkit_program(PTXAS) {
            return Self::ptxas(&program);
        }
        let library = toolkit_library("libnvJitLink.so").ok_or(NoCompiler::NotFound)?;
        Self::nvjitlink(&library)
    }

    /// This `ptxas`.
    ///
    /// # Errors
    ///
    /// It does not run, or tells no version.
    pub fn ptxas(program: &Path) -> Result<Self, NoCompiler> {
        let unusable = |why: String| NoCompiler::Unusable { file: program.to_owned(), why };
        let output = Command::new(program).arg("--version").output();
        let output = output.map_err(|error| unusable(error.to_string()))?;
        let text = String::from_utf8_lossy(&output.stdout);
        // `Cuda compilation tools, release 13.0, V13.0.88`
        let version = text.split_once(", V").and_then(|(_, rest)| rest.split_whitespace().next());
        let numbers = version.map(|version| version.split('.').map(str::parse).collect::<Vec<_>>());
        let (Some(version), Some([Ok(major), Ok(minor), ..])) = (version, numbers.as_deref()) else {
            return Err(unusable("it tells no version".to_owned()));
        };
        let (name, version) = (format!("ptxas {version}"), CudaVersion::new(*major, *minor));
        Ok(Compiler { tool: Tool::Ptxas(program.to_owned()), name, version })
    }

    /// This nvJitLink.
    ///
    /// # Errors
    ///
    /// It cannot be loaded.
    pub fn nvjitlink(library: &Path) -> Result<Self, NoCompiler> {
        let linker =
            NvJitLink::open(library).map_err(|why| NoCompiler::Unusable { file: library.to_owned(), why })?;
        let version = linker.version();
        Ok(Compiler { name: format!("nvJitLink {version}"), version, tool: Tool::NvJitLink(linker) })
    }

    /// Its name and version.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Compiles PTX, and checks that the result is for the architecture and has the kernels.
    ///
    /// # Errors
    ///
    /// The compiler refuses the PTX, or makes something else.
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

/// The version of PTX. The line may be indented, and other words behind it.
fn version(text: &[u8]) -> Option<(u16, u16)> {
    ptx::version(text).or_else(|| match read(text).ok()?.variants.first()?.kind {
        VariantKind::Ptx { version: (major, minor) } => Some((major.into(), minor.into())),
        VariantKind::Cubin => None,
    })
}

/// Runs `ptxas`. The error is what it says.
fn run_ptxas(program: &Path, text: &[u8], arguments: &[String]) -> Result<Vec<u8>, String> {
    let in_words = |error: io::Error| error.to_string();
    let folder = tempfile::tempdir().map_err(in_words)?;
    // In that folder, so that messages have short names.
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
    // Those of CUDA 12 end with a signal behind some messages.
    Err(if words.trim().is_empty() { output.status.to_string() } else { words.into_owned() })
}

/// Checks that a cubin is for the architecture, and has the kernels of the PTX.
fn checked(cubin: &[u8], text: &[u8], arch: Target) -> Result<(), String> {
    let cubin = read(cubin).map_err(|error| format!("what it made cannot be read: {error}"))?;
    let [code] = &cubin.variants[..] else { return Err("what it made is no machine code".to_owned()) };
    if code.kind != VariantKind::Cubin || code.target.sm != arch.sm {
        return Err(format!("what it made is for {}", code.target));
    }
    let image = read(text).map_err(|error| error.to_string())?;
    let mut entries = image.variants.iter().flat_map(|variant| &variant.entries);
    match entries.find(|entry| code.entry(&entry.symbol).is_none()) {
        Some(missing) => Err(format!("what it made lacks the kernel `{}`", missing.symbol)),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
