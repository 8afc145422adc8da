//! Keeps copies of images that are in no file, because a program compiles or unpacks them.

use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use kernel_registry_files::Folder;

/// Keeps a copy of an image in a folder, and creates the folder. Other threads and processes may keep the same image at
/// the same time. Another image with the same hash has a copy of its own. Behind the image the copy has a zero, because
/// the driver reads PTX up to a zero.
///
/// # Errors
///
/// The folder can't be written to, or another user planted a link on the way.
pub fn keep_copy(folder: &Path, content: &[u8], hash: u64) -> io::Result<PathBuf> {
    let (path, folder) = (folder, Folder::create(folder)?);
    let content = [content, &[0]].concat();
    for number in 0_u64.. {
        let further = if number == 0 { String::new() } else { format!("-{number}") };
        let name = format!("{hash:016x}-{}{further}.image", content.len() - 1);
        match folder.metadata(name.as_ref()) {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error),
            Ok(_) if folder.has(name.as_ref(), &content) => return Ok(path.join(name)),
            Ok(_) => continue,
        }
        // The copy appears whole, or not at all.
        let mut new = folder.new_file()?;
        let placed = new.file().write_all(&content).and_then(|()| new.place(name.as_ref()));
        match placed {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
            _ if folder.has(name.as_ref(), &content) => return Ok(path.join(name)),
            _ => {}
        }
    }
    Err(ErrorKind::AlreadyExists.into())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, lchown, symlink};
    use std::{env, fs, process, thread};

    use super::*;

    /// Only root can make a link that belongs to another user.
    #[test]
    fn a_folder_that_another_user_links_to_gets_no_copy() {
        let folder = env::temp_dir().join(format!("kernel-registry-linked-{}", process::id()));
        let link = folder.join("link");
        fs::create_dir_all(&folder).unwrap();
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).unwrap();
        symlink(&folder, &link).unwrap();
        assert!(keep_copy(&link, b"own", 7).is_ok());
        if lchown(&link, Some(65_534), None).is_ok() {
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
