//! The files of the cache: written atomically, and read only if no other user could have written them.

use std::io::{self, ErrorKind, Read};
use std::path::Path;

use kernel_registry_files::Folder;

use super::digest::Digest;
use super::result::Cached;

/// Larger files are refused, in bytes.
const LARGEST: u64 = 1 << 28;

/// Returns the name of a result's file.
pub fn file_name(key: &Digest) -> String {
    format!("{key}.compiled")
}

/// Writes a result to a folder, which is created if necessary. Concurrent writers are fine.
///
/// # Errors
///
/// The folder can't be written to, or other users may write there.
pub fn store(folder: &Path, cached: &Cached) -> io::Result<()> {
    let folder = Folder::create_trusted(folder, 0o755)?;
    folder.write(file_name(&cached.key).as_ref(), &cached.encode())
}

/// Reads the result with this key from a folder. The file must have this digest, if one is passed.
///
/// # Errors
///
/// The file can't be read, may have been written by another user, or has another key or digest.
pub fn read(folder: &Path, key: &Digest, digest: Option<&Digest>) -> io::Result<Cached> {
    let other = |why: &str| io::Error::new(ErrorKind::InvalidData, why);
    let file = Folder::open(folder)?.open_trusted(file_name(key).as_ref())?;
    if file.metadata()?.len() > LARGEST {
        return Err(other("it's too large"));
    }
    let mut bytes = Vec::new();
    file.take(LARGEST).read_to_end(&mut bytes)?;
    if digest.is_some_and(|digest| *digest != Digest::new(&bytes)) {
        return Err(other("it isn't the file that was recorded"));
    }
    Cached::decode(&bytes).and_then(|cached| match cached.key == *key {
        true => Ok(cached),
        false => Err(other("it belongs to another program")),
    })
}

#[cfg(test)]
mod tests {
    use std::{env, fs, process, thread};

    use super::*;
    use crate::kept::result::Part;

    fn folder(name: &str) -> std::path::PathBuf {
        env::temp_dir().join(format!("kernel-registry-kept-{name}-{}", process::id()))
    }

    fn cached(text: &str) -> Cached {
        let parts = vec![Part { answer: 0, bytes: text.as_bytes().to_vec() }];
        Cached { key: Digest::new(b"key"), parts, ..Cached::default() }
    }

    #[test]
    fn a_file_with_any_byte_damaged_is_not_used() {
        let folder = folder("damaged");
        let (cached, key) = (cached("some code"), Digest::new(b"key"));
        store(&folder, &cached).unwrap();
        let path = folder.join(file_name(&key));
        let bytes = fs::read(&path).unwrap();
        let digest = Digest::new(&bytes);
        assert_eq!(read(&folder, &key, Some(&digest)).unwrap(), cached);
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
                let (folder, cached) = (&folder, cached(&"code".repeat(1000 + number)));
                scope.spawn(move || store(folder, &cached).unwrap());
            }
        });
        assert!(read(&folder, &Digest::new(b"key"), None).is_ok());
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
        fs::remove_dir_all(&folder).unwrap();
    }
}
