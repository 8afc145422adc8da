//! The files of kept results: who may have written them, and how they are written.

use std::io::{self, ErrorKind, Read};
use std::path::Path;

use kernel_registry_files::Folder;

use super::digest::Digest;
use super::result::Kept;

/// No file is larger, in bytes.
const LARGEST: u64 = 1 << 28;

/// The name of the file with this key.
pub fn file_name(key: &Digest) -> String {
    format!("{key}.compiled")
}

/// Writes a result to a folder, and creates that: whole, or not at all. Other threads and processes may do the same at the same time.
///
/// # Errors
///
/// The folder can't be written to, or others may write there.
pub fn keep(folder: &Path, kept: &Kept) -> io::Result<()> {
    let folder = Folder::create_trusted(folder, 0o755)?;
    folder.write(file_name(&kept.key).as_ref(), &kept.encode())
}

/// Reads the result with this key from a folder. If its digest is known, the file must have that.
///
/// # Errors
///
/// There is no such file, it can't be read, others may have written it, or it is another one.
pub fn read(folder: &Path, key: &Digest, digest: Option<&Digest>) -> io::Result<Kept> {
    let other = |why: &str| io::Error::new(ErrorKind::InvalidData, why);
    let file = Folder::open(folder)?.open_trusted(file_name(key).as_ref())?;
    if file.metadata()?.len() > LARGEST {
        return Err(other("it is too large"));
    }
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

#[cfg(test)]
mod tests {
    use std::{env, fs, process, thread};

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
