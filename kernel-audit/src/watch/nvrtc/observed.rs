//! What was at the paths that NVRTC asked for, and whether it's still there.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fs::{self, Metadata};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use std::{env, ffi::OsStr};

use memchr::memmem;

use super::imports::{self, Asked};
use crate::kept::{Dependency, Digest, Was};
use crate::record::open_plain;
use crate::watch::process::locked::Locked;

/// No file that is read is larger, in bytes.
const LARGEST: u64 = 64 << 20;

/// The clock of files may be this much behind.
const CLOCK: Duration = Duration::from_millis(20);

/// Tells a version of a file from all others: device, number, size, and the times of its last changes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct File {
    file: (u64, u64, u64),
    modified: (i64, i64),
    changed: (i64, i64),
}

impl File {
    fn of(its: &Metadata) -> Self {
        File {
            file: (its.dev(), its.ino(), its.size()),
            modified: (its.mtime(), its.mtime_nsec()),
            changed: (its.ctime(), its.ctime_nsec()),
        }
    }

    /// Reads an open file from its beginning, without moving its position.
    pub(super) fn read(descriptor: BorrowedFd<'_>) -> io::Result<(File, Vec<u8>)> {
        let file = fs::File::from(descriptor.try_clone_to_owned()?);
        let its = file.metadata()?;
        if !its.is_file() {
            return Err(io::Error::other("it's no plain file"));
        }
        Ok((File::of(&its), read_at_beginning(&file)?))
    }

    /// Whether the file is older than this time, so that every later change changes its times.
    fn is_older_than(&self, time: SystemTime) -> bool {
        let (seconds, nanoseconds) = self.changed;
        let changed = UNIX_EPOCH + Duration::new(seconds.max(0) as u64, nanoseconds as u32);
        changed + CLOCK < time
    }
}

fn read_at_beginning(file: &fs::File) -> io::Result<Vec<u8>> {
    const STEP: usize = 1 << 16;
    let mut bytes = Vec::new();
    loop {
        let at = bytes.len();
        bytes.resize(at + STEP, 0);
        // SAFETY: there's room for so many bytes, and the descriptor is open.
        let count = unsafe {
            libc::pread(file.as_raw_fd(), bytes[at..].as_mut_ptr().cast(), STEP, at as libc::off_t)
        };
        match usize::try_from(count) {
            Err(_) => return Err(io::Error::last_os_error()),
            Ok(0) => {
                bytes.truncate(at);
                return Ok(bytes);
            }
            Ok(count) => bytes.truncate(at + count),
        }
        if bytes.len() as u64 > LARGEST {
            return Err(io::Error::other("it's too large"));
        }
    }
}

/// What was at a path when NVRTC asked.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Entry {
    Missing,
    Folder,
    /// A file that NVRTC didn't open.
    File(File),
    /// A file that NVRTC opened, with the digest of its contents.
    Opened(File, Digest),
}

impl Entry {
    /// Returns what is at a path, as far as it can be told without opening it.
    pub(super) fn at(path: &Path) -> Entry {
        match fs::metadata(path) {
            Err(_) => Entry::Missing,
            Ok(its) if its.is_dir() => Entry::Folder,
            Ok(its) => Entry::File(File::of(&its)),
        }
    }

    /// Adds what was at the same path later. Fails if that was something else.
    pub(super) fn add(&mut self, later: Entry) -> Result<(), String> {
        let is_same = match (self.file(), later.file()) {
            (Some(one), Some(other)) => one == other,
            _ => *self == later,
        };
        if let Entry::Opened(..) = later {
            *self = later;
        }
        if is_same { Ok(()) } else { Err("files change while NVRTC compiles".to_owned()) }
    }

    fn file(&self) -> Option<File> {
        match self {
            Entry::Missing | Entry::Folder => None,
            Entry::File(file) | Entry::Opened(file, _) => Some(*file),
        }
    }

