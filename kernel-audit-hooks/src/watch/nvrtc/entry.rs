//! Snapshots of files and folders that NVRTC reads, by which changes are detected.

use std::fs::{self, Metadata};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use memchr::memmem;

use crate::kept::{Digest, PathState};

/// Larger files aren't read, in bytes.
const LARGEST: u64 = 64 << 20;

/// File timestamps can lag the clock by this much.
const CLOCK: Duration = Duration::from_millis(20);

/// Identifies one version of a file. Any change to a file also updates its ctime.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct File {
    /// Device, inode and size.
    pub(super) identity: (u64, u64, u64),
    changed: (i64, i64),
}

impl File {
    fn from_metadata(its: &Metadata) -> Self {
        File { identity: (its.dev(), its.ino(), its.size()), changed: (its.ctime(), its.ctime_nsec()) }
    }

    /// Reads an open file without moving its position.
    pub(super) fn read(descriptor: BorrowedFd<'_>) -> io::Result<(File, Vec<u8>)> {
        let file = fs::File::from(descriptor.try_clone_to_owned()?);
        let its = file.metadata()?;
        if !its.is_file() {
            return Err(io::Error::other("it isn't a plain file"));
        }
        Ok((File::from_metadata(&its), read_at_beginning(&file)?))
    }

    /// Returns whether the file is clearly older. A younger one can change without a new timestamp.
    pub(super) fn is_older_than(&self, time: SystemTime) -> bool {
        let (seconds, nanoseconds) = self.changed;
        let changed = UNIX_EPOCH + Duration::new(seconds.max(0) as u64, nanoseconds as u32);
        changed + CLOCK < time
    }
}

pub(super) fn read_at_beginning(file: &fs::File) -> io::Result<Vec<u8>> {
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

/// The state of a path when NVRTC asked for it.
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
    /// Takes a snapshot of a path without opening it.
    pub(super) fn at(path: &Path) -> Entry {
        match fs::metadata(path) {
            Err(_) => Entry::Missing,
            Ok(its) if its.is_dir() => Entry::Folder,
            Ok(its) => Entry::File(File::from_metadata(&its)),
        }
    }

    /// Merges a later snapshot of the same path. Fails if the path has changed.
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

    pub(super) fn file(&self) -> Option<File> {
        match self {
            Entry::Missing | Entry::Folder => None,
            Entry::File(file) | Entry::Opened(file, _) => Some(*file),
        }
    }

    pub(super) fn state(&self) -> PathState {
        match self {
            Entry::Missing => PathState::Missing,
            Entry::Folder => PathState::Folder,
            Entry::File(_) => PathState::File,
            Entry::Opened(_, digest) => PathState::Content(*digest),
        }
    }
}

/// Returns why a text may depend on the time, if it mentions a macro with the time. [Shadow](super::shadow)
/// compilations find macros whose names are pasted together.
pub(super) fn tells_time(text: &[u8]) -> Option<String> {
    const CLOCKS: [&str; 3] = ["__DATE__", "__TIME__", "__TIMESTAMP__"];
    let word = CLOCKS.into_iter().find(|word| memmem::find(text, word.as_bytes()).is_some())?;
    Some(format!("its text has `{word}`"))
}
