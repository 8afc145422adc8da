//! Checks of owners and permissions.

use std::ffi::{CStr, CString};
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::ptr;

use crate::untrusted::Untrusted;

/// Returns this process's user id.
pub(crate) fn user() -> u32 {
    // SAFETY: the call returns a number.
    unsafe { libc::geteuid() }
}

/// Returns whether an owner is this user or root, who can do anything anyway.
pub(crate) fn is_trusted(owner: u32) -> bool {
    [0, user()].contains(&owner)
}

/// Fails unless only this user and root may write this file.
pub(crate) fn check_file(path: &Path, its: &Metadata) -> Result<(), Untrusted> {
    if !is_trusted(its.uid()) {
        return Err(Untrusted::OtherUser { path: path.to_owned(), user: its.uid() });
    }
    match others_write(path, its) {
        true => Err(Untrusted::Writable { path: path.to_owned() }),
        false => Ok(()),
    }
}

/// Fails if another user can exchange this user's entries in a folder. In a sticky one, other users can't.
pub(crate) fn check_folder(path: &Path, its: &Metadata) -> Result<(), Untrusted> {
    if !is_trusted(its.uid()) && overflow_user() != Some(its.uid()) {
        return Err(Untrusted::OtherUser { path: path.to_owned(), user: its.uid() });
    }
    match !is_sticky(its) && others_write(path, its) {
        true => Err(Untrusted::Writable { path: path.to_owned() }),
        false => Ok(()),
    }
}

pub(crate) fn is_sticky(folder: &Metadata) -> bool {
    const STICKY: u32 = 0o1000;
    folder.mode() & STICKY != 0
}

/// Returns whether a user other than the owner and root may write. Write access of the user's private group
/// is fine: its id is the user's, and on systems such as Ubuntu, `umask` grants it for all files. An access
/// control list is effective only if the group's bit is set.
pub(crate) fn others_write(path: &Path, its: &Metadata) -> bool {
    const GROUP_WRITES: u32 = 0o020;
    const ALL_WRITE: u32 = 0o002;
    its.mode() & ALL_WRITE != 0
        || its.mode() & GROUP_WRITES != 0 && (its.gid() != user() || has_access_list(path))
}

fn has_access_list(path: &Path) -> bool {
    const LIST: &CStr = c"system.posix_acl_access";
    let Ok(path) = CString::new(path.as_os_str().as_bytes()) else { return true };
    // SAFETY: both names end with a zero. With a buffer of size 0, the call only returns the list's size.
    let size = unsafe { libc::getxattr(path.as_ptr(), LIST.as_ptr(), ptr::null_mut(), 0) };
    let missing = [Some(libc::ENODATA), Some(libc::ENOTSUP)];
    size >= 0 || !missing.contains(&io::Error::last_os_error().raw_os_error())
}

/// Returns the id that outside users have in a container with its own user namespace, including the machine's
/// root, who may own folders such as `/`. `None` if a user of the container has that id.
fn overflow_user() -> Option<u32> {
    let stranger = fs::read_to_string("/proc/sys/kernel/overflowuid").ok()?.trim().parse().ok()?;
    let users = fs::read_to_string("/proc/self/uid_map").ok()?;
    let is_user = users.lines().any(|line| {
        let numbers: Vec<u32> = line.split_whitespace().filter_map(|number| number.parse().ok()).collect();
        matches!(numbers[..], [first, _, count] if (first..first.saturating_add(count)).contains(&stranger))
    });
    (!is_user).then_some(stranger)
}
