//! Checks that no other user can choose where this user writes. In a folder where everybody may create files, such as
//! `/tmp`, another user can create a link or a folder first.

use std::fs::Permissions;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use kernel_registry_files::Folder;
use tempfile::Builder;

use crate::command::failure::Failure;

/// Makes a path absolute, because the audited program may have another working directory.
pub(crate) fn absolute(path: &Path) -> Result<PathBuf, Failure> {
    std::path::absolute(path).map_err(Failure::of_io(path))
}

/// Resolves a path's links. Fails if another user planted one of them, or the file.
pub(crate) fn followed(path: &Path) -> io::Result<PathBuf> {
    let (folder, name) = Folder::containing(path)?;
    Ok(folder.path().join(name))
}

/// Returns a folder of this user, and creates it if it is missing. Fails with a reason if another user can replace the
/// folder, or change its contents.
pub(crate) fn own_folder(folder: &Path) -> Result<PathBuf, String> {
    let folder = Folder::create_trusted(folder, 0o700).and_then(Folder::exclusive);
    folder.map(|folder| folder.path().to_owned()).map_err(|error| error.to_string())
}

/// Makes temporary folders to which no other user can write, whatever the umask: results are kept nowhere else.
pub(crate) fn temporary() -> Builder<'static, 'static> {
    let mut builder = Builder::new();
    builder.permissions(Permissions::from_mode(0o755));
    builder
}

/// Returns the effective id of this process's user.
pub(crate) fn user() -> u32 {
    // SAFETY: the call only returns a number.
    unsafe { libc::geteuid() }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, set_permissions};
    use std::os::unix::fs::{MetadataExt, chown, symlink};

    use super::*;

    #[test]
    fn a_folder_that_others_can_replace_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("own/inner");
        assert!(own_folder(&inner).is_ok(), "{:?}", own_folder(&inner));
        assert_eq!(inner.metadata().unwrap().mode() & 0o777, 0o700);
        let own = inner.parent().unwrap();
        for (mode, is_safe) in [(0o772, false), (0o777, false), (0o1777, true), (0o755, true)] {
            set_permissions(own, Permissions::from_mode(mode)).unwrap();
            assert_eq!(own_folder(&inner).is_ok(), is_safe, "{mode:o}");
            assert_eq!(own_folder(&own.join("new/er")).is_ok(), is_safe, "{mode:o}");
            assert_eq!(own.join("new").exists(), is_safe, "nothing is made where it is refused");
            let _ = fs::remove_dir_all(own.join("new"));
        }
        set_permissions(own, Permissions::from_mode(0o1777)).unwrap();
        assert!(own_folder(own).is_err(), "others may write there");

        // Only root can give a folder to another user.
        if user() == 0 {
            chown(&inner, Some(65_534), None).unwrap();
            assert!(own_folder(&inner).unwrap_err().contains("another user (number 65534)"));
            assert!(own_folder(&inner.join("new")).is_err() && !inner.join("new").exists());
        }
    }

    #[test]
    fn links_are_followed_to_their_end() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().canonicalize().unwrap();
        symlink("there", folder.join("link")).unwrap();
        symlink("circle", folder.join("circle")).unwrap();
        assert_eq!(followed(&folder.join("link")).unwrap(), folder.join("there"), "it can be made");
        assert!(followed(&folder.join("circle")).is_err());
        assert!(followed(&folder.join("missing/file")).is_err());
        assert!(followed(Path::new("/dev/null")).is_ok());
    }
}
