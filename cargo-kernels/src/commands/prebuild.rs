//! `cargo kernels prebuild`: makes the committed images of CUDA sources, as the build script describes them, or compares committed
//! images with their sources.

use std::env;
use std::fmt::Arguments;
use std::io::Write;
use std::path::{Path, PathBuf};

use cargo_metadata::Metadata;
use kernel_registry_build::{Build, check_prebuilt, write_prebuilt};

use crate::binaries::artifacts;
use crate::cli::{Package, Prebuild};
use crate::failure::Failure;
use crate::output;

pub(crate) fn run(options: &Prebuild) -> Result<(), Failure> {
    let workspace = artifacts::members(&options.package)?;
    let chosen = chosen(&workspace, &options.package)?;
    let (scripts, ok) = artifacts::build_scripts(&options.package)?;
    let failure = |error| Failure::Prebuild { error };
    let mut found = false;
    for package in chosen {
        let Some((_, out)) = scripts.iter().find(|(id, _)| *id == package.id) else { continue };
        let builds = Build::recorded(out).map_err(failure)?;
        if builds.is_empty() {
            continue;
        }
        found = true;
        let folder = package.manifest_path.parent().map_or(Path::new("."), |folder| folder.as_std_path());
        let nvrtc = options.nvrtc.as_deref();
        if options.check {
            check_prebuilt(folder, &builds, nvrtc).map_err(failure)?;
            print(format_args!("{}: prebuilt images are those of the sources", package.name))?;
            continue;
        }
        let changed = write_prebuilt(folder, &builds, nvrtc).map_err(failure)?;
        for path in &changed {
            let what = if path.exists() { "wrote" } else { "removed" };
            print(format_args!("{what} {}", shown(path).display()))?;
        }
        if changed.is_empty() {
            print(format_args!("{}: prebuilt images are up to date", package.name))?;
        }
    }
    match (found, ok) {
        (true, _) => Ok(()),
        // Cargo has printed why.
        (false, false) => Err(Failure::BuildFailed),
        (false, true) => Err(Failure::NothingToPrebuild),
    }
}

fn print(line: Arguments<'_>) -> Result<(), Failure> {
    output::print(|out| writeln!(out, "{line}"))
}

/// Returns the named package, or else that of the current folder, or else all packages of the workspace.
fn chosen<'a>(
    workspace: &'a Metadata,
    options: &Package,
) -> Result<Vec<&'a cargo_metadata::Package>, Failure> {
    let members = workspace.workspace_packages();
    if let Some(spec) = &options.spec {
        let named: Vec<_> = members.into_iter().filter(|package| package.name.as_str() == spec).collect();
        return if named.is_empty() { Err(Failure::NoMember { spec: spec.clone() }) } else { Ok(named) };
    }
    let manifest = options.manifest_path.clone().or_else(nearest).and_then(|path| path.canonicalize().ok());
    let is_here = |package: &&&cargo_metadata::Package| {
        package.manifest_path.as_std_path().canonicalize().ok() == manifest
    };
    match members.iter().find(is_here) {
        Some(here) => Ok(vec![here]),
        None => Ok(members),
    }
}

/// Returns the Cargo.toml of the current folder or the nearest one around it.
fn nearest() -> Option<PathBuf> {
    let here = env::current_dir().ok()?;
    artifacts::package_folder(here.ancestors()).map(|folder| folder.join("Cargo.toml"))
}

/// Returns the path, relative to the current folder if that contains it.
fn shown(path: &Path) -> PathBuf {
    let here = env::current_dir().ok();
    here.and_then(|here| path.strip_prefix(here).ok().map(Path::to_owned)).unwrap_or_else(|| path.to_owned())
}
