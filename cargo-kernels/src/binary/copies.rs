//! Copies of kernel-registry in one binary. Cargo links several if packages depend on different versions, or on one
//! version from different sources.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};

use kernel_registry_command::many;
use kernel_registry_format::{KernelRecord, LibraryRecord};

/// A copy of kernel-registry. It only finds and warms the kernels registered with it.
#[derive(Default)]
pub(crate) struct Copy<'data> {
    /// `None` if the file only has kernels of this copy.
    version: Option<&'data str>,
    kernels: usize,
    /// Names and versions of the packages that declare these kernels.
    packages: BTreeSet<(&'data str, &'data str)>,
}

/// Groups kernels and libraries by copy, ordered by version. Returns nothing if there's only one copy.
pub(crate) fn several<'data>(
    kernels: &[KernelRecord<'data>],
    libraries: &[LibraryRecord<'data>],
) -> Vec<Copy<'data>> {
    let mut copies = BTreeMap::<u64, Copy<'data>>::new();
    for library in libraries {
        copies.entry(library.copy).or_default().version = Some(library.version);
    }
    for kernel in kernels {
        let copy = copies.entry(kernel.copy).or_default();
        copy.kernels += 1;
        copy.packages.insert((kernel.package, kernel.version));
    }
    let mut copies: Vec<_> = if copies.len() > 1 { copies.into_values().collect() } else { Vec::new() };
    copies.sort_by(|a, b| (a.version, &a.packages).cmp(&(b.version, &b.packages)));
    copies
}

pub(crate) fn write(copies: &[Copy<'_>], out: &mut impl Write) -> io::Result<()> {
    let count = copies.len();
    writeln!(out, "note: {count} copies of kernel-registry; each finds and warms only its own kernels")?;
    for Copy { version, kernels, packages } in copies {
        let packages: Vec<_> = packages.iter().map(|(name, version)| format!("{name} {version}")).collect();
        let of = if packages.is_empty() { "" } else { " of " };
        let version = version.unwrap_or("of unknown version");
        writeln!(out, "    {version}: {}{of}{}", many(*kernels, "kernel"), packages.join(", "))?;
    }
    writeln!(
        out,
        "    let all packages depend on one version of it from one source; `cargo tree -d` shows which do not"
    )
}
