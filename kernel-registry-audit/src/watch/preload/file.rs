//! The images that a preload names, mapped from their files.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::{ptr, slice};

use crate::options::Audit;
use crate::preload::{Origin, hash, images};
use crate::watch::code;
use crate::watch::locked::Locked;
use crate::watch::mapped;

/// The bytes of an image, mapped from its file and never unmapped; or why there are none. They are mapped once, for all contexts.
pub(super) fn map(origin: &Origin) -> Result<&'static [u8], String> {
    static MAPPED: Locked<BTreeMap<Origin, Result<&'static [u8], String>>> = Locked::new();
    MAPPED.lock().entry(origin.clone()).or_insert_with(|| find(origin)).clone()
}

/// The file can be the one that was recorded, one of the same name which the process has mapped, or a copy beside the preload.
fn find(origin: &Origin) -> Result<&'static [u8], String> {
    let recorded = Path::new(&origin.path);
    let name = recorded.file_name().unwrap_or_default();
    let others = mapped::named(name).into_iter().filter(|path| path != recorded);
    let copy = Audit::chosen().preload.as_deref().map(|preload| images(preload).join(name));
    let files: Vec<PathBuf> =
        [recorded.to_owned()].into_iter().chain(others).chain(copy).filter(|path| path.exists()).collect();
    let mut why = None;
    for path in &files {
        match part(path, origin) {
            Ok(bytes) => return Ok(bytes),
            Err(error) => why = why.or(Some(format!("`{}`: {error}", path.display()))),
        }
    }
    Err(why.unwrap_or_else(|| format!("`{}`: there is no such file; record again", origin.path)))
}

/// Maps a part of a file, if it is the image that was recorded.
fn part(path: &Path, origin: &Origin) -> io::Result<&'static [u8]> {
    const TOO_SHORT: &str = "it is shorter than the one that was recorded; record again";
    const OTHER: &str = "it is another version than the one that was recorded; record again";
    // A pipe of this name would make it wait.
    let file = File::options().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    let (end, its) = (origin.offset.checked_add(origin.bytes), file.metadata()?);
    if origin.bytes == 0 || !its.is_file() || end.is_none_or(|end| end > its.len()) {
        return Err(io::Error::other(TOO_SHORT));
    }
    // SAFETY: it returns a number.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) }.unsigned_abs().max(1);
    let (begin, inside) = (origin.offset - origin.offset % page, (origin.offset % page) as usize);
    let bytes = usize::try_from(origin.bytes).map_err(io::Error::other)?;
    // The driver reads PTX up to a zero behind it. Behind the end of a file there are zeros up to the end of a page.
    let is_whole = end == Some(its.len()) && its.len().is_multiple_of(page);
    let length = bytes + inside + usize::from(!is_whole);
    // SAFETY: a new mapping touches no other memory.
    let mapped = unsafe {
        libc::mmap(
            ptr::null_mut(),
            length,
            libc::PROT_READ,
            libc::MAP_PRIVATE,
            file.as_raw_fd(),
            begin as libc::off_t,
        )
    };
    if mapped == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: so many bytes are mapped, and stay. Who shortens the file ends the program, as for a library that is in use.
    let mapped = unsafe { slice::from_raw_parts(mapped.cast::<u8>(), length) };
    let image = &mapped[inside..][..bytes];
    if hash(image) == origin.hash && code::is_whole_image(image, mapped.get(inside + bytes).copied()) {
        return Ok(image);
    }
    // SAFETY: it was mapped above, and nothing refers to it any more.
    unsafe { libc::munmap(mapped.as_ptr().cast_mut().cast(), length) };
    Err(io::Error::other(OTHER))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_part_of_a_file_is_mapped_if_it_is_the_same() {
        let folder = std::env::temp_dir().join(format!("kernel-registry-preload-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join("image");
        // PTX, with a zero behind it, and a fatbin up to the end of a page.
        let mut content = vec![b'x'; 20_480];
        content[15_000] = 0;
        let fatbin = [[0x50, 0xed, 0x55, 0xba, 1, 0, 16, 0], (480_u64 - 16).to_le_bytes()].concat();
        content[20_000..][..16].copy_from_slice(&fatbin);
        fs::write(&path, &content).unwrap();
        let path = path.to_str().unwrap().to_owned();
        let origin = |offset, bytes, hash| -> Origin {
            format!("library {hash:016x} {bytes} {offset:#x} {path}").parse().unwrap()
        };
        let mapped = |from: usize, to: usize| {
            map(&origin(from, to - from, hash(&content[from..to]))).map(|image| image == &content[from..to])
        };
        assert_eq!(mapped(5000, 15_000), Ok(true));
        assert_eq!(mapped(20_000, 20_480), Ok(true));
        // It goes on, so the driver would read more; and a fatbin that ends somewhere else.
        assert!(mapped(5000, 14_000).unwrap_err().ends_with("record again"));
        assert!(mapped(20_000, 20_400).unwrap_err().ends_with("record again"));
        assert!(map(&origin(5000, 10_000, 1)).unwrap_err().ends_with("record again"));
        assert!(map(&origin(15_000, 10_000, 1)).unwrap_err().contains("shorter"));
        assert!(map(&origin(usize::MAX, 10_000, 1)).unwrap_err().contains("shorter"));
        assert!(map(&origin(0, 0, 1)).is_err());
        fs::remove_dir_all(&folder).unwrap();
        assert!(map(&origin(0, 1, 1)).unwrap_err().contains("no such file"));
    }
}
