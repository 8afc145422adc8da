//! What the file system of a folder is like.

use std::ffi::CString;
use std::io;
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Returns whether the file system of a folder lets code run.
pub(super) fn may_execute(folder: &Path) -> io::Result<bool> {
    Ok(statvfs(folder)?.f_flag & libc::ST_NOEXEC == 0)
}

/// Returns how many bytes more a user can write in a folder.
pub(super) fn room(folder: &Path) -> io::Result<u64> {
    let its = statvfs(folder)?;
    Ok(its.f_bavail.saturating_mul(its.f_frsize))
}

fn statvfs(folder: &Path) -> io::Result<libc::statvfs> {
    let path = CString::new(folder.as_os_str().as_bytes())?;
    let mut its = MaybeUninit::uninit();
    // SAFETY: the path ends with a zero, and the call fills in the structure if it succeeds.
    unsafe {
        match libc::statvfs(path.as_ptr(), its.as_mut_ptr()) {
            0 => Ok(its.assume_init()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}
