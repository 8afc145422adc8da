//! Snapshots of what is at a path, which differ if it changes.

use std::fs::{self, Metadata};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use memchr::memmem;

use crate::kept::{Digest, Was};

/// No file that is read is larger, in bytes.
const LARGEST: u64 = 64 << 20;

/// The clock of files may be this much behind.
const CLOCK: Duration = Duration::from_millis(20);

/// Tells a version of a file from all others. Whatever changes a file changes the last of its times, too.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct File {
    /// Device, number and size.
    pub(super) identity: (u64, u64, u64),
    changed: (i64, i64),
}

impl File {
    fn from_metadata(its: &Metadata) -> Self {
        File { identity: (its.dev(), its.ino(), its.size()), changed: (its.ctime(), its.ctime_nsec()) }
    }

    /// Reads an open file from its beginning, without moving its position.
    pub(super) fn read(descriptor: BorrowedFd<'_>) -> io::Result<(File, Vec<u8>)> {
        let file = fs::File::from(descriptor.try_clone_to_owned()?);
        let its = file.metadata()?;
        if !its.is_file() {
            return Err(io::Error::other("it's no plain file"));
        }
        Ok((File::from_metadata(&its), read_at_beginning(&file)?))
    }

    /// Whether the file is older than this time, so that every later change changes its times.
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
            Ok(its) => Entry::File(File::from_metadata(&its)),
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

    pub(super) fn file(&self) -> Option<File> {
        match self {
            Entry::Missing | Entry::Folder => None,
            Entry::File(file) | Entry::Opened(file, _) => Some(*file),
        }
    }

    pub(super) fn was(&self) -> Was {
        match self {
            Entry::Missing => Was::Missing,
            Entry::Folder => Was::Folder,
            Entry::File(_) => Was::File,
            Entry::Opened(_, digest) => Was::Content(*digest),
        }
    }
}

/// Returns why a text may tell the time, if it may. Texts that paste such a name from pieces are left to the
/// [shadow](super::shadow).
pub(super) fn tells_time(text: &[u8]) -> Option<String> {
    const CLOCKS: [&str; 3] = ["__DATE__", "__TIME__", "__TIMESTAMP__"];
    let word = CLOCKS.into_iter().find(|word| memmem::find(text, word.as_bytes()).is_some())?;
    Some(format!("its text has `{word}`"))
}
