//! A process of its own, because `umask` and groups are the whole process's.
#![cfg(target_os = "linux")]

use std::fs::{Permissions, set_permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};

#[test]
fn others_may_not_write_whatever_the_process_allows_them() {
    let folder = tempfile::tempdir().unwrap();
    // SAFETY: the call only changes a number of this process.
    unsafe { libc::umask(0) };
    let file = folder.path().join("new/file");
    kernel_registry_files::write_trusted(&file, b"code").unwrap();
    assert_eq!(file.metadata().unwrap().mode() & 0o777, 0o644);
    assert!(kernel_registry_files::open(&file).is_ok());

    // A group that many share, such as `users`, is also that of this process.
    const USERS: u32 = 12_345;
    set_permissions(&file, Permissions::from_mode(0o664)).unwrap();
    // SAFETY: as above. Only root may do that.
    if chown(&file, None, Some(USERS)).is_ok() && unsafe { libc::setegid(USERS) } == 0 {
        assert!(kernel_registry_files::open(&file).is_err());
        set_permissions(&file, Permissions::from_mode(0o644)).unwrap();
        assert!(kernel_registry_files::open(&file).is_ok());
    }
}
