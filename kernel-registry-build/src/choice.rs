//! Which compiler a build uses.

use std::path::PathBuf;

use crate::environment::{CHOICE, Environment};
use crate::make::Compiler;
use crate::nvcc::Nvcc;
use crate::nvrtc::Nvrtc;
use crate::{Error, Result, find};

/// Where the images come from.
#[derive(Debug)]
pub(crate) enum Chosen {
    Compiler(Compiler),
    /// Only from what is committed, because of this.
    Prebuilt(String),
    /// There are to be none, because of this.
    Nothing(String),
}

/// What the user asked for, else the first that is there.
pub(crate) fn choose(environment: &Environment) -> Result<Chosen> {
    let Some(choice) = environment.get(CHOICE) else {
        if let Some(nvcc) = nvcc(environment)? {
            return Ok(nvcc);
        }
        let nvrtc = nvrtc(environment)?;
        return Ok(nvrtc.unwrap_or_else(|| Chosen::Prebuilt("there is no CUDA compiler".to_owned())));
    };
    match choice.to_str() {
        Some("nvcc") => nvcc(environment)?
            .ok_or_else(|| Error::NoCompiler { asked: "nvcc", looked: find::nvcc_candidates(environment) }),
        Some("nvrtc") => nvrtc(environment)?
            .ok_or_else(|| Error::NoCompiler { asked: "NVRTC", looked: find::nvrtc_folders(environment) }),
        Some("prebuilt") => Ok(Chosen::Prebuilt(format!("`{CHOICE}` is `prebuilt`"))),
        Some("none") => Ok(Chosen::Nothing(format!("`{CHOICE}` is `none`"))),
        _ => Err(Error::UnknownChoice { value: choice.to_string_lossy().into_owned() }),
    }
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
