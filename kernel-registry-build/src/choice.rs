//! Chooses the compiler of a build.

use std::path::{Path, PathBuf};

use crate::compile_source::Compiler;
use crate::environment::{CHOICE, Environment, PYTHON};
use crate::error::NO_PYTHON;
use crate::nvcc::Nvcc;
use crate::nvrtc::Nvrtc;
use crate::{Error, Result, find};

/// Where the images of a build come from.
#[derive(Debug)]
pub(crate) enum Chosen {
    Compiler(Compiler),
    /// Only committed images are used; the text says why.
    Prebuilt(String),
    /// No images are made; the text says why.
    Nothing(String),
}

/// Where [`compile`](crate::compile) would get images on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Available {
    /// A compiler.
    Compiler {
        /// Name and version, as in `nvcc 13.0.88` and `NVRTC 12.0`.
        name: String,
        /// The path of the executable or library, unless only the dynamic loader knows it.
        file: Option<PathBuf>,
    },
    /// No compiler: there are only committed images, or none.
    Without {
        /// The reason, as in `there is no CUDA compiler`.
        why: String,
    },
}

/// Looks for compilers as [`compile`](crate::compile) does, without compiling anything.
///
/// ```no_run
/// # use kernel_registry_build::{Available, available};
/// match available()? {
///     Available::Compiler { name, .. } => println!("{name}"),
///     Available::Without { why } => println!("{why}"),
/// }
/// # Ok::<(), kernel_registry_build::Error>(())
/// ```
pub fn available() -> Result<Available> {
    Ok(match choose(&Environment::default())? {
        Chosen::Compiler(compiler) => {
            Available::Compiler { name: compiler.name()?, file: compiler.file().map(Path::to_owned) }
        }
        Chosen::Prebuilt(why) | Chosen::Nothing(why) => Available::Without { why },
    })
}

/// Returns the compiler that the user chose, or else the first compiler that is found.
pub(crate) fn choose(environment: &Environment) -> Result<Chosen> {
    let Some(choice) = environment.get(CHOICE) else {
        if let Some(nvcc) = nvcc(environment)? {
            return Ok(nvcc);
        }
        let nvrtc = nvrtc(environment)?;
        let python = if is_python_active(environment) { "" } else { NO_PYTHON };
        return Ok(nvrtc.unwrap_or_else(|| Chosen::Prebuilt(format!("there is no CUDA compiler{python}"))));
    };
    match choice.to_str() {
        Some("nvcc") => nvcc(environment)?
            .ok_or_else(|| no_compiler("nvcc", find::nvcc_candidates(environment), environment)),
        Some("nvrtc") => nvrtc(environment)?
            .ok_or_else(|| no_compiler("NVRTC", find::library_folders(environment), environment)),
        Some("prebuilt") => Ok(Chosen::Prebuilt(format!("`{CHOICE}` is `prebuilt`"))),
        Some("none") => Ok(Chosen::Nothing(format!("`{CHOICE}` is `none`"))),
        _ => Err(Error::UnknownChoice { value: choice.to_string_lossy().into_owned() }),
    }
}

fn is_python_active(environment: &Environment) -> bool {
    PYTHON.iter().any(|name| environment.get(name).is_some())
}

fn no_compiler(asked: &'static str, looked: Vec<PathBuf>, environment: &Environment) -> Error {
    Error::NoCompiler { asked, looked, python: is_python_active(environment) }
}

fn nvcc(environment: &Environment) -> Result<Option<Chosen>> {
    let program: Option<PathBuf> = find::nvcc(environment);
    let nvcc = program.map(|program| Nvcc::open(program, environment)).transpose()?;
    Ok(nvcc.map(|nvcc| Chosen::Compiler(Compiler::Nvcc(nvcc))))
}

fn nvrtc(environment: &Environment) -> Result<Option<Chosen>> {
    let nvrtc = Nvrtc::find(environment)?;
    Ok(nvrtc.map(|nvrtc| Chosen::Compiler(Compiler::Nvrtc(nvrtc))))
}
