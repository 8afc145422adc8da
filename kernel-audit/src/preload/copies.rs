//! Keeps copies of images that are in no file, because a program compiles or unpacks them.

use std::fs::{self, DirBuilder, File};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::record::open_plain;

/// Keeps a copy of an image in a folder, and creates the folder. Other threads and processes may keep the same image at
/// the same time. Another image with the same hash has a copy of its own. Behind the image the copy has a zero, because
/// the driver reads PTX up to a zero.
///
/// # Errors
///
/// The folder cannot be written to, or is a link of another user.
pub fn keep_copy(folder: &Path, content: &[u8], hash: u64) -> io::Result<PathBuf> {
    if folder.symlink_metadata().is_ok_and(|its| its.is_symlink() && its.uid() != user()) {
        return Err(io::Error::new(ErrorKind::PermissionDenied, "another user made the link to the folder"));
    }
    DirBuilder::new().recursive(true).mode(0o755).create(folder)?;
    let content = [content, &[0]].concat();
    for number in 0_u64.. {
        let further = if number == 0 { String::new() } else { format!("-{number}") };
        let path = folder.join(format!("{hash:016x}-{}{further}.image", content.len() - 1));
        match path.symlink_metadata() {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error),
            Ok(_) if has(&path, &content) => return Ok(path),
            Ok(_) => continue,
        }
        // The copy appears whole, or not at all.
        let (part, mut file) = new_part(folder)?;
        let placed = file.write_all(&content).and_then(|()| match fs::hard_link(&part, &path) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => fs::rename(&part, &path),
            linked => linked,
        });
        let _ = fs::remove_file(&part);
        match placed {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
            _ if has(&path, &content) => return Ok(path),
            _ => {}
        }
    }
    Err(ErrorKind::AlreadyExists.into())
}

fn user() -> u32 {
    // SAFETY: the call only returns a number.
    unsafe { libc::geteuid() }
}

/// Returns whether this is a plain file with this content. Does not read a pipe or a device.
fn has(path: &Path, content: &[u8]) -> bool {
    let Ok((file, length)) = open_plain(path) else { return false };
    let mut there = Vec::new();
    length == content.len() as u64 && file.take(length).read_to_end(&mut there).is_ok() && there == content
}

/// Writes a file of a folder: whole, or not at all. A file of this name is replaced.
#[cfg(any(feature = "watch", feature = "command"))]
pub(crate) fn place(folder: &Path, path: &Path, content: &[u8]) -> io::Result<()> {
    let (part, mut file) = new_part(folder)?;
    let placed = file.write_all(content).and_then(|()| fs::rename(&part, path));
    if placed.is_err() {
        let _ = fs::remove_file(&part);
    }
    placed
}

/// Creates a file that nobody else writes to. Returns its path, too.
fn new_part(folder: &Path) -> io::Result<(PathBuf, File)> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    loop {
        let path = folder.join(format!("{}-{}.part", process::id(), COUNT.fetch_add(1, Ordering::Relaxed)));
        // Others than the owner may not write it, whatever the process allows them.
        match File::options().write(true).create_new(true).mode(0o644).open(&path) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            created => return created.map(|file| (path, file)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{lchown, symlink};
    use std::{env, thread};

    use super::*;

    /// Only root can make a link that belongs to another user.
    #[test]
    fn a_folder_that_another_user_links_to_gets_no_copy() {
        let folder = env::temp_dir().join(format!("kernel-registry-linked-{}", process::id()));
        let link = folder.join("link");
        fs::create_dir_all(&folder).unwrap();
        symlink(&folder, &link).unwrap();
        assert!(keep_copy(&link, b"own", 7).is_ok());
        if user() == 0 {
            lchown(&link, Some(65_534), None).unwrap();
            assert_eq!(keep_copy(&link, b"other", 8).unwrap_err().kind(), ErrorKind::PermissionDenied);
        }
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn images_of_one_hash_have_copies_of_their_own() {
        let folder = env::temp_dir().join(format!("kernel-registry-copies-{}", process::id()));
        let images = [b"one".as_slice(), b"two"];
        let copies: Vec<PathBuf> = thread::scope(|scope| {
            let (folder, images) = (&folder, &images);
            let copy = |index: usize| scope.spawn(move || keep_copy(folder, images[index % 2], 7).unwrap());
            let threads: Vec<_> = (0..8).map(copy).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        for (index, path) in copies.iter().enumerate() {
            assert_eq!(fs::read(path).unwrap(), [images[index % 2], &[0]].concat());
            assert_eq!(*path, copies[index % 2]);
        }
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 2, "nothing else is left there");
        fs::remove_dir_all(&folder).unwrap();
    }
}
