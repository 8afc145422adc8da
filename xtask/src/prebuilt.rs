//! `cargo xtask prebuilt`: makes the committed images for machines without a compiler, or compares them with
//! the sources.

use std::fs;
use std::path::Path;
use std::process::Command;

use kernel_registry_build::{Build, PREBUILT, check_prebuilt, write_prebuilt};

use crate::corpus;
use crate::device_launch;
use crate::run::{IMAGE_WRITER, Outcome, files_with, workspace};
use crate::toolkit;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Write nothing, but fail if an image differs from its compiled source
    #[arg(long)]
    check: bool,
}

/// A package with committed images.
struct Package {
    folder: &'static str,
    /// The options of the package's build script.
    build: fn() -> Build,
}

const PACKAGES: &[Package] = &[
    Package { folder: "kernels", build: Build::new },
    Package { folder: "kernels/big-frame", build: Build::new },
    Package { folder: "tests/census", build: Build::new },
    // The package that `cargo kernels new` generates.
    Package { folder: "cargo-kernels/template", build: Build::new },
    Package { folder: corpus::FOLDER, build: || Build::new().ptx("compute_80") },
];

pub(crate) fn prebuilt(options: &Options) -> Outcome {
    let toolkit = toolkit::install()?;
    for Package { folder: name, build } in PACKAGES {
        let package = workspace().join(name);
        // Committed images must not depend on this machine's variables or compilers.
        let build = build().env_clear();
        if options.check {
            check_prebuilt(&package, &[build], Some(&toolkit.old_nvrtc))
                .map_err(|error| format!("{name}: {error} by `{IMAGE_WRITER}`"))?;
        } else {
            for file in write_prebuilt(&package, &[build], Some(&toolkit.old_nvrtc))? {
                println!("wrote {}", file.strip_prefix(workspace()).unwrap_or(&file).display());
            }
        }
        let images = files_with("ptx", &package.join(PREBUILT))?;
        for image in &images {
            assemble(&toolkit.old_ptxas, image)?;
        }
        println!("{name}: {} images, all of them for drivers of CUDA 12.0 and newer", images.len());
    }
    device_launch::device_launch(&toolkit.home, options.check)?;
    corpus::corpus(&toolkit.home, options.check)
}

/// Runs the assembler of CUDA 12.0 on an image. If that accepts it, so do drivers since 12.0.
fn assemble(ptxas: &Path, image: &Path) -> Outcome {
    let read = kernel_registry_image::read(&fs::read(image)?)?;
    let [ptx] = &read.variants[..] else { return Err(format!("{}: no single PTX", image.display()).into()) };
    let mut command = Command::new(ptxas);
    command.arg(format!("--gpu-name={}", ptx.target)).args(["--output-file", "/dev/null"]).arg(image);
    let output = command.output().map_err(|error| format!("{}: {error}", ptxas.display()))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(format!("{} is too new for a driver of CUDA 12.0: {}", image.display(), said.trim()).into())
}
