//! The files of kept results: who may have written them, and how they are written.

use std::ffi::{CStr, CString};
use std::fs::{DirBuilder, File, Metadata};
use std::io::{self, ErrorKind, Read};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::ptr;

use super::digest::Digest;
use super::result::Kept;
use crate::preload::place;

/// No file is larger, in bytes.
const LARGEST: u64 = 1 << 28;
/// The attribute that lists further users and groups with rights.
const ACL: &CStr = c"system.posix_acl_access";

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
    nobody_else_writes_in(folder).map_err(|why| io::Error::new(ErrorKind::PermissionDenied, why))?;
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
    // That it is missing is an error of its own.
    folder.metadata()?;
    nobody_else_writes_in(folder).map_err(|why| refused(format!("of its folder: {why}")))?;
    // A pipe of this name would make it wait.
    let flags = libc::O_NONBLOCK | libc::O_NOFOLLOW;
    let file = File::options().read(true).custom_flags(flags).open(folder.join(file_name(key)))?;
    let its = file.metadata()?;
    if !its.is_file() || its.len() > LARGEST {
        return Err(other("it is no plain file, or too large"));
    }
    nobody_else_writes(&file).map_err(refused)?;
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

/// Fails with a reason if a user other than this one and root may have written this file.
pub(crate) fn nobody_else_writes(file: &File) -> Result<(), String> {
    // SAFETY: the file is open, and without room for the list the call returns only its size.
    let acl = || unsafe { libc::fgetxattr(file.as_raw_fd(), ACL.as_ptr(), ptr::null_mut(), 0) };
    check(&file.metadata().map_err(|error| error.to_string())?, acl)
}

/// Fails with a reason if a user other than this one and root may have written in this folder.
pub(crate) fn nobody_else_writes_in(folder: &Path) -> Result<(), String> {
    let its = folder.metadata().map_err(|error| error.to_string())?;
    let path = CString::new(folder.as_os_str().as_bytes()).map_err(|error| error.to_string())?;
    // SAFETY: the path ends with a zero, and without room for the list the call returns only its size.
    check(&its, || unsafe { libc::getxattr(path.as_ptr(), ACL.as_ptr(), ptr::null_mut(), 0) })
}

/// `acl` returns the size of the list of further users and groups (a POSIX ACL), or -1 with `errno`.
fn check(its: &Metadata, acl: impl FnOnce() -> isize) -> Result<(), String> {
    const GROUP_WRITES: u32 = 0o020;
    const ALL_WRITE: u32 = 0o002;
    // SAFETY: the call only returns a number.
    let user = unsafe { libc::geteuid() };
    if ![0, user].contains(&its.uid()) {
        return Err(format!("it belongs to another user (number {})", its.uid()));
    }
    let has_acl = || {
        let missing = [libc::ENODATA, libc::ENOTSUP];
        acl() >= 0 || !io::Error::last_os_error().raw_os_error().is_some_and(|why| missing.contains(&why))
    };
    // Where users have a group of their own, as on Ubuntu, the group may write to all of their files. It has the number of its user. No user or group
    // of a list may write where the group may not.
    let by_group = its.mode() & GROUP_WRITES != 0 && (its.gid() != user || has_acl());
    match by_group || its.mode() & ALL_WRITE != 0 {
        true => Err("others may write it: take that right from them (`chmod go-w`)".to_owned()),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt, chown, symlink};
    use std::{env, iter, process, thread};

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
    fn a_group_may_write_only_if_it_is_its_users() {
        let folder = folder("group");
        let (kept, key) = (kept("code"), Digest::new(b"key"));
        keep(&folder, &kept).unwrap();
        let path = folder.join(file_name(&key));
        let is_read = || read(&folder, &key, None).is_ok();
        // SAFETY: the call only returns a number.
        let user = unsafe { libc::geteuid() };
        for path in [&path, &folder] {
            let before = path.metadata().unwrap();
            fs::set_permissions(path, Permissions::from_mode(0o775)).unwrap();
            assert_eq!(is_read(), before.gid() == user);
            // Only root gives files to any group.
            if chown(path, None, Some(65_534)).is_ok() {
                assert!(!is_read());
                chown(path, None, Some(user)).unwrap();
                assert!(is_read());
            }
            fs::set_permissions(path, before.permissions()).unwrap();
            assert!(is_read());
            // Another user (number 65534) may write, by a list.
            let entries =
                [[1, 7, u32::MAX], [2, 6, 65_534], [4, 5, u32::MAX], [16, 7, u32::MAX], [32, 5, u32::MAX]];
            let of_entry = |[tag, rights, id]: [u32; 3]| (tag | rights << 16, id);
            let words = entries.map(of_entry).into_iter().flat_map(|(first, id)| [first, id]);
            let list: Vec<u8> = iter::once(2).chain(words).flat_map(u32::to_le_bytes).collect();
            let name = CString::new(path.as_os_str().as_bytes()).unwrap();
            // SAFETY: name, attribute and list are as long as they say.
            let is_set = unsafe {
                libc::setxattr(name.as_ptr(), ACL.as_ptr(), list.as_ptr().cast(), list.len(), 0) == 0
            };
            if is_set {
                assert!(!is_read());
                // SAFETY: as above.
                unsafe { libc::removexattr(name.as_ptr(), ACL.as_ptr()) };
                fs::set_permissions(path, before.permissions()).unwrap();
                assert!(is_read());
            }
        }
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
