//! Reads a preload's images from their files.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io;
use std::iter;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use crate::options::Audit;
use crate::preload::{Origin, hash, images};
use crate::watch::known::code;
use crate::watch::loader::mapped;
use crate::watch::process::locked::Locked;

/// Larger images aren't read, in bytes.
const LONGEST: u64 = 1 << 30;

static READ: Locked<Images> = Locked::new();

#[derive(Default)]
struct Images {
    /// Images, or why they couldn't be read.
    by_origin: BTreeMap<Origin, Result<&'static [u8], String>>,
    /// Images by length and hash.
    by_hash: HashMap<(u64, u64), Vec<&'static [u8]>>,
}

impl Images {
    /// Returns an image with these bytes that's never freed. Several files can have the same bytes.
    fn intern(&mut self, origin: &Origin, bytes: Vec<u8>) -> &'static [u8] {
        let same = self.by_hash.entry((origin.bytes, origin.hash)).or_default();
        let code = &bytes[..bytes.len() - 1];
        if let Some(known) = same.iter().find(|known| **known == code) {
            return known;
        }
        let length = code.len();
        let new = &bytes.leak()[..length];
        same.push(new);
        new
    }
}

/// Returns an image's bytes, or why they can't be read. Equal bytes have the same address, and aren't freed.
pub(super) fn read(origin: &Origin) -> Result<&'static [u8], String> {
    let mut images = READ.lock();
    if let Some(read) = images.by_origin.get(origin) {
        return read.clone();
    }
    let read = find(origin).map(|bytes| images.intern(origin, bytes));
    images.by_origin.insert(origin.clone(), read.clone());
    read
}

/// Finds an image in the recorded file, a mapped file with the same name, or a copy next to the preload.
fn find(origin: &Origin) -> Result<Vec<u8>, String> {
    let recorded = Path::new(&origin.path);
    let name = recorded.file_name().unwrap_or_default();
    // Lazy: only needed if the image isn't in the recorded file.
    let others = || mapped::find_by_name(name).into_iter().filter(|path| path != recorded);
    let copy = Audit::chosen().preload.as_deref().map(|preload| images(preload).join(name));
    let files = iter::once(recorded.to_owned()).chain(iter::once_with(others).flatten()).chain(copy);
    let mut why = None;
    for path in files.filter(|path| path.exists()) {
        match part(&path, origin) {
            Ok(bytes) => return Ok(bytes),
            Err(error) => why = why.or(Some(format!("`{}`: {error}", path.display()))),
        }
    }
    let remedy = if origin.is_copy() {
        "put the folder with images next to the preload, as `--record` does"
    } else {
        "record again"
    };
    Err(why.unwrap_or_else(|| format!("there is no such file; {remedy}")))
}

/// Reads a part of a file, if it's the recorded image, and appends a zero. It isn't mapped, because the
/// driver may use the image after the file has changed.
fn part(path: &Path, origin: &Origin) -> io::Result<Vec<u8>> {
    const TOO_SHORT: &str = "it's shorter than when it was recorded; record again";
    const OTHER: &str = "it has changed since it was recorded; record again";
    const TOO_LONG: &str = "the image is too long";
    // Without the flag, opening a pipe would wait.
    let file = File::options().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    let (end, its) = (origin.offset.checked_add(origin.bytes), file.metadata()?);
    if origin.bytes == 0 || !its.is_file() || end.is_none_or(|end| end > its.len()) {
        return Err(io::Error::other(TOO_SHORT));
    }
    let length = usize::try_from(origin.bytes).ok().filter(|_| origin.bytes <= LONGEST);
    let length = length.ok_or_else(|| io::Error::other(TOO_LONG))?;
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(length + 1)?;
    // The driver reads PTX up to a zero.
    bytes.resize(length + 1, 0);
    file.read_exact_at(&mut bytes[..length], origin.offset)?;
    if hash(&bytes[..length]) != origin.hash || !code::is_whole_image(&bytes[..length]) {
        return Err(io::Error::other(OTHER));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_part_of_a_file_is_read_if_it_is_the_same() {
        let folder = std::env::temp_dir().join(format!("kernel-registry-preload-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join("image");
        // The file has PTX, and then a fatbin.
        let mut content = vec![b'x'; 20_480];
        content[15_000] = 0;
        let fatbin = [[0x50, 0xed, 0x55, 0xba, 1, 0, 16, 0], (480_u64 - 16).to_le_bytes()].concat();
        content[20_000..][..16].copy_from_slice(&fatbin);
        fs::write(&path, &content).unwrap();
        let path = path.to_str().unwrap().to_owned();
        let origin = |offset, bytes, hash| -> Origin {
            format!("library {hash:016x} {bytes} {offset:#x} {path}").parse().unwrap()
        };
        let is_read = |from: usize, to: usize| {
            read(&origin(from, to - from, hash(&content[from..to]))).map(|image| image == &content[from..to])
        };
        assert_eq!(is_read(5000, 15_000), Ok(true));
        assert_eq!(is_read(20_000, 20_480), Ok(true));
        let copy = folder.join("copy");
        fs::write(&copy, &content[5000..15_000]).unwrap();
        let hash_of = hash(&content[5000..15_000]);
        let copy = format!("library {hash_of:016x} 10000 0x0 {}", copy.display()).parse().unwrap();
        assert_eq!(read(&copy).unwrap().as_ptr(), read(&origin(5000, 10_000, hash_of)).unwrap().as_ptr());
        // PTX with a zero in it is refused, and a fatbin that ends elsewhere.
        assert!(is_read(5000, 15_001).unwrap_err().ends_with("record again"));
        assert!(is_read(20_000, 20_400).unwrap_err().ends_with("record again"));
        assert!(read(&origin(5000, 10_000, 1)).unwrap_err().ends_with("record again"));
        assert!(read(&origin(15_000, 10_000, 1)).unwrap_err().contains("shorter"));
        assert!(read(&origin(usize::MAX, 10_000, 1)).unwrap_err().contains("shorter"));
        assert!(read(&origin(0, 0, 1)).is_err());
        fs::remove_dir_all(&folder).unwrap();
        assert!(read(&origin(0, 1, 1)).unwrap_err().contains("no such file"));
    }
}
