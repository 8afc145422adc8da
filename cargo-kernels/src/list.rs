//! `cargo kernels list`.

use std::collections::BTreeSet;
use std::io::{self, BufWriter, Write};

use crate::artifacts;
use crate::binary::Contents;
use crate::cli::List;
use crate::failure::Failure;
use crate::mapped::Mapped;
use crate::{json, table};

pub(crate) fn run(options: &List) -> Result<(), Failure> {
    let paths = match &options.path {
        Some(path) => vec![path.clone()],
        None => artifacts::build(&options.build)?,
    };
    let files = paths
        .into_iter()
        .map(|path| Mapped::open(&path).map(|mapped| (path, mapped)))
        .collect::<Result<Vec<_>, _>>()?;

    let mut binaries = Vec::new();
    let mut without = Vec::new();
    for (path, mapped) in &files {
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
    if binaries.is_empty()
        && let Some(failure) = without.into_iter().next()
    {
        return Err(failure);
    }
    if let Some(package) = &options.package {
        keep_package(&mut binaries, package)?;
    }
    match write(options, &binaries) {
        // Whoever reads the list may have seen enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
        written => written.map_err(|error| Failure::Output { error })?,
    }
    match binaries.iter().find_map(|binary| Some((binary, binary.newer?))) {
        Some((binary, version)) => Err(Failure::Newer { path: binary.path.clone(), version }),
        None => Ok(()),
    }
}

fn write(options: &List, binaries: &[Contents<'_>]) -> io::Result<()> {
    let mut out = BufWriter::new(io::stdout().lock());
    if options.json {
        json::write(binaries, &mut out)?;
    } else {
        table::write(binaries, &mut out)?;
    }
    out.flush()
}

fn keep_package(binaries: &mut Vec<Contents<'_>>, package: &str) -> Result<(), Failure> {
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
