//! Which files are trusted, and what another user can't steer. Only root can act as another user, so these
//! tests check less for other users.
#![cfg(target_os = "linux")]

use std::ffi::{CString, OsStr};
use std::fs::{self, Permissions};
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, lchown, symlink};
use std::path::{Path, PathBuf};
use std::{io, iter, thread};

use kernel_registry_files::{Folder, Untrusted, check, open, write, write_trusted};
use tempfile::TempDir;

/// Another user and group.
const NOBODY: u32 = 65_534;

/// Returns a folder, without links in its path, and a file two folders below it.
fn file() -> (TempDir, PathBuf, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().canonicalize().unwrap();
    let file = path.join("outer/inner/file");
    write_trusted(&file, b"code").unwrap();
    (folder, path, file)
}

fn set(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

/// Returns why a file isn't trusted.
fn why(file: &Path) -> Option<Untrusted> {
    let error = open(file).err()?;
    Some(Untrusted::in_error(&error).unwrap_or_else(|| panic!("{error}")).clone())
}

fn is_root() -> bool {
    let folder = tempfile::tempdir().unwrap();
    chown(folder.path(), Some(NOBODY), None).is_ok()
}

#[test]
fn each_part_of_the_path_must_be_out_of_reach() {
    let (_folder, path, file) = file();
    for part in [file.clone(), path.join("outer/inner"), path.join("outer"), path] {
        let before = part.metadata().unwrap().mode();
        assert_eq!(why(&file), None);
        for mode in [0o722, 0o777, 0o702] {
            set(&part, mode);
            assert_eq!(why(&file), Some(Untrusted::Writable { path: part.clone() }), "{mode:o}");
            assert_eq!(check(&file).is_ok(), part == file, "{mode:o}");
        }
        set(&part, before);
        if is_root() {
            chown(&part, Some(NOBODY), None).unwrap();
            assert_eq!(why(&file), Some(Untrusted::OtherUser { path: part.clone(), user: NOBODY }));
            chown(&part, Some(0), None).unwrap();
        }
    }
}

#[test]
fn a_sticky_folder_is_safe_for_what_belongs_to_its_user() {
    let (_folder, path, file) = file();
    set(&path.join("outer"), 0o1777);
    assert_eq!(why(&file), None);
    assert!(Folder::open(&path.join("outer")).unwrap().trusted().is_ok());
    assert!(Folder::open(&path.join("outer")).unwrap().exclusive().is_err());
    let inner = path.join("outer/inner");
    if is_root() {
        chown(&inner, Some(NOBODY), None).unwrap();
        assert_eq!(why(&file), Some(Untrusted::OtherUser { path: inner.clone(), user: NOBODY }));
        chown(&inner, Some(0), None).unwrap();
        // A file of another user in a sticky folder.
        let theirs = path.join("outer/theirs");
        fs::write(&theirs, "").unwrap();
        chown(&theirs, Some(NOBODY), None).unwrap();
        assert_eq!(why(&theirs), Some(Untrusted::Planted { path: theirs, user: NOBODY }));
    }
}

#[test]
fn only_the_private_group_of_the_user_may_write_and_no_list_of_rights() {
    let (_folder, path, file) = file();
    let user = path.metadata().unwrap().uid();
    for part in [&file, &path.join("outer/inner"), &path.join("outer")] {
        let before = part.metadata().unwrap();
        set(part, 0o775);
        assert_eq!(why(&file).is_none(), before.gid() == user);
        if is_root() {
            chown(part, None, Some(NOBODY)).unwrap();
            assert!(why(&file).is_some());
            chown(part, None, Some(user)).unwrap();
            assert!(why(&file).is_none());
        }
        set(part, before.mode());
        assert!(why(&file).is_none());
        if allow_nobody(part) {
            assert!(why(&file).is_some());
            remove_list(part);
        }
        set(part, before.mode());
        assert!(why(&file).is_none());
    }
}

const LIST: &std::ffi::CStr = c"system.posix_acl_access";

/// Lets another user write, by an access control list, if the file system has such lists.
fn allow_nobody(path: &Path) -> bool {
    let entries = [[1, 7, u32::MAX], [2, 6, NOBODY], [4, 5, u32::MAX], [16, 7, u32::MAX], [32, 5, u32::MAX]];
    let words = entries.into_iter().flat_map(|[tag, rights, id]| [tag | rights << 16, id]);
    let list: Vec<u8> = iter::once(2).chain(words).flat_map(u32::to_le_bytes).collect();
    let path = CString::new(path.as_os_str().as_bytes()).unwrap();
    // SAFETY: path, attribute and list are as long as they say.
    unsafe { libc::setxattr(path.as_ptr(), LIST.as_ptr(), list.as_ptr().cast(), list.len(), 0) == 0 }
}

fn remove_list(path: &Path) {
    let path = CString::new(path.as_os_str().as_bytes()).unwrap();
    // SAFETY: both names end with a zero.
    unsafe { libc::removexattr(path.as_ptr(), LIST.as_ptr()) };
}

#[test]
fn links_are_followed_to_their_end_and_checked_on_the_way() {
    let (_folder, path, file) = file();
    symlink("inner/../inner/file", path.join("outer/link")).unwrap();
    symlink(path.join("outer"), path.join("absolute")).unwrap();
    symlink("circle", path.join("circle")).unwrap();
    let mut text = String::new();
    open(&path.join("absolute/../absolute/link")).unwrap().read_to_string(&mut text).unwrap();
    assert_eq!(text, "code");
    let (folder, name) = Folder::containing(&path.join("absolute/link")).unwrap();
    assert_eq!((folder.path(), &*name), (file.parent().unwrap(), OsStr::new("file")));
    let error = open(&path.join("circle")).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::ELOOP));
    // Where the link leads is checked, and where it came from.
    for part in ["", "outer", "outer/inner"] {
        set(&path.join(part), 0o757);
        assert_eq!(
            why(&path.join("absolute/link")),
            Some(Untrusted::Writable { path: path.join(part).components().collect() })
        );
        set(&path.join(part), 0o755);
    }
    assert!(Folder::containing(Path::new("/")).is_err() && Folder::containing(&path.join("..")).is_err());
    assert_eq!(Folder::containing(&path.join("missing/file")).unwrap_err().kind(), io::ErrorKind::NotFound);
}

