//! Compiles a source to its image, unless an earlier build's image is up to date.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::fingerprint::{self, Fingerprint};
use crate::job::{Compiled, Job};
use crate::nvcc::{self, Nvcc};
use crate::nvrtc::{self, Nvrtc};
use crate::{Error, Result, files, index};

/// The image of a source, in the folder of images.
#[derive(Default)]
pub(crate) struct SourceImage {
    /// The name of the image's file, if there is an image.
    pub(crate) image: Option<String>,
    /// Which compiler made the image, or why there is no image.
    pub(crate) origin: String,
    pub(crate) warnings: Vec<String>,
    /// The inputs of the image.
    pub(crate) files: Vec<PathBuf>,
    /// Whether this build compiled the image, rather than an earlier one.
    pub(crate) compiled: bool,
}

impl SourceImage {
    /// Returns the result for a source without an image. `reason` says why.
    pub(crate) fn none(reason: String) -> Self {
        SourceImage { origin: reason, ..SourceImage::default() }
    }
}

/// The compiler that a build uses.
#[derive(Debug)]
pub(crate) enum Compiler {
    Nvcc(Nvcc),
    Nvrtc(Nvrtc),
}

impl Compiler {
    /// Returns the compiler's file. Cargo watches it, so that an update recompiles the sources.
    pub(crate) fn file(&self) -> Option<&Path> {
        match self {
            Compiler::Nvcc(nvcc) => Some(nvcc.program()),
            Compiler::Nvrtc(nvrtc) => nvrtc.file(),
        }
    }

    /// Returns the compiler's name with its version.
    pub(crate) fn name(&self) -> Result<String> {
        match self {
            Compiler::Nvcc(nvcc) => Ok(nvcc.name.clone()),
            Compiler::Nvrtc(nvrtc) => nvrtc.name(),
        }
    }

    /// Makes the image of a source in this folder, or returns that of an earlier build if it is up to date.
    pub(crate) fn compile_source(&self, job: &Job<'_>, folder: &Path) -> Result<SourceImage> {
        let (extension, key) = match self {
            Compiler::Nvcc(nvcc) => (nvcc::EXTENSION, nvcc.key(job)),
            Compiler::Nvrtc(nvrtc) => (nvrtc::extension(&job.source.targets), nvrtc.key(job)?),
        };
        let image = index::image_name(&job.source.path, extension);
        let path = folder.join(&image);
        if let Some(Fingerprint { origin, files, warnings, .. }) = Fingerprint::current(&path, &key) {
            let files = files.into_iter().map(|stamp| stamp.path).collect();
            return Ok(SourceImage { image: Some(image), origin, warnings, files, compiled: false });
        }
        let started = SystemTime::now();
        let temporary = files::temporary(&path);
        let made = match self {
            Compiler::Nvcc(nvcc) => nvcc.compile(job, &temporary).map(|made| (nvcc.name.clone(), made)),
            Compiler::Nvrtc(nvrtc) => nvrtc.compile(job, &temporary),
        };
        let (origin, Compiled { warnings, mut files, device_header }) = match made {
            Ok(made) => made,
            Err(error) => {
                // There is no such file after most failures.
                let _ = fs::remove_file(&temporary);
                return Err(error);
            }
        };
        let source = job.package.join(&job.source.path);
        if !files.contains(&source) {
            files.push(source);
        }
        // Forgotten first: if the process ends halfway, the image has no fingerprint, and the next build
        // makes it again.
        Fingerprint::forget(&path);
        fs::rename(&temporary, &path).map_err(Error::file("write", &path))?;
        if let Some(stamps) = Fingerprint::stamp(&files, started) {
            let (origin, warnings) = (origin.clone(), warnings.clone());
            let device_header = device_header.then(fingerprint::hash_device_header);
            Fingerprint { key, origin, files: stamps, device_header, warnings }.write(&path)?;
        }
        Ok(SourceImage { image: Some(image), origin, warnings, files, compiled: true })
    }
}
