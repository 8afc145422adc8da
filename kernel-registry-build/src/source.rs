//! Finds the sources of a build and their architectures.

use std::fs;
use std::path::{Component, Path, PathBuf};

use crate::arch::Targets;
use crate::{Build, Error, Result};

/// The folder that is searched for a package's sources.
pub(crate) const SOURCES: &str = "cuda";

/// A source can name its architectures in this many lines at its start.
const DIRECTIVE_LINES: usize = 20;

/// One `.cu` file.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    /// The path, relative to the package, with slashes.
    pub(crate) path: String,
    pub(crate) targets: Targets,
}

/// Returns the folder of the package.
pub(crate) fn package(build: &Build) -> Result<PathBuf> {
    match &build.package {
        Some(folder) => std::path::absolute(folder).map_err(Error::file("find", folder)),
        None => build.environment.folder("CARGO_MANIFEST_DIR"),
    }
}

/// Returns the sources of a build, and the folders to watch for new ones.
pub(crate) fn find_sources(build: &Build, package: &Path) -> Result<(Vec<Source>, Vec<PathBuf>)> {
    let folder = package.join(SOURCES);
    let (files, folders) = if !build.files.is_empty() {
        (build.files.clone(), Vec::new())
    } else if folder.is_dir() {
        cuda_files_in(&folder)?
    } else {
        (Vec::new(), Vec::new())
    };
    if files.is_empty() {
        return Err(Error::NoSources { folder });
    }
    let mut special = Vec::new();
    let mut errors = Vec::new();
    for (path, archs, ptx) in &build.special {
        match relative(package, path) {
            Ok(path) => special.push((path, archs, ptx)),
            Err(error) => errors.push(error),
        }
    }
    let mut found: Vec<Source> = Vec::new();
    for file in &files {
        let source = relative(package, file).and_then(|path| {
            let absolute = package.join(&path);
            let text = fs::read(&absolute).map_err(Error::file("read", &absolute))?;
            let said = directive(&path, &String::from_utf8_lossy(&text))?;
            let targets = match (special.iter().find(|(special, ..)| *special == path), &said) {
                (Some((_, archs, ptx)), _) => Targets::new(archs, ptx),
                (None, Some((archs, ptx))) => Targets::new(archs, ptx),
                (None, None) => Targets::new(&build.archs, &build.ptx),
            };
            Ok(Source { path, targets: targets? })
        });
        match source {
            Ok(source) if found.iter().all(|other| other.path != source.path) => found.push(source),
            Ok(_) => {}
            Err(error) => errors.push(error),
        }
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    Error::several(errors).map_or(Ok((found, folders)), Err)
}

/// Returns every `.cu` file in a folder and its subfolders, sorted, and all these folders.
pub(crate) fn cuda_files_in(folder: &Path) -> Result<(Vec<PathBuf>, Vec<PathBuf>)> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_owned()];
    let mut next = 0;
    while let Some(folder) = folders.get(next).cloned() {
        next += 1;
        for entry in fs::read_dir(&folder).map_err(Error::file("read", &folder))? {
            let entry = entry.map_err(Error::file("read", &folder))?;
            let path = entry.path();
            // Links aren't followed, because a link could lead back up.
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "cu") {
                files.push(path);
            }
        }
    }
    files.sort();
    Ok((files, folders))
}

/// Returns the path of a source in the form of the index. Fails if the package has no such file.
pub(crate) fn relative(package: &Path, given: &Path) -> Result<String> {
    let absolute = tidy(&package.join(given));
    let Ok(inside) = absolute.strip_prefix(tidy(package)) else {
        return Err(Error::Outside { source: given.to_owned(), package: package.to_owned() });
    };
    if !absolute.is_file() {
        return Err(Error::MissingSource { source: given.to_owned(), package: package.to_owned() });
    }
    slashes(inside)
        .filter(|path| !path.contains(['\n', '\r', '\t']))
        .ok_or_else(|| Error::Name { source: given.to_owned() })
}

/// Returns a relative path with slashes. `None` if it isn't UTF-8.
pub(crate) fn slashes(path: &Path) -> Option<String> {
    let parts: Option<Vec<&str>> = path.components().map(|part| part.as_os_str().to_str()).collect();
    parts.map(|parts| parts.join("/"))
}

/// Resolves `.` and `..` in a path by name, without looking at the file system.
pub(crate) fn tidy(path: &Path) -> PathBuf {
    let mut tidy = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                tidy.pop();
            }
            part => tidy.push(part),
        }
    }
    tidy
}

/// Parses the architectures that a source chooses for itself:
/// `// kernel-registry: arch=sm_90 ptx=compute_90`.
pub(crate) fn directive(source: &str, text: &str) -> Result<Option<(Vec<String>, Vec<String>)>> {
    let line = text.lines().take(DIRECTIVE_LINES).enumerate().find_map(|(number, line)| {
        let words = line.trim().strip_prefix("//")?.trim_start().strip_prefix("kernel-registry:")?;
        Some((number + 1, words))
    });
    let Some((line, words)) = line else { return Ok(None) };
    let (mut archs, mut ptx) = (Vec::new(), Vec::new());
    for word in words.split_whitespace() {
        let (list, names) = match word.split_once('=') {
            Some(("arch", names)) => (&mut archs, names),
            Some(("ptx", names)) => (&mut ptx, names),
            _ => return Err(Error::Directive { source: source.to_owned(), line, word: word.to_owned() }),
        };
        list.extend(names.split(',').map(str::to_owned));
    }
    Ok(Some((archs, ptx)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_names_its_architectures() {
        let said =
            directive("a.cu", "// About.\n//  kernel-registry: arch=sm_90,sm_100 ptx=compute_90\n").unwrap();
        assert_eq!(said, Some((vec!["sm_90".into(), "sm_100".into()], vec!["compute_90".into()])));
        assert_eq!(directive("a.cu", "__global__ void k() {}").unwrap(), None);
        let late = format!("{}// kernel-registry: arch=sm_90", "\n".repeat(DIRECTIVE_LINES));
        assert_eq!(directive("a.cu", &late).unwrap(), None);
        let wrong = directive("a.cu", "\n// kernel-registry: arhc=sm_90").unwrap_err().to_string();
        assert!(wrong.starts_with("a.cu:2: `arhc=sm_90` is not understood"), "{wrong}");
    }

    #[test]
    fn paths_are_tidied_by_name() {
        assert_eq!(tidy(Path::new("/a/./b/../c//d")), Path::new("/a/c/d"));
    }
}
