//! Collects the licences of the crates linked into a program, because most of them require their text to be
//! distributed with it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use cargo_metadata::{MetadataCommand, Package};

use crate::run::{Outcome, cargo, entries, workspace};

/// The name of the file with these licences, in the wheel and the tarballs.
pub(crate) const DEPENDENCIES: &str = "LICENSES-OF-DEPENDENCIES";

/// Prefixes of files with a licence.
const NAMES: [&str; 5] = ["LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "NOTICE"];

/// Returns the licences of a package's dependencies outside of this workspace. Fails if a crate has neither
/// such a file nor an expression in its manifest.
pub(crate) fn notices(package: &Package, target: &str) -> Outcome<String> {
    let metadata =
        MetadataCommand::new().current_dir(workspace()).other_options(["--locked".to_owned()]).exec()?;
    let folders: BTreeMap<String, &Package> = { metadata.packages.iter() }
        .filter(|package| package.source.is_some())
        .map(|package| (format!("{} v{}", package.name, package.version), package))
        .collect();
    let mut tree = cargo();
    tree.args(["tree", "--locked", "--package", &package.name, "--all-features", "--target", target]);
    tree.args(["--edges", "normal", "--prefix", "none", "--no-dedupe", "--format", "{p}"]);
    let output = tree.current_dir(workspace()).output()?;
    if !output.status.success() {
        return Err(format!("{tree:?}: {}", String::from_utf8_lossy(&output.stderr)).into());
    }
    let mut lines: Vec<_> = std::str::from_utf8(&output.stdout)?.lines().collect();
    lines.sort_unstable();
    lines.dedup();
    let linked = lines.iter().filter_map(|line| folders.get(line.trim_end_matches(" (proc-macro)")));
    let mut text = format!("`{}` is linked with these crates.\n", package.name);
    for package in linked {
        let licence = package.license.as_deref().unwrap_or_default();
        let files = licences(package)?;
        if licence.is_empty() && files.is_empty() {
            return Err(format!("{} {} has no licence", package.name, package.version).into());
        }
        // Writing to a `String` can't fail.
        let _ = write!(text, "\n==== {} {}: {licence}\n", package.name, package.version);
        for file in files {
            let _ = write!(text, "\n{}\n", fs::read_to_string(file)?.trim_end());
        }
    }
    Ok(text)
}

/// Returns the files of a package that contain a licence.
fn licences(package: &Package) -> Outcome<Vec<PathBuf>> {
    let mut files =
        entries(package.manifest_path.parent().ok_or("a manifest is in a folder")?.as_std_path())?;
    files.retain(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_uppercase();
        path.is_file() && NAMES.iter().any(|word| name.starts_with(word))
    });
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::{HOST, published};

    #[test]
    fn the_licences_of_what_is_linked_are_there() {
        let packages = published().unwrap();
        let package = packages.iter().find(|package| package.name == "cargo-kernels").unwrap();
        let text = notices(package, HOST).unwrap();
        assert!(text.contains("\n==== clap 4"), "{text}");
        assert!(text.contains("Permission is hereby granted"));
        // A dev-dependency.
        assert!(!text.contains("\n==== trybuild "));
    }
}
