//! A result's dependencies: a list of everything NVRTC has read, and the check that all is unchanged.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;
use std::{env, ffi::OsStr};

use super::entry::{Entry, File, read_at_beginning};
use super::imports::{self, Observed};
use crate::kept::{Dependency, Digest, PathState};
use crate::record::open_plain;
use crate::watch::process::locked::Locked;

/// Returns the dependencies of a compilation that started at `begun` and has just ended, or why they're
/// incomplete. `has_lines`: line numbers were asked for.
pub(super) fn dependencies(
    observed: Observed,
    begun: SystemTime,
    has_lines: bool,
) -> Result<Vec<Dependency>, String> {
    if let Some(why) = observed.uncacheable {
        return Err(why);
    }
    let mut all = Vec::with_capacity(observed.paths.len());
    let opened = observed.paths.values().filter_map(|entry| match entry {
        Entry::Opened(_, digest) => Some(*digest),
        _ => None,
    });
    let opened: Vec<_> = opened.collect();
    let files: Vec<_> = observed.paths.values().filter_map(Entry::file).map(|file| file.identity).collect();
    // `#pragma once` depends on whether two paths are the same file, and not on their contents alone.
    let differ = opened.iter().collect::<BTreeSet<_>>().len() == opened.len()
        && files.iter().collect::<BTreeSet<_>>().len() == files.len();
    if !differ {
        return Err("two of its headers are the same".to_owned());
    }
    if has_lines && !opened.is_empty() {
        return Err("its line numbers have the times of its headers".to_owned());
    }
    for (path, entry) in observed.paths {
        let (there, is_old) = (Entry::at(as_path(&path)), |file: File| file.is_older_than(begun));
        let is_unchanged = match entry.file() {
            Some(file) => there.file() == Some(file) && is_old(file),
            None => there == entry,
        };
        if !is_unchanged {
            let path = as_path(&path).display();
            return Err(format!("`{path}` changes while NVRTC compiles"));
        }
        all.push(Dependency::Path { path, in_folder: false, state: entry.state() });
    }
    let variables = imports::variables()
        .map_err(|name| format!("the variable `{}` changes", String::from_utf8_lossy(&name)))?;
    all.extend(variables.into_iter().map(|(name, value)| Dependency::Variable { name, value }));
    Ok(all)
}

/// A folder, and the one that replaced it in a shadow compilation.
pub(super) struct Moved<'a> {
    pub(super) from: &'a [u8],
    pub(super) to: &'a [u8],
    /// Whether it's the folder in the program's name, and not the working directory.
    pub(super) is_of_name: bool,
}

