//! What every command begins and ends with: the binaries that it is about, and its output.

use std::collections::BTreeSet;
use std::io::{self, BufWriter, StdoutLock, Write};
use std::path::{Path, PathBuf};

use crate::artifacts;
use crate::binary::Contents;
use crate::cli::Build;
use crate::failure::Failure;
use crate::list::table;
use crate::mapped::Mapped;

/// Opens this file, or without one builds the package and opens what came of it.
pub(crate) fn open(path: Option<&Path>, build: &Build) -> Result<Vec<(PathBuf, Mapped)>, Failure> {
    let paths = match path {
        Some(path) => vec![path.to_owned()],
        None => artifacts::build(build)?,
    };
    paths.into_iter().map(|path| Mapped::open(&path).map(|mapped| (path, mapped))).collect()
}

/// Reads those that have kernels, and fails if none has.
pub(crate) fn read(files: &[(PathBuf, Mapped)]) -> Result<Vec<Contents<'_>>, Failure> {
    let mut binaries = Vec::new();
    let mut without = Vec::new();
    for (path, mapped) in files {
        match Contents::read(path, mapped) {
            Ok(contents) if contents.kernels.is_empty() && contents.newer.is_none() => {
                let library = table::libraries(&contents);
                without.push(Failure::NoKernels { path: contents.path, library });
            }
            Ok(contents) => binaries.push(contents),
            Err(failure @ Failure::NoRecords { .. }) => without.push(failure),
            Err(failure) => return Err(failure),
        }
    }
    // A package can have binaries without kernels beside others that have some.
    match without.into_iter().next() {
        Some(failure) if binaries.is_empty() => Err(failure),
        _ => Ok(binaries),
    }
}

/// Keeps the kernels of one package.
pub(crate) fn keep_package(binaries: &mut Vec<Contents<'_>>, package: &str) -> Result<(), Failure> {
    // A package `my-kernels` is `my_kernels` in code, and people may ask for either.
    let same = |name: &str| name.replace('-', "_") == package.replace('-', "_");
    let there: BTreeSet<_> =
        binaries.iter().flat_map(|binary| &binary.kernels).map(|kernel| kernel.package).collect();
    if !there.iter().any(|name| same(name)) {
        let there = there.into_iter().map(str::to_owned).collect();
        return Err(Failure::NoneOfPackage { package: package.to_owned(), there });
    }
    for binary in &mut *binaries {
        binary.kernels.retain(|kernel| same(kernel.package));
    }
    binaries.retain(|binary| !binary.kernels.is_empty());
    Ok(())
}

/// Fails if some kernels could not be read, because this tool is too old for them.
pub(crate) fn all_read(binaries: &[Contents<'_>]) -> Result<(), Failure> {
    match binaries.iter().find_map(|binary| Some((binary, binary.newer?))) {
        Some((binary, version)) => Err(Failure::Newer { path: binary.path.clone(), version }),
        None => Ok(()),
    }
}

/// Writes to the standard output.
pub(crate) fn print(
    write: impl FnOnce(&mut BufWriter<StdoutLock<'_>>) -> io::Result<()>,
) -> Result<(), Failure> {
    let mut out = BufWriter::new(io::stdout().lock());
    match write(&mut out).and_then(|()| out.flush()) {
        // Whoever reads the output may have seen enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written.map_err(|error| Failure::Output { error }),
    }
}
