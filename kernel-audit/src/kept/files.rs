//! The files of kept results: who may have written them, and how they are written.

use std::fs::{DirBuilder, File, Metadata};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use super::digest::Digest;
use super::result::Kept;
use crate::preload::place;

/// No file is larger, in bytes.
const LARGEST: u64 = 1 << 28;

/// The name of the file with this key.
pub(crate) fn file_name(key: &Digest) -> String {
    format!("{key}.compiled")
}

/// Writes a result to a folder, which is made: whole, or not at all. Other threads and processes may do the same at the same time.
///
/// # Errors
///
/// The folder cannot be written to, or somebody else may write there.
pub(crate) fn keep(folder: &Path, kept: &Kept) -> io::Result<()> {
    if !folder.exists() {
        DirBuilder::new().recursive(true).mode(0o755).create(folder)?;
    }
    nobody_else_writes(&folder.metadata()?)
        .map_err(|why| io::Error::new(ErrorKind::PermissionDenied, why))?;
    place(folder, &folder.join(file_name(&kept.key)), &kept.encode())
}

/// Reads the result with this key from a folder. If its digest is known, the file must have that.
///
/// # Errors
///
/// There is no such file, it cannot be read, somebody else may have written it, or it is another one.
pub(crate) fn read(folder: &Path, key: &Digest, digest: Option<&Digest>) -> io::Result<Kept> {
    let other = |why: &str| io::Error::new(ErrorKind::InvalidData, why);
    let refused = |why| io::Error::new(ErrorKind::PermissionDenied, why);
    nobody_else_writes(&folder.metadata()?).map_err(|why| refused(format!("of its folder: {why}")))?;
    // A pipe of this name would make it wait.
    let flags = libc::O_NONBLOCK | libc::O_NOFOLLOW;
    let file = File::options().read(true).custom_flags(flags).open(folder.join(file_name(key)))?;
    let its = file.metadata()?;
    if !its.is_file() || its.len() > LARGEST {
        return Err(other("it is no plain file, or too large"));
    }
    nobody_else_writes(&its).map_err(refused)?;
    let mut bytes = Vec::new();
    file.take(LARGEST).read_to_end(&mut bytes)?;
    if digest.is_some_and(|digest| *digest != Digest::new(&bytes)) {
        return Err(other("it is not the one that was recorded"));
    }
    Kept::decode(&bytes).and_then(|kept| match kept.key == *key {
        true => Ok(kept),
        false => Err(other("it is that of another program")),
    })
}

/// Fails with a reason if a user other than this one and root may have written this file, or in this folder.
pub(crate) fn nobody_else_writes(its: &Metadata) -> Result<(), String> {
    const GROUP_WRITES: u32 = 0o020;
    const ALL_WRITE: u32 = 0o002;
    // SAFETY: both calls only return a number.
    let (user, group) = unsafe { (libc::geteuid(), libc::getegid()) };
    if ![0, user].contains(&its.uid()) {
        return Err(format!("it belongs to another user (number {})", its.uid()));
    }
    // Where users have a group of their own, as on Ubuntu, the group may write to all of their files.
    let by_group = its.mode() & GROUP_WRITES != 0 && ![0, group].contains(&its.gid());
    match by_group || its.mode() & ALL_WRITE != 0 {
        true => Err("others may write it: take that right from them (`chmod go-w`)".to_owned()),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt, chown, symlink};
    use std::{env, process, thread};

    use super::*;
    use crate::kept::result::Part;

    fn folder(name: &str) -> std::path::PathBuf {
        env::temp_dir().join(format!("kernel-registry-kept-{name}-{}", process::id()))
    }

    fn kept(text: &str) -> Kept {
        let parts = vec![Part { answer: 0, bytes: text.as_bytes().to_vec() }];
        Kept { key: Digest::new(b"key"), parts, ..Kept::default() }
    }

    #[test]
    fn only_files_that_nobody_else_can_write_are_read() {
        let folder = folder("trust");
        let (kept, key) = (kept("code"), Digest::new(b"key"));
        keep(&folder, &kept).unwrap();
        let path = folder.join(file_name(&key));
        let why = || read(&folder, &key, None).map_err(|error| error.to_string());
        assert_eq!(why(), Ok(kept.clone()));
        for path in [&path, &folder] {
            let before = path.metadata().unwrap().permissions();
            for mode in [0o722, 0o777, 0o702] {
                fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
                assert!(why().unwrap_err().contains("others may write it"), "{mode:o}");
            }
            fs::set_permissions(path, before).unwrap();
            // Only root gives files away.
            if chown(path, Some(65_534), None).is_ok() {
                assert!(why().unwrap_err().contains("another user (number 65534)"));
                chown(path, Some(0), None).unwrap();
            }
        }
        fs::set_permissions(&folder, Permissions::from_mode(0o777)).unwrap();
        assert!(keep(&folder, &kept).is_err());
        fs::set_permissions(&folder, Permissions::from_mode(0o755)).unwrap();
        let elsewhere = folder.join("elsewhere");
        fs::rename(&path, &elsewhere).unwrap();
        symlink(&elsewhere, &path).unwrap();
        assert!(why().is_err());
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_file_with_any_byte_damaged_is_not_used() {
        let folder = folder("damaged");
        let (kept, key) = (kept("some code"), Digest::new(b"key"));
        keep(&folder, &kept).unwrap();
        let path = folder.join(file_name(&key));
        let bytes = fs::read(&path).unwrap();
        let digest = Digest::new(&bytes);
        assert_eq!(read(&folder, &key, Some(&digest)).unwrap(), kept);
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x10;
            fs::write(&path, &damaged).unwrap();
            assert!(read(&folder, &key, Some(&digest)).is_err(), "{at}");
            fs::write(&path, &bytes[..at]).unwrap();
            assert!(read(&folder, &key, Some(&digest)).is_err(), "{at}");
        }
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn many_writers_leave_one_whole_file() {
        let folder = folder("many");
        thread::scope(|scope| {
            for number in 0..16 {
                let (folder, kept) = (&folder, kept(&"code".repeat(1000 + number)));
                scope.spawn(move || keep(folder, &kept).unwrap());
            }
        });
        assert!(read(&folder, &Digest::new(b"key"), None).is_ok());
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
        fs::remove_dir_all(&folder).unwrap();
    }
}
