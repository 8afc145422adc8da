//! A folder for the core dump. cuda-gdb lets the process itself write the file, so the folder is one that the process sees,
//! and may write to: with its own root and its own user. It's held open, because the process can end at any time, and its
//! root with it.

use std::cmp::Reverse;
use std::ffi::CString;
use std::fs::{self, DirBuilder, File};
use std::io::{self, ErrorKind};
use std::mem;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use super::rights::{Owner, Rights};
use super::target::Target;
use crate::command::file_system::room;

const NAME: &str = "core";

/// Room for any core dump without the memory of the GPU. Those of PyTorch have a hundred megabytes.
pub(super) const ENOUGH: u64 = 1 << 30;

/// A folder in the temporary folder of a process. It's removed when this is dropped.
pub(super) struct Folder {
    /// The path as the process sees it.
    its: PathBuf,
    /// The folder in which this one is.
    parent: OwnedFd,
    this: OwnedFd,
    name: String,
    owner: Owner,
}

impl Folder {
    /// Makes a folder with the rights of the process, where there's room: a container's `/tmp` can be small.
    pub(super) fn create_for(process: &Target) -> io::Result<Self> {
        let _rights = Rights::assume(process.owner);
        let root = File::open(process.folder().join("root"))?;
        let is_plain = |path: &PathBuf| path.to_str().is_some_and(|path| !path.contains(char::is_control));
        let mut refused = ErrorKind::NotFound.into();
        let mut parents = Vec::new();
        let wanted = [process.temporary_folder(), "/var/tmp".into(), "/dev/shm".into()];
        for its in wanted.into_iter().filter(is_plain) {
            match in_root(&root, &its) {
                Ok(parent) => parents.push((parent, its)),
                Err(error) => refused = error,
            }
        }
        parents.sort_by_cached_key(|(parent, _)| Reverse(room(&path_of(parent)).unwrap_or(0).min(ENOUGH)));
        // In a container the numbers of processes come again.
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        let name = format!("kernel-audit-dump-{}-{now}", process.number);
        for (parent, its) in parents {
            let ours = path_of(&parent).join(&name);
            let made = DirBuilder::new().mode(0o700).create(&ours);
            let undo = |_: &io::Error| drop(fs::remove_dir(&ours));
            match made.and_then(|()| open(&ours, libc::O_DIRECTORY).inspect_err(undo)) {
                Ok(this) => {
                    let its = its.join(&name);
                    return Ok(Folder { its, parent, this: this.into(), name, owner: process.owner });
                }
                Err(error) => refused = error,
            }
        }
        Err(refused)
    }

    /// Returns the path of the core dump for the process.
    pub(super) fn file(&self) -> PathBuf {
        self.its.join(NAME)
    }

    /// Opens the core dump that the process has written, unless it has put something else there.
    pub(super) fn open(&self) -> io::Result<File> {
        let _rights = Rights::assume(self.owner);
        let file = open(&path_of(&self.this).join(NAME), libc::O_NONBLOCK)?;
        if file.metadata()?.is_file() { Ok(file) } else { Err(ErrorKind::InvalidInput.into()) }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _rights = Rights::assume(self.owner);
        let _ = fs::remove_dir_all(path_of(&self.parent).join(&self.name));
    }
}

/// Opens a file, and follows no link at the end of the path.
fn open(path: &Path, flags: libc::c_int) -> io::Result<File> {
    File::options().read(true).custom_flags(flags | libc::O_NOFOLLOW).open(path)
}

/// Returns a path of an open folder, which is this one also after a process has moved it.
fn path_of(folder: &impl AsRawFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", folder.as_raw_fd()))
}

/// Opens a folder as a process with this root would: a link to an absolute path stays inside. Linux before 5.6 can't do that, and
/// follows the link in our root, with no more rights than the process has.
fn in_root(root: &File, path: &Path) -> io::Result<OwnedFd> {
    let inside = path_of(root).join(path.strip_prefix("/").map_err(io::Error::other)?);
    let path = CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: zeros are a description without flags.
    let mut how: libc::open_how = unsafe { mem::zeroed() };
    how.flags = (libc::O_DIRECTORY | libc::O_CLOEXEC) as u64;
    how.resolve = libc::RESOLVE_IN_ROOT;
    // SAFETY: the path ends with a zero, and the size is that of the description.
    let opened = unsafe {
        libc::syscall(libc::SYS_openat2, root.as_raw_fd(), path.as_ptr(), &raw const how, size_of_val(&how))
    };
    match i32::try_from(opened) {
        // SAFETY: the descriptor is new.
        Ok(opened @ 0..) => Ok(unsafe { OwnedFd::from_raw_fd(opened) }),
        _ => match io::Error::last_os_error() {
            error if matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EPERM)) => {
                File::options().read(true).custom_flags(libc::O_DIRECTORY).open(inside).map(Into::into)
            }
            error => Err(error),
        },
    }
}
