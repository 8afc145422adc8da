//! A folder for the core dump. cuda-gdb lets the process itself write the file, so the folder is one that the process sees,
//! and may write to: with its own root and its own user.

use std::cmp::Reverse;
use std::fs::{self, DirBuilder, File};
use std::io::{self, ErrorKind};
use std::marker::PhantomData;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;

use super::target::{Owner, Target};
use crate::command::file_system::room;
use crate::record::open_plain;

const NAME: &str = "core";

/// Room for any core dump. Those of PyTorch have a hundred megabytes.
const ENOUGH: u64 = 1 << 30;

/// A folder in the temporary folder of a process. It's removed when this is dropped.
pub(super) struct Folder {
    /// The path as the process sees it, and as this command does.
    its: PathBuf,
    ours: PathBuf,
    owner: Owner,
}

impl Folder {
    /// Makes a folder with the rights of the process, where there's room: a container's `/tmp` can be small.
    pub(super) fn of(process: &Target) -> io::Result<Self> {
        let _rights = Rights::of(process.owner);
        let root = process.folder().join("root");
        let mut parents: Vec<_> = [process.temporary_folder(), "/var/tmp".into(), "/dev/shm".into()]
            .into_iter()
            .filter_map(|its| Some((root.join(its.strip_prefix("/").ok()?), its)))
            .collect();
        parents.sort_by_cached_key(|(ours, _)| Reverse(room(ours).unwrap_or(0).min(ENOUGH)));
        let name = format!("kernel-audit-dump-{}-{}", process.number, std::process::id());
        let mut refused = ErrorKind::NotFound.into();
        for (ours, its) in parents {
            let (ours, its) = (ours.join(&name), its.join(&name));
            match DirBuilder::new().mode(0o700).create(&ours) {
                Ok(()) => return Ok(Folder { its, ours, owner: process.owner }),
                Err(error) => refused = error,
            }
        }
        Err(refused)
    }

    /// Returns the path of the core dump for the process.
    pub(super) fn file(&self) -> PathBuf {
        self.its.join(NAME)
    }

    /// Opens the core dump that the process has written.
    pub(super) fn open(&self) -> io::Result<File> {
        let _rights = Rights::of(self.owner);
        Ok(open_plain(&self.ours.join(NAME))?.0)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _rights = Rights::of(self.owner);
        let _ = fs::remove_dir_all(&self.ours);
    }
}

/// A user's rights to files, for this thread until this is dropped. A process can put a link in the place of a file: with no
/// more rights than its own, the link leads nowhere new.
struct Rights {
    before: Owner,
    /// It's dropped by the thread that made it.
    _thread: PhantomData<*const ()>,
}

impl Rights {
    /// Without the right to act for another user this changes nothing.
    fn of(owner: Owner) -> Self {
        Rights { before: Self::set(owner), _thread: PhantomData }
    }

    /// Sets the owner of files that this thread makes, and returns the one before.
    fn set(owner: Owner) -> Owner {
        // SAFETY: the calls take numbers, and change what this thread may do with files.
        let (group, user) = unsafe { (libc::setfsgid(owner.group), libc::setfsuid(owner.user)) };
        Owner { user: user.cast_unsigned(), group: group.cast_unsigned() }
    }
}

impl Drop for Rights {
    fn drop(&mut self) {
        Self::set(self.before);
    }
}
