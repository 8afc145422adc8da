//! Kernels of the images that the package declares nowhere.

use std::path::{Path, PathBuf};

use crate::kernels::Kernel;
use crate::rust_scanner::Declared;
use crate::{Build, Image, Result, kernels};

/// The undeclared kernels, and the files that can change the result.
#[derive(Debug, Default)]
pub(crate) struct Unused {
    /// Each source that has such kernels, with their C++ names.
    pub(crate) sources: Vec<(String, Vec<String>)>,
    pub(crate) watched: Vec<PathBuf>,
}

pub(crate) fn find(build: &Build, package: &Path, images: &[Image]) -> Result<Unused> {
    let mut there = Vec::new();
    for Image { source, file, .. } in images {
        if let Some(file) = file {
            let mut kernels = kernels::of(file)?;
            kernels.retain(|kernel| !build.allowed.iter().any(|name| kernel.is_called(name)));
            there.push((source, kernels));
        }
    }
    if there.iter().all(|(_, kernels)| kernels.is_empty()) {
        return Ok(Unused::default());
    }
    let idents = there.iter().flat_map(|(_, kernels)| kernels).map(Kernel::ident);
    let declared = Declared::of(package, idents.collect())?;
    // Where there are no Rust files they are somewhere else, and nothing is known of them.
    if !declared.any {
        return Ok(Unused::default());
    }
    let mut sources = Vec::new();
    for (source, kernels) in &there {
        let unused = kernels.iter().filter(|kernel| !declared.names(kernel.ident()));
        let mut names: Vec<String> = unused.map(|kernel| kernel.name.clone()).collect();
        // Overloads share theirs.
        names.dedup();
        if !names.is_empty() {
            sources.push(((*source).clone(), names));
        }
    }
    // While all is well, editing Rust files shall not run the build script, after which cargo compiles the package anew.
    let matters = build.complete || !sources.is_empty();
    Ok(Unused { sources, watched: if matters { declared.watched } else { Vec::new() } })
}