    fn was(&self) -> Was {
        match self {
            Entry::Missing => Was::Missing,
            Entry::Folder => Was::Folder,
            Entry::File(_) => Was::File,
            Entry::Opened(_, digest) => Was::Content(*digest),
        }
    }
}

/// Returns what a compilation depends on that began at this time and has just ended. Or why that isn't known. `has_lines`
/// tells whether it was asked for line numbers.
pub(super) fn dependencies(
    asked: Asked,
    begun: SystemTime,
    has_lines: bool,
) -> Result<Vec<Dependency>, String> {
    if let Some(why) = asked.why_not {
        return Err(why);
    }
    let mut all = Vec::with_capacity(asked.paths.len());
    let opened = asked.paths.values().filter_map(|entry| match entry {
        Entry::Opened(_, digest) => Some(*digest),
        _ => None,
    });
    let opened: Vec<_> = opened.collect();
    let files: Vec<_> = asked.paths.values().filter_map(Entry::file).map(|file| file.file).collect();
    // `#pragma once` asks whether two paths are one file, which may change without their contents.
    let differ = opened.iter().collect::<BTreeSet<_>>().len() == opened.len()
        && files.iter().collect::<BTreeSet<_>>().len() == files.len();
    if !differ {
        return Err("two of its headers are the same".to_owned());
    }
    if has_lines && !opened.is_empty() {
        return Err("its line numbers have the times of its headers".to_owned());
    }
    for (path, entry) in asked.paths {
        let (there, is_old) = (Entry::at(as_path(&path)), |file: File| file.is_older_than(begun));
        let is_as_it_was = match entry.file() {
            Some(file) => there.file() == Some(file) && is_old(file),
            None => there == entry,
        };
        if !is_as_it_was {
            let path = as_path(&path).display();
            return Err(format!("`{path}` changes while NVRTC compiles"));
        }
        all.push(Dependency::Path { path, in_folder: false, was: entry.was() });
    }
    let variables = imports::variables()
        .map_err(|name| format!("the variable `{}` changes", String::from_utf8_lossy(&name)))?;
    all.extend(variables.into_iter().map(|(name, value)| Dependency::Variable { name, value }));
    Ok(all)
}

/// A folder from which NVRTC made paths, and the folder that it had instead in a shadow compilation.
pub(super) struct Moved<'a> {
    pub(super) from: &'a [u8],
    pub(super) to: &'a [u8],
    /// Whether it's the folder of the program's name, and not the working directory.
    pub(super) is_of_name: bool,
}

/// Makes paths relative to the folders from which NVRTC made them: those for which a shadow compilation asked in the other
/// folder. A path for which the shadow asked, too, stays what it is as well: NVRTC had it from an option.
pub(super) fn relative_to(
    folders: &[Moved<'_>],
    dependencies: Vec<Dependency>,
    asked: &HashSet<Vec<u8>>,
) -> Vec<Dependency> {
    let mut all = Vec::with_capacity(dependencies.len());
    for dependency in dependencies {
        let Dependency::Path { path, was, .. } = &dependency else {
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
                all.push(Dependency::Path { path: rest, in_folder: *is_of_name, was: *was });
            }
        }
        if all.len() == before || asked.contains(path) {
            all.push(dependency);
        }
    }
    all
}

/// Returns what tells the place of a process: its working directory, and the variable for it.
pub(super) fn place() -> Result<[Dependency; 2], String> {
    let directory = directory().map_err(|error| format!("the working directory isn't known: {error}"))?;
    let value = imports::value_of(imports::PWD);
    Ok([Dependency::Directory(directory), Dependency::Variable { name: imports::PWD.to_vec(), value }])
}

fn directory() -> io::Result<Digest> {
    Ok(Digest::new(env::current_dir()?.as_os_str().as_bytes()))
}

