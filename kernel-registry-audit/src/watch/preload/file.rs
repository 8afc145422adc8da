//! The images that a preload names, mapped from their files.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::{ptr, slice};

use crate::options::Audit;
use crate::preload::{Origin, hash, images};
use crate::watch::mapped;

/// The bytes of an image, mapped from its file and never unmapped; or why there are none. The file is that of the same name which the process has
/// mapped, or the one that was recorded, or a copy beside the preload.
pub(super) fn map(origin: &Origin) -> Result<&'static [u8], String> {
    let recorded = Path::new(&origin.path);
    let name = recorded.file_name().unwrap_or_default();
    let moved = || Some(images(Audit::chosen().preload.as_deref()?).join(name)).filter(|path| path.exists());
    let found = mapped::named(name).or_else(|| if recorded.exists() { None } else { moved() });
    let path = found.as_deref().unwrap_or(recorded);
    let words = |why: &str| format!("`{}`: {why}", path.display());
    let bytes = part(path, origin).map_err(|error| words(&error.to_string()))?;
    if hash(bytes) == origin.hash {
        return Ok(bytes);
    }
    Err(words("it is another version than the one that was recorded; record again"))
}

/// Maps a part of a file. Where the file is shorter, there are zeros.
fn part(path: &Path, origin: &Origin) -> io::Result<&'static [u8]> {
    const TOO_SHORT: &str = "it is shorter than the one that was recorded; record again";
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
    // SAFETY: a new mapping touches no other memory.
    let mapped = unsafe {
        libc::mmap(
            ptr::null_mut(),
            // The driver reads PTX up to a zero, which is behind it.
            bytes + inside + 1,
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
    Ok(unsafe { slice::from_raw_parts(mapped.cast::<u8>().add(inside), bytes) })
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
        let content: Vec<u8> = (0..20_000_u32).map(|at| (at * 7) as u8).collect();
        fs::write(&path, &content).unwrap();
        let path = path.to_str().unwrap().to_owned();
        let part = &content[5000..15_000];
        let origin = |offset, bytes, hash| -> Origin {
            format!("library {hash:016x} {bytes} {offset:#x} {path}").parse().unwrap()
        };
        assert_eq!(map(&origin(5000, 10_000, hash(part))), Ok(part));
        assert!(map(&origin(5000, 10_000, 1)).unwrap_err().ends_with("record again"));
        assert!(map(&origin(15_000, 10_000, 1)).unwrap_err().contains("shorter"));
        assert!(map(&origin(u64::MAX, 10_000, 1)).unwrap_err().contains("shorter"));
        assert!(map(&origin(0, 0, 1)).is_err());
        fs::remove_dir_all(&folder).unwrap();
        assert!(map(&origin(0, 1, 1)).unwrap_err().contains("No such file"));
    }
}
