//! System calls that take a name relative to an open folder.

use std::ffi::{CString, OsStr, OsString};
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

fn zero_terminated(name: &OsStr) -> io::Result<CString> {
    CString::new(name.as_bytes()).map_err(|error| io::Error::new(ErrorKind::InvalidInput, error))
}

fn done(answer: i32) -> io::Result<()> {
    if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Opens an entry. Links aren't followed.
pub(crate) fn open_at(folder: &File, name: &OsStr, flags: i32, mode: u32) -> io::Result<File> {
    let name = zero_terminated(name)?;
    let flags = flags | libc::O_NOFOLLOW | libc::O_CLOEXEC;
    // SAFETY: the name ends with a zero.
    let opened = unsafe { libc::openat(folder.as_raw_fd(), name.as_ptr(), flags, mode) };
    if opened < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new, and has no other owner.
    Ok(unsafe { File::from_raw_fd(opened) })
}

/// Opens an entry for lookups and metadata, which needs no read permission.
pub(crate) fn entry_at(folder: &File, name: &OsStr) -> io::Result<File> {
    // An automounter mounts a folder only if it's opened as one.
    match open_at(folder, name, libc::O_PATH | libc::O_DIRECTORY, 0) {
        Err(error) if error.raw_os_error() == Some(libc::ENOTDIR) => open_at(folder, name, libc::O_PATH, 0),
        entry => entry,
    }
}

/// Returns the target of a link that was opened by [`entry_at`].
pub(crate) fn target(link: &File) -> io::Result<OsString> {
    let mut bytes = vec![0; libc::PATH_MAX as usize];
    // SAFETY: the name ends with a zero, and the buffer has this length.
    let length =
        unsafe { libc::readlinkat(link.as_raw_fd(), c"".as_ptr(), bytes.as_mut_ptr().cast(), bytes.len()) };
    let length = usize::try_from(length).map_err(|_| io::Error::last_os_error())?;
    bytes.truncate(length);
    Ok(OsString::from_vec(bytes))
}

pub(crate) fn create_folder_at(folder: &File, name: &OsStr, mode: u32) -> io::Result<()> {
    let name = zero_terminated(name)?;
    // SAFETY: the name ends with a zero.
    done(unsafe { libc::mkdirat(folder.as_raw_fd(), name.as_ptr(), mode) })
}

pub(crate) fn rename_at(folder: &File, from: &OsStr, to: &OsStr) -> io::Result<()> {
    let (from, to, folder) = (zero_terminated(from)?, zero_terminated(to)?, folder.as_raw_fd());
    // SAFETY: both names end with a zero.
    done(unsafe { libc::renameat(folder, from.as_ptr(), folder, to.as_ptr()) })
}

pub(crate) fn link_at(folder: &File, from: &OsStr, to: &OsStr) -> io::Result<()> {
    let (from, to, folder) = (zero_terminated(from)?, zero_terminated(to)?, folder.as_raw_fd());
    // SAFETY: both names end with a zero.
    done(unsafe { libc::linkat(folder, from.as_ptr(), folder, to.as_ptr(), 0) })
}

pub(crate) fn remove_at(folder: &File, name: &OsStr) -> io::Result<()> {
    let name = zero_terminated(name)?;
    // SAFETY: the name ends with a zero.
    done(unsafe { libc::unlinkat(folder.as_raw_fd(), name.as_ptr(), 0) })
}

pub(crate) fn root() -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt;
    File::options().read(true).custom_flags(libc::O_PATH | libc::O_DIRECTORY).open(Path::new("/"))
}
