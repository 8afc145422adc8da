//! Resolves a path from the root, part by part, like the kernel, but checks who could exchange each one.

use std::ffi::{OsStr, OsString};
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path};

use crate::folder::Folder;
use crate::owner::{is_sticky, is_trusted};
use crate::system::{create_folder_at, entry_at, target};
use crate::untrusted::Untrusted;

/// The maximum number of links, as in Linux.
const LINKS: usize = 40;

/// The expected end of a path.
#[derive(Clone, Copy, PartialEq)]
enum End {
    /// A file, which may be missing.
    File,
    Folder,
    /// A folder, which is created with this mode if it's missing.
    NewFolder {
        mode: u32,
        must_be_trusted: bool,
    },
}

impl Folder {
    /// Opens a folder.
    ///
    /// # Errors
    ///
    /// It's missing, or another user planted a link on the way.
    pub fn open(path: &Path) -> io::Result<Self> {
        walk(path, End::Folder).map(|(folder, _)| folder)
    }

    /// Opens a folder, and creates missing parts of its path.
    ///
    /// # Errors
    ///
    /// It can't be created, or another user planted a link on the way.
    pub fn create(path: &Path) -> io::Result<Self> {
        walk(path, End::NewFolder { mode: 0o755, must_be_trusted: false }).map(|(folder, _)| folder)
    }

    /// Opens a folder that no other user can exchange, and creates missing parts of its path with this mode.
    ///
    /// # Errors
    ///
    /// It can't be created, or is [`Untrusted`]. Then nothing is created.
    pub fn create_trusted(path: &Path, mode: u32) -> io::Result<Self> {
        walk(path, End::NewFolder { mode, must_be_trusted: true })?.0.trusted()
    }

    /// Opens a file's folder, and returns the file's name in it. Links are followed. The file may be missing.
    ///
    /// # Errors
    ///
    /// There's no such folder, or another user planted the file, or a link on the way.
    pub fn containing(file: &Path) -> io::Result<(Self, OsString)> {
        walk(file, End::File)
    }
}

/// Resolves a path to a folder, or to a file's folder and name.
fn walk(path: &Path, end: End) -> io::Result<(Folder, OsString)> {
    let path = std::path::absolute(path)?;
    let mut folder = Folder::root()?;
    let mut rest = Vec::new();
    push(&mut rest, &path);
    let mut links = 0;
    while let Some(name) = rest.pop() {
        let is_file = rest.is_empty() && end == End::File && name != "..";
        let entry = match (entry_at(folder.file(), &name), end) {
            (Err(error), End::File) if is_file && error.kind() == ErrorKind::NotFound => {
                return Ok((folder, name));
            }
            (Err(error), End::NewFolder { mode, must_be_trusted }) if error.kind() == ErrorKind::NotFound => {
                create(&folder, &name, mode, must_be_trusted)?
            }
            (entry, _) => entry?,
        };
        let its = entry.metadata()?;
        let is_link = its.is_symlink();
        if is_link || is_file && is_sticky(&folder.its) {
            check_planted(&mut folder, &name, its.uid())?;
        }
        if is_link {
            links += 1;
            if links > LINKS {
                return Err(io::Error::from_raw_os_error(libc::ELOOP));
            }
            let to = target(&entry)?;
            if Path::new(&to).is_absolute() {
                folder = folder.back_to_root()?;
            }
            push(&mut rest, Path::new(&to));
        } else if is_file {
            return Ok((folder, name));
        } else {
            folder = folder.enter(&name, entry, its);
        }
    }
    match end {
        End::File => Err(io::Error::new(ErrorKind::IsADirectory, "it's a folder, and not a file")),
        _ => Ok((folder, OsString::new())),
    }
}

/// Pushes the parts of a path onto a stack, the first on top.
fn push(rest: &mut Vec<OsString>, path: &Path) {
    let parts =
        path.components().rev().filter(|part| matches!(part, Component::Normal(_) | Component::ParentDir));
    rest.extend(parts.map(|part| part.as_os_str().to_owned()));
}

fn create(folder: &Folder, name: &OsStr, mode: u32, must_be_trusted: bool) -> io::Result<std::fs::File> {
    if must_be_trusted {
        folder.check()?;
    }
    match create_folder_at(folder.file(), name, mode) {
        // Another process has just created it.
        Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(error),
        _ => entry_at(folder.file(), name),
    }
}

/// Fails if another user has put a link into a folder that others may write to, or the file at the end into a
/// sticky one, where this user couldn't replace it. Linux has such a rule itself (`fs.protected_symlinks`),
/// but not on all machines, and only for sticky folders.
fn check_planted(folder: &mut Folder, name: &OsStr, user: u32) -> io::Result<()> {
    if !folder.is_shared || is_trusted(user) {
        return Ok(());
    }
    let path = folder.path().join(name);
    if user != folder.its.uid() {
        return Err(Untrusted::Planted { path, user }.into());
    }
    folder.untrusted.get_or_insert(Untrusted::OtherUser { path, user });
    Ok(())
}
