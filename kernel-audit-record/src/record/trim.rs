//! Gives back the disk space that a record does not need once its process has ended.

use std::fs::File;
use std::io;
use std::mem::offset_of;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use super::layout::{Header, Layout, RawEvent, STRINGS, Sample, size};
use super::read::u64_at;

/// Makes holes where a record has room that was not used. The record is read as before. Its process must have ended: on
/// a full disk, a process that writes into a hole is killed.
///
/// # Errors
///
/// The file is not the one with this inode, cannot be written, or its file system has no holes.
#[doc(hidden)]
pub fn trim(path: &Path, inode: u64) -> io::Result<()> {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let file = File::options().read(true).write(true).custom_flags(flags).open(path)?;
    let its = file.metadata()?;
    if !its.is_file() || its.ino() != inode {
        return Err(io::Error::other("it is another file"));
    }
    let mut header = [0; size_of::<Header>()];
    file.read_exact_at(&mut header, 0)?;
    for unused in unused(&header, usize::try_from(its.len()).unwrap_or(usize::MAX)) {
        let (at, length) = (unused.start as libc::off_t, unused.len() as libc::off_t);
        let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
        // SAFETY: the descriptor is open, and nobody has mapped the file.
        if length > 0 && unsafe { libc::fallocate(file.as_raw_fd(), mode, at, length) } != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// Returns the ranges of a record that no sample, no text and no event is in.
fn unused(header: &[u8], length: usize) -> [Range<usize>; 3] {
    let rest = |begin: usize, offset: usize, bytes: usize, end: usize| {
        let used = usize::try_from(u64_at(header, offset)).unwrap_or(usize::MAX).saturating_mul(bytes);
        begin.saturating_add(used).min(end)..end
    };
    let strings = offset_of!(Layout, strings);
    [
        rest(offset_of!(Layout, samples), offset_of!(Header, samples), size_of::<Sample>(), strings),
        rest(strings, offset_of!(Header, strings), 1, strings + STRINGS),
        rest(size(0), offset_of!(Header, events), size_of::<RawEvent>(), length.max(size(0))),
    ]
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn what_is_used_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.rec");
        let mut record = vec![7; size(100)];
        for (offset, count) in [
            (offset_of!(Header, samples), 2_u64),
            (offset_of!(Header, strings), 5),
            (offset_of!(Header, events), 101),
        ] {
            record[offset..offset + 8].copy_from_slice(&count.to_le_bytes());
        }
        fs::write(&path, &record).unwrap();
        let its = fs::metadata(&path).unwrap();
        assert!(trim(&path, its.ino() + 1).is_err());
        trim(&path, its.ino()).unwrap();
        let [samples, strings, events] = unused(&record, record.len());
        assert_eq!((strings.start, events.len()), (offset_of!(Layout, strings) + 5, 0));
        assert_eq!(samples.start, offset_of!(Layout, samples) + 2 * size_of::<Sample>());
        for unused in [samples, strings] {
            record[unused].fill(0);
        }
        assert!(fs::read(&path).unwrap() == record);
        assert!(fs::metadata(&path).unwrap().blocks() < its.blocks() / 2);

        record[offset_of!(Header, strings)..][..8].fill(0xff);
        fs::write(&path, &record).unwrap();
        trim(&path, its.ino()).unwrap();
        fs::write(&path, &record[..9]).unwrap();
        assert!(trim(&path, its.ino()).is_err());
    }
}