/// Makes paths relative to the folders that NVRTC derived them from. Those are the paths that the shadow
/// compilation looked for in the replaced folder. If the shadow looked for the original path, too, NVRTC has
/// it from an option, and it's also kept as it is. `asked` has the shadow's paths.
pub(super) fn relative_to(
    folders: &[Moved<'_>],
    dependencies: Vec<Dependency>,
    asked: &HashSet<Vec<u8>>,
) -> Vec<Dependency> {
    let mut all = Vec::with_capacity(dependencies.len());
    for dependency in dependencies {
        let Dependency::Path { path, state, .. } = &dependency else {
            all.push(dependency);
            continue;
        };
        let before = all.len();
        for Moved { from, to, is_of_name } in folders {
            let Some(rest) = path.strip_prefix(*from).filter(|rest| matches!(rest, [] | [b'/', ..])) else {
                continue;
            };
            if asked.contains(&[*to, rest].concat()) && (*is_of_name || rest.len() > 1) {
                let rest = rest.strip_prefix(b"/").unwrap_or(rest).to_vec();
                all.push(Dependency::Path { path: rest, in_folder: *is_of_name, state: *state });
            }
        }
        if all.len() == before || asked.contains(path) {
            all.push(dependency);
        }
    }
    all
}

/// Returns the dependencies on the working directory and its variable.
pub(super) fn place() -> Result<[Dependency; 2], String> {
    let directory = directory().map_err(|error| format!("the working directory isn't known: {error}"))?;
    let value = imports::value_of(imports::PWD);
    Ok([Dependency::Directory(directory), Dependency::Variable { name: imports::PWD.to_vec(), value }])
}

fn directory() -> io::Result<Digest> {
    Ok(Digest::new(env::current_dir()?.as_os_str().as_bytes()))
}

/// Checks that nothing has changed for a program whose name has this folder, or returns what has.
pub(super) fn check(dependencies: &[Dependency], folder: &[u8]) -> Result<(), String> {
    dependencies.iter().try_for_each(|dependency| match dependency {
        Dependency::Path { path, in_folder, state } => {
            let path = as_path(path);
            let path = if *in_folder { as_path(folder).join(path) } else { path.to_owned() };
            let is_same = match (state, Entry::at(&path)) {
                (PathState::Content(digest), Entry::File(file)) => {
                    digest_of(&path, file).is_ok_and(|its| its == *digest)
                }
                (state, there) => there.state() == *state,
            };
            if is_same { Ok(()) } else { Err(format!("`{}` has changed", path.display())) }
        }
        Dependency::Variable { name, value } => match imports::would_see(name, *value) {
            true => Ok(()),
            false => Err(format!("the variable `{}` has changed", String::from_utf8_lossy(name))),
        },
        Dependency::Directory(digest) => match directory() {
            Ok(its) if its == *digest => Ok(()),
            _ => Err("the working directory has changed".to_owned()),
        },
    })
}

/// The digests of files that were read before.
static DIGESTS: Locked<HashMap<PathBuf, (File, Digest)>> = Locked::new();

fn digest_of(path: &Path, file: File) -> io::Result<Digest> {
    let known = DIGESTS.lock().get(path).filter(|(its, _)| *its == file).map(|(_, digest)| *digest);
    if let Some(digest) = known {
        return Ok(digest);
    }
    let digest = Digest::new(&read_at_beginning(&open_plain(path)?.0)?);
    // A younger file may change again without a new timestamp.
    if file.is_older_than(SystemTime::now()) {
        DIGESTS.lock().insert(path.to_owned(), (file, digest));
    }
    Ok(digest)
}

fn as_path(bytes: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_relative_to_the_folders_from_which_they_were_made() {
        let path = |path: &str, in_folder| Dependency::Path {
            path: path.as_bytes().to_vec(),
            in_folder,
            state: PathState::Missing,
        };
        let relative = |from: &'static str, paths: &[&str], asked: &[&str]| {
            let moved = [
                Moved { from: b"/src/f", to: b"/other/folder", is_of_name: true },
                Moved { from: from.as_bytes(), to: b"/other/directory", is_of_name: false },
            ];
            let asked = asked.iter().map(|path| path.as_bytes().to_vec()).collect();
            relative_to(&moved, paths.iter().map(|its| path(its, false)).collect(), &asked)
        };
        assert_eq!(relative("/src", &["/src/f/h.h"], &["/other/folder/h.h"]), [path("h.h", true)]);
        // An option names the folder, too.
        assert_eq!(
            relative("/src", &["/src/f/h.h"], &["/other/folder/h.h", "/src/f/h.h"]),
            [path("h.h", true), path("/src/f/h.h", false)]
        );
        assert_eq!(relative("/src", &["/src/f/h.h"], &["/src/f/h.h"]), [path("/src/f/h.h", false)]);
        // The program's folder is the working directory.
        assert_eq!(
            relative("/src/f", &["/src/f/h.h"], &["/other/folder/h.h", "/other/directory/h.h"]),
            [path("h.h", true), path("h.h", false)]
        );
        // The working directory is the root.
        assert_eq!(relative("", &["/h.h"], &["/other/directory/h.h"]), [path("h.h", false)]);
        // NVRTC asks for the directories themselves.
        assert_eq!(relative("/src", &["/src/f"], &["/other/folder"]), [path("", true)]);
        assert_eq!(relative("/src", &["/src"], &["/other/directory"]), [path("/src", false)]);
        assert_eq!(relative("/src", &["/src/fine"], &[]), [path("/src/fine", false)]);
    }
}
