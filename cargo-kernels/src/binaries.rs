//! Opens binaries, or builds those of the package, reads their kernels and filters them.

pub(crate) mod artifacts;
pub(crate) mod unlinked;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use kernel_registry_command::Failure as Shared;
use kernel_registry_command::Mapped;
use kernel_registry_command::terminal;

use crate::binary::Contents;
use crate::binary::fatbins::Fatbins;
use crate::cli::Build;
use crate::failure::Failure;
use crate::images::ptx::baked_beside;
use artifacts::Built;
use unlinked::Unlinked;

/// The files to read.
pub(crate) struct Files {
    mapped: Vec<(PathBuf, Mapped)>,
    /// The result of the build. `None` if the files were given by path.
    built: Option<Built>,
    /// Whether the command reports crates that weren't linked, so that we don't warn of them.
    finds_unlinked: bool,
}

impl Files {
    /// Finds the crates with kernels that the binaries lack.
    ///
    /// # Errors
    ///
    /// The dependency graph isn't known.
    pub(crate) fn unlinked(&mut self) -> Result<Vec<Unlinked>, Failure> {
        if self.built.is_none() {
            let paths = self.mapped.iter().map(|(path, _)| path.clone());
            self.built = Some(artifacts::built_before(paths)?);
        }
        let built = self.built.as_ref().filter(|built| built.graph.is_some()).ok_or(Failure::NoGraph)?;
        self.finds_unlinked = true;
        let contents = self.mapped.iter().filter_map(|(path, mapped)| Contents::read(path, mapped).ok());
        Ok(unlinked::find(built, &contents.collect::<Vec<_>>()))
    }
}

/// Opens a file.
pub(crate) fn open_file(path: &Path) -> Result<Files, Failure> {
    Ok(Files { mapped: vec![(path.to_owned(), Mapped::open(path)?)], built: None, finds_unlinked: false })
}

/// Opens a file, or builds the package and opens its binaries.
pub(crate) fn open(path: Option<&Path>, build: &Build) -> Result<Files, Failure> {
    if let Some(path) = path {
        return open_file(path);
    }
    let built = artifacts::build(build)?;
    let paths = built.binaries.iter().map(|binary| &binary.path);
    let mapped: Result<_, _> =
        paths.map(|path| Mapped::open(path).map(|mapped| (path.clone(), mapped))).collect();
    Ok(Files { mapped: mapped?, built: Some(built), finds_unlinked: false })
}

/// Reads the binaries with declared kernels, and fails if there are none. Warns of dependencies that weren't linked.
pub(crate) fn read(files: &Files) -> Result<Vec<Contents<'_>>, Failure> {
    read_where(files, |_| false)
}

/// Reads the binaries with kernel-registry that have kernels, declared or linked by nvcc.
pub(crate) fn read_with_registry(files: &Files) -> Result<Vec<Contents<'_>>, Failure> {
    read_where(files, |contents| !contents.linked.is_empty() && contents.has_records())
}

/// Reads the binaries that have kernels, declared or linked by nvcc.
pub(crate) fn read_with_linked(files: &Files) -> Result<Vec<Contents<'_>>, Failure> {
    read_where(files, |contents| !contents.linked.is_empty())
}

/// Reads the binaries that have declared kernels, and those for which `also` is true.
fn read_where(files: &Files, also: impl Fn(&Contents<'_>) -> bool) -> Result<Vec<Contents<'_>>, Failure> {
    let mut binaries = Vec::new();
    let mut without = Vec::new();
    for (path, mapped) in &files.mapped {
        let contents = Contents::read(path, mapped)
            .map(|contents| Contents { baked: baked_beside(&contents), ..contents });
        match contents {
            Ok(contents) if also(&contents) => binaries.push(contents),
            Ok(contents) if !contents.has_records() => {
                let Contents { path, linked, .. } = contents;
                // A cubin is an ELF file too, so it was read like a binary.
                if kernel_registry_image::read(mapped).is_ok() {
                    return Err(Failure::AnImage { path });
                }
                without.push(match linked.not_linked() {
                    Some(why) => Failure::NotDeviceLinked { path, why },
                    None if linked.is_empty() => Failure::NoRecords { path },
                    None => Failure::OnlyLinked { path },
                });
            }
            Ok(contents) if contents.kernels.is_empty() && contents.newer.is_none() => {
                let library = contents.library_names();
                without.push(Failure::NoKernels { path: contents.path, library });
            }
            Ok(contents) => binaries.push(contents),
            Err(Failure::Shared(Shared::NotABinary { path }))
                if kernel_registry_image::read(mapped).is_ok() =>
            {
                return Err(Failure::AnImage { path });
            }
            Err(failure) => return Err(failure),
        }
    }
    let warns = files.built.iter().filter(|_| !files.finds_unlinked || binaries.is_empty());
    for unlinked in warns.flat_map(|built| unlinked::find(built, &binaries)) {
        terminal::say(format_args!("warning: {unlinked}"));
    }
    // A package may have binaries with kernels and others without.
    match without.into_iter().next() {
        Some(failure) if binaries.is_empty() => Err(failure),
        _ => Ok(binaries),
    }
}

/// Keeps only the kernels of this package, if one is given.
pub(crate) fn keep_package<'a>(
    mut binaries: Vec<Contents<'a>>,
    package: Option<&str>,
) -> Result<Vec<Contents<'a>>, Failure> {
    let Some(package) = package else { return Ok(binaries) };
    // Package `my-kernels` is crate `my_kernels`: accept both.
    let same = |name: &str| name.replace('-', "_") == package.replace('-', "_");
    let there: BTreeSet<_> =
        binaries.iter().flat_map(|binary| &binary.kernels).map(|kernel| kernel.package).collect();
    if !there.iter().any(|name| same(name)) {
        let there = there.into_iter().map(str::to_owned).collect();
        return Err(Failure::NoneOfPackage { package: package.to_owned(), there });
    }
    for binary in &mut binaries {
        binary.linked = Fatbins::default();
        binary.kernels.retain(|kernel| same(kernel.package));
    }
    binaries.retain(|binary| !binary.kernels.is_empty());
    Ok(binaries)
}

/// Fails if a binary has records that are newer than this tool.
pub(crate) fn all_read(binaries: &[Contents<'_>]) -> Result<(), Failure> {
    match binaries.iter().find_map(|binary| Some((binary, binary.newer?))) {
        Some((binary, version)) => Err(Failure::Newer { path: binary.path.clone(), version }),
        None => Ok(()),
    }
}
