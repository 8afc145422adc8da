//! Checks that no other user can choose where this user writes. In a folder where everybody may create files, such as
//! `/tmp`, another user can create a link or a folder first.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use crate::command::failure::Failure;

/// The most links that are followed. Linux has the same limit.
const LINKS: usize = 40;

/// Mode bits: users other than the owner may write.
const OTHERS_WRITE: u32 = 0o022;
/// Mode bit: everybody may write.
const ALL_WRITE: u32 = 0o002;
/// Mode bit: in this folder only the owner of a file may remove or replace it.
const STICKY: u32 = 0o1000;

/// Returns the path from the root, because the program may have another working directory.
pub(crate) fn absolute(path: &Path) -> Result<PathBuf, Failure> {
    std::path::absolute(path).map_err(Failure::of_io(path))
}

/// Follows the links at a path. Fails if another user created one of the links, or the file, in a folder where
/// everybody may create files. Linux has the same rule (`fs.protected_symlinks`), but applies it only to files that are
/// opened.
pub(crate) fn followed(path: &Path) -> io::Result<PathBuf> {
    let mut path = std::path::absolute(path)?;
    for _ in 0..LINKS {
        let folder = path.parent().unwrap_or(&path).canonicalize()?;
        let Some(name) = path.file_name() else { return Ok(folder) };
        path = folder.join(name);
        let its = match path.symlink_metadata() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(path),
            its => its?,
        };
        let around = folder.metadata()?;
        let is_of_all = around.mode() & (STICKY | ALL_WRITE) == STICKY | ALL_WRITE;
        if is_of_all && ![user(), around.uid()].contains(&its.uid()) {
            let why = format!(
                "another user made it (number {}), in a folder where all may; name another folder",
                its.uid()
            );
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
        }
        if !its.is_symlink() {
            return Ok(path);
        }
        path = folder.join(path.read_link()?);
    }
    Err(io::Error::other("too many links"))
}

/// Returns a folder of this user, and creates it if it is missing. Fails with a reason if another user can replace the
/// folder, or change its contents.
pub(crate) fn own_folder(folder: &Path) -> Result<PathBuf, String> {
    let in_words = |error: io::Error| error.to_string();
    let there = folder.ancestors().find(|path| path.exists()).unwrap_or(folder);
    check_no_other_user_replaces(&there.canonicalize().map_err(in_words)?)?;
    DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(in_words)?;
    let folder = folder.canonicalize().map_err(in_words)?;
    check_no_other_user_replaces(&folder)?;
    let its = folder.metadata().map_err(in_words)?;
    match (its.uid() == user(), its.mode() & OTHERS_WRITE) {
        (false, _) => Err(format!("it is a folder of another user (number {})", its.uid())),
        (true, 0) => Ok(folder),
        (true, _) => Err("others may write there".to_owned()),
    }
}

/// Fails if a user other than the current user and root can replace the folder.
fn check_no_other_user_replaces(folder: &Path) -> Result<(), String> {
    let trusted = [Some(user()), Some(0), overflow_user()];
    for path in folder.ancestors() {
        let its = path.metadata().map_err(|error| format!("`{}`: {error}", path.display()))?;
        if !trusted.contains(&Some(its.uid())) {
            return Err(format!("`{}` is of another user (number {})", path.display(), its.uid()));
        }
        if its.mode() & OTHERS_WRITE != 0 && its.mode() & STICKY == 0 {
            return Err(format!("others may write in `{}`", path.display()));
        }
    }
    Ok(())
}

/// Returns the number of this process's user.
pub(crate) fn user() -> u32 {
    // SAFETY: the call only returns a number.
    unsafe { libc::geteuid() }
}

/// Returns the number that, in a container with user numbers of its own, stands for users of the machine: there, files
/// of the machine's root have it. Returns `None` if a user of the container has that number.
fn overflow_user() -> Option<u32> {
    let stranger = fs::read_to_string("/proc/sys/kernel/overflowuid").ok()?.trim().parse().ok()?;
    let users = fs::read_to_string("/proc/self/uid_map").ok()?;
    let is_user = users.lines().any(|line| {
        let numbers: Vec<u32> = line.split_whitespace().filter_map(|number| number.parse().ok()).collect();
        matches!(numbers[..], [first, _, count] if (first..first.saturating_add(count)).contains(&stranger))
    });
    (!is_user).then_some(stranger)
}

#[cfg(test)]
mod tests {
    use std::fs::{Permissions, set_permissions};
    use std::os::unix::fs::{PermissionsExt, chown, symlink};

    use super::*;

    #[test]
    fn a_folder_that_others_can_replace_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("own/inner");
        assert!(own_folder(&inner).is_ok(), "{:?}", own_folder(&inner));
        assert_eq!(inner.metadata().unwrap().mode() & 0o777, 0o700);
        let own = inner.parent().unwrap();
        for (mode, is_safe) in [(0o775, false), (0o777, false), (0o1777, true), (0o755, true)] {
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