/// Checks that NVRTC would get the same answers in a program whose name has this folder. Returns what has changed otherwise.
pub(super) fn check(dependencies: &[Dependency], folder: &[u8]) -> Result<(), String> {
    dependencies.iter().try_for_each(|dependency| match dependency {
        Dependency::Path { path, in_folder, was } => {
            let path = as_path(path);
            let path = if *in_folder { as_path(folder).join(path) } else { path.to_owned() };
            let is_same = match (was, Entry::at(&path)) {
                (Was::Content(digest), Entry::File(file)) => {
                    digest_of(&path, file).is_ok_and(|its| its == *digest)
                }
                (was, there) => there.was() == *was,
            };
            if is_same { Ok(()) } else { Err(format!("`{}` is another one", path.display())) }
        }
        Dependency::Variable { name, value } => match imports::is_told(name, *value) {
            true => Ok(()),
            false => Err(format!("the variable `{}` has another value", String::from_utf8_lossy(name))),
        },
        Dependency::Directory(digest) => match directory() {
            Ok(its) if its == *digest => Ok(()),
            _ => Err("the working directory is another one".to_owned()),
        },
    })
}

/// The digests of files that were read already.
static DIGESTS: Locked<HashMap<PathBuf, (File, Digest)>> = Locked::new();

fn digest_of(path: &Path, file: File) -> io::Result<Digest> {
    let known = DIGESTS.lock().get(path).filter(|(its, _)| *its == file).map(|(_, digest)| *digest);
    if let Some(digest) = known {
        return Ok(digest);
    }
    let digest = Digest::new(&read_at_beginning(&open_plain(path)?.0)?);
    // A younger file may change without changing its times.
    if file.is_older_than(SystemTime::now()) {
        DIGESTS.lock().insert(path.to_owned(), (file, digest));
    }
    Ok(digest)
}

fn as_path(bytes: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(bytes))
}

/// Returns why a text may tell the time, if it may. Texts that paste such a name from pieces are left to the
/// [shadow](super::shadow).
pub(super) fn tells_time(text: &[u8]) -> Option<String> {
    const CLOCKS: [&str; 3] = ["__DATE__", "__TIME__", "__TIMESTAMP__"];
    let word = CLOCKS.into_iter().find(|word| memmem::find(text, word.as_bytes()).is_some())?;
    Some(format!("its text has `{word}`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_relative_to_the_folders_from_which_they_were_made() {
        let path = |path: &str, in_folder| Dependency::Path {
            path: path.as_bytes().to_vec(),
            in_folder,
            was: Was::Missing,
        };
        let relative = |from: &'static str, paths: &[&str], asked: &[&str]| {
            let moved = [
                Moved { from: b"/work/f", to: b"/other/folder", is_of_name: true },
                Moved { from: from.as_bytes(), to: b"/other/directory", is_of_name: false },
            ];
            let asked = asked.iter().map(|path| path.as_bytes().to_vec()).collect();
            relative_to(&moved, paths.iter().map(|its| path(its, false)).collect(), &asked)
        };
        assert_eq!(relative("/work", &["/work/f/h.h"], &["/other/folder/h.h"]), [path("h.h", true)]);
        // An option names the folder, too.
        assert_eq!(
            relative("/work", &["/work/f/h.h"], &["/other/folder/h.h", "/work/f/h.h"]),
            [path("h.h", true), path("/work/f/h.h", false)]
        );
        assert_eq!(relative("/work", &["/work/f/h.h"], &["/work/f/h.h"]), [path("/work/f/h.h", false)]);
        // The program's folder is the working directory.
        assert_eq!(
            relative("/work/f", &["/work/f/h.h"], &["/other/folder/h.h", "/other/directory/h.h"]),
            [path("h.h", true), path("h.h", false)]
        );
        // The working directory is the root.
        assert_eq!(relative("", &["/h.h"], &["/other/directory/h.h"]), [path("h.h", false)]);
        // NVRTC asks for the directories themselves.
        assert_eq!(relative("/work", &["/work/f"], &["/other/folder"]), [path("", true)]);
        assert_eq!(relative("/work", &["/work"], &["/other/directory"]), [path("/work", false)]);
        assert_eq!(relative("/work", &["/work/fine"], &[]), [path("/work/fine", false)]);
    }
}
