//! An open folder, and the files in it.

use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::owner::{check_file, check_folder, is_trusted, others_write};
use crate::system::{entry_at, link_at, open_at, remove_at, rename_at, root};
use crate::untrusted::Untrusted;

/// An open folder. It stays the same when another one is put at its path.
#[derive(Debug)]
pub struct Folder {
    file: File,
    path: PathBuf,
    /// Why another user can exchange a part of the path, if one can.
    pub(crate) untrusted: Option<Untrusted>,
    /// Whether other users may create files here.
    pub(crate) is_shared: bool,
    pub(crate) its: Metadata,
}

impl Folder {
    /// Returns the folder's path with all links resolved.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the folder if no other user can exchange it or this user's files in it.
    ///
    /// # Errors
    ///
    /// The folder is [`Untrusted`].
    pub fn trusted(self) -> io::Result<Self> {
        self.check().map(|()| self)
    }

    /// Returns the folder if it's trusted and no other user can create files in it.
    ///
    /// # Errors
    ///
    /// The folder is [`Untrusted`].
    pub fn exclusive(self) -> io::Result<Self> {
        match self.is_shared {
            true => Err(Untrusted::Writable { path: self.path }.into()),
            false => self.trusted(),
        }
    }

    pub(crate) fn check(&self) -> io::Result<()> {
        self.untrusted.clone().map_or(Ok(()), |why| Err(why.into()))
    }

    /// Opens a plain file. Links aren't followed.
    ///
    /// # Errors
    ///
    /// The file can't be opened, or isn't a plain file.
    pub fn open_file(&self, name: &OsStr) -> io::Result<File> {
        self.open_plain(name, libc::O_RDONLY)
    }

    /// Opens a plain file that only this user and root can have written. Links aren't followed.
    ///
    /// # Errors
    ///
    /// The file can't be opened, isn't a plain file, or is [`Untrusted`].
    pub fn open_trusted(&self, name: &OsStr) -> io::Result<File> {
        let file = self.open_file(name)?;
        self.check()?;
        check_file(&self.path.join(name), &file.metadata()?)?;
        Ok(file)
    }

    fn open_plain(&self, name: &OsStr, flags: i32) -> io::Result<File> {
        // Without the flag, opening a pipe would wait.
        let file = open_at(&self.file, name, flags | libc::O_NONBLOCK, 0)?;
        match file.metadata()?.is_file() {
            true => Ok(file),
            false => Err(io::Error::other("it isn't a plain file")),
        }
    }

    /// Returns whether there's a plain file with this name and content.
    pub fn has(&self, name: &OsStr, content: &[u8]) -> bool {
        let Ok(file) = self.open_file(name) else { return false };
        let mut there = Vec::new();
        file.metadata().is_ok_and(|its| its.len() == content.len() as u64)
            && file.take(content.len() as u64).read_to_end(&mut there).is_ok()
            && there == content
    }

    /// Returns an entry's metadata, without following a link.
    ///
    /// # Errors
    ///
    /// There's no such entry.
    pub fn metadata(&self, name: &OsStr) -> io::Result<Metadata> {
        entry_at(&self.file, name)?.metadata()
    }

    /// Writes a file atomically: a new file replaces the one with this name.
    ///
    /// # Errors
    ///
    /// The folder can't be written to.
    pub fn write(&self, name: &OsStr, bytes: &[u8]) -> io::Result<()> {
        let mut new = self.new_file()?;
        new.file().write_all(bytes)?;
        new.replace(name)
    }

    /// Overwrites a plain file in place, for folders that can't get new files.
    ///
    /// # Errors
    ///
    /// The file can't be written, or isn't a plain file.
    pub fn overwrite(&self, name: &OsStr, bytes: &[u8]) -> io::Result<()> {
        let mut file = self.open_plain(name, libc::O_WRONLY)?;
        file.set_len(0)?;
        file.write_all(bytes)
    }

    /// Creates a temporary file with a random name. It's removed unless it's renamed.
    ///
    /// # Errors
    ///
    /// The folder can't be written to.
    pub fn new_file(&self) -> io::Result<NewFile<'_>> {
        // Other users may not write it, regardless of `umask`.
        const MODE: u32 = 0o644;
        loop {
            let name: OsString = format!(".{:016x}.part", RandomState::new().build_hasher().finish()).into();
            match open_at(&self.file, &name, libc::O_RDWR | libc::O_CREAT | libc::O_EXCL, MODE) {
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                file => return Ok(NewFile { folder: self, name, file: file? }),
            }
        }
    }

    /// Removes a file, or a link itself.
    ///
    /// # Errors
    ///
    /// There's no such file, or the folder can't be written to.
    pub fn remove(&self, name: &OsStr) -> io::Result<()> {
        remove_at(&self.file, name)
    }

    pub(crate) fn root() -> io::Result<Self> {
        let file = root()?;
        let its = file.metadata()?;
        Ok(Folder::new(PathBuf::from("/"), file, its, None))
    }

    /// Starts over at the root for an absolute link. If the link is untrusted, so is everything after it.
    pub(crate) fn back_to_root(self) -> io::Result<Self> {
        let root = Folder::root()?;
        Ok(Folder { untrusted: self.untrusted.or(root.untrusted), ..root })
    }

    /// Descends into an entry that's a folder, or goes up for `..`.
    pub(crate) fn enter(self, name: &OsStr, file: File, its: Metadata) -> Self {
        let mut path = self.path;
        if name == ".." {
            path.pop();
        } else {
            path.push(name);
        }
        let mut untrusted = self.untrusted;
        if self.is_shared && name != ".." && !is_trusted(its.uid()) {
            untrusted.get_or_insert(Untrusted::OtherUser { path: path.clone(), user: its.uid() });
        }
        Folder::new(path, file, its, untrusted)
    }

    fn new(path: PathBuf, file: File, its: Metadata, untrusted: Option<Untrusted>) -> Self {
        let untrusted = untrusted.or_else(|| check_folder(&path, &its).err());
        Folder { is_shared: others_write(&path, &its), path, file, its, untrusted }
    }

    pub(crate) fn file(&self) -> &File {
        &self.file
    }
}

/// A temporary file in a folder, with a random name.
#[derive(Debug)]
pub struct NewFile<'a> {
    folder: &'a Folder,
    name: OsString,
    file: File,
}

impl NewFile<'_> {
    /// Returns the open file.
    pub fn file(&mut self) -> &mut File {
        &mut self.file
    }

    /// Renames the file, and replaces one that has the name.
    ///
    /// # Errors
    ///
    /// The folder can't be written to, or has a folder of this name.
    pub fn replace(self, name: &OsStr) -> io::Result<()> {
        rename_at(&self.folder.file, &self.name, name)
    }

    /// Renames the file, unless one has the name.
    ///
    /// # Errors
    ///
    /// There's a file with this name, or the folder can't be written to.
    pub fn place(self, name: &OsStr) -> io::Result<()> {
        match link_at(&self.folder.file, &self.name, name) {
            // Not all file systems support hard links.
            Err(error) if error.kind() != ErrorKind::AlreadyExists => self.replace(name),
            linked => linked,
        }
    }
}

impl Drop for NewFile<'_> {
    /// Removes the temporary file. This fails if it was renamed.
    fn drop(&mut self) {
        let _ = self.folder.remove(&self.name);
    }
}