/// A link that another user made in a folder where all may write is not followed, not by reading, not by
/// writing.
#[test]
fn a_planted_link_is_not_followed() {
    let (_folder, path, file) = file();
    let (shared, link) = (path.join("shared"), path.join("shared/link"));
    fs::create_dir(&shared).unwrap();
    for (mode, to) in [(0o777, &file), (0o1777, &file), (0o777, &path), (0o1777, &path)] {
        set(&shared, mode);
        let _ = fs::remove_file(&link);
        symlink(to, &link).unwrap();
        if lchown(&link, Some(NOBODY), None).is_err() {
            return;
        }
        let planted = Some(Untrusted::Planted { path: link.clone(), user: NOBODY });
        let of = |result: io::Result<()>| Untrusted::in_error(&result.unwrap_err()).cloned();
        assert_eq!(of(open(&link).map(drop)), planted);
        assert_eq!(of(write(&link.join("new"), b"")), planted);
        assert_eq!(of(write(&link, b"")), planted);
        assert_eq!(of(Folder::create(&link.join("new")).map(drop)), planted);
    }
    assert_eq!(fs::read(&file).unwrap(), b"code");
    assert!(!path.join("new").exists());
}

/// Every name that a process writes to is taken by a link to a file of the user, and nothing is written
/// through it.
#[test]
fn nothing_is_written_through_a_link() {
    let (_folder, path, file) = file();
    let folder = Folder::open(&path).unwrap();
    symlink(&file, path.join("new")).unwrap();
    assert!(folder.overwrite("new".as_ref(), b"other").is_err());
    folder.write("new".as_ref(), b"other").unwrap();
    assert!(!path.join("new").is_symlink());
    assert_eq!(
        (fs::read(path.join("new")).unwrap(), fs::read(&file).unwrap()),
        (b"other".to_vec(), b"code".to_vec())
    );
    // The folder stays the one that was opened.
    let moved = path.join("moved");
    let inner = Folder::open(&path.join("outer")).unwrap();
    fs::rename(path.join("outer"), &moved).unwrap();
    symlink(path.join("elsewhere"), path.join("outer")).unwrap();
    inner.write("late".as_ref(), b"late").unwrap();
    assert_eq!(fs::read(moved.join("late")).unwrap(), b"late");
}

#[test]
fn nothing_is_created_where_it_cannot_be_trusted() {
    let (_folder, path, _) = file();
    set(&path.join("outer"), 0o757);
    let new = path.join("outer/new/folder");
    assert!(Folder::create_trusted(&new, 0o755).is_err());
    assert!(write_trusted(&new.join("file"), b"").is_err());
    assert!(!path.join("outer/new").exists());
    write(&new.join("file"), b"untrusted").unwrap();
    assert_eq!(fs::read(new.join("file")).unwrap(), b"untrusted");
}

#[test]
fn files_are_whole_and_leave_nothing_else() {
    let (_folder, path, file) = file();
    let text = |number: usize| format!("{number:05}").repeat(10_000);
    thread::scope(|scope| {
        for number in 0..16 {
            let file = &file;
            scope.spawn(move || write(file, text(number).as_bytes()).unwrap());
        }
    });
    let there = fs::read_to_string(&file).unwrap();
    assert!((0..16).any(|number| there == text(number)));
    let folder = Folder::open(file.parent().unwrap()).unwrap();
    folder.new_file().unwrap().file().write_all(b"never placed").unwrap();
    assert!(folder.new_file().unwrap().place("file".as_ref()).is_err(), "one that is there stays");
    assert!(folder.has("file".as_ref(), there.as_bytes()) && !folder.has("file".as_ref(), b"other"));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    // Opening a pipe would block until it has a writer.
    let pipe = CString::new(path.join("pipe").as_os_str().as_bytes()).unwrap();
    // SAFETY: the name ends with a zero.
    assert_eq!(unsafe { libc::mkfifo(pipe.as_ptr(), 0o600) }, 0);
    assert!(open(&path.join("pipe")).unwrap_err().to_string().contains("isn't a plain file"));
}
