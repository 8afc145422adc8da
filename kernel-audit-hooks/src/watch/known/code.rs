//! Identifies the images that a program passes to the driver.

use std::borrow::Cow;
use std::ffi::{CStr, c_char, c_void};
use std::fmt;
use std::{fs, io, ptr, slice};

use crate::options::Audit;
use crate::record::Format;
use crate::watch::loader::mapped;
use crate::watch::process::memory;

/// An image, as described by its header.
#[derive(Clone, Copy)]
pub(crate) struct Image {
    pub(crate) format: Format,
    pub(crate) bytes: u64,
    content: Content,
}

#[derive(Clone, Copy)]
enum Content {
    At(*const c_void),
    /// The name of a file.
    InFile(*const c_char),
}

impl Image {
    /// Returns this image as machine code that's loaded in its place.
    pub(crate) fn baked(self) -> Self {
        Image { format: Format::Baked, ..self }
    }

    /// Returns this image as one that the driver compiles, if it does.
    pub(crate) fn compiled(self, is_compiled: bool) -> Self {
        match self.format {
            Format::Fatbin if is_compiled => Image { format: Format::FatbinOfPtx, ..self },
            _ => self,
        }
    }

    pub(crate) fn content(&self) -> Option<Cow<'_, [u8]>> {
        let bytes = usize::try_from(self.bytes).ok().filter(|bytes| *bytes > 0)?;
        match self.content {
            Content::At(address) if address.is_null() || !is_readable(address, bytes) => None,
            Content::At(address) => {
                // SAFETY: these bytes are mapped, and the program lets the driver read them.
                Some(unsafe { slice::from_raw_parts(address.cast::<u8>(), bytes) }.into())
            }
            Content::InFile(_) if !Audit::chosen().preloads() => None,
            Content::InFile(path) => {
                // SAFETY: the size isn't 0, so there's a name, which ends with a zero.
                let path = unsafe { CStr::from_ptr(path) };
                Some(fs::read(path.to_str().ok()?).ok()?.into())
            }
        }
    }
}

impl fmt::Display for Image {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.bytes {
            0 => f.write_str(self.format.as_str()),
            bytes => write!(f, "{} of {bytes} bytes", self.format.as_str()),
        }
    }
}

/// Returns whether these bytes can be read. A corrupt image's header may claim a larger size.
fn is_readable(address: *const c_void, bytes: usize) -> bool {
    const LONGEST: usize = 4 << 30;
    let Some(end) = address.addr().checked_add(bytes).filter(|_| bytes <= LONGEST) else { return false };
    // Cheap: this reads no file into memory.
    if mapped::is_readable(address, bytes) {
        return true;
    }
    // SAFETY: the call returns a number.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) }.unsigned_abs().max(1) as usize;
    let begin = address.addr() - address.addr() % page;
    let pages = ptr::without_provenance_mut::<c_void>(begin);
    // Returns the error, if the call fails.
    let refused = |pages: *mut c_void, bytes| {
        // SAFETY: the call fails if a page isn't mapped or can't be read.
        let answer = unsafe { libc::madvise(pages, bytes, libc::MADV_POPULATE_READ) };
        (answer != 0).then(|| io::Error::last_os_error().raw_os_error())
    };
    match refused(pages, end - begin) {
        // qemu's user mode does nothing and reports success, even for page 0.
        None if refused(ptr::null_mut(), page).is_some() => true,
        Some(Some(libc::ENOMEM | libc::EFAULT)) => false,
        // EINVAL: Linux before 5.14 doesn't know the advice, or the pages have no permissions.
        _ => memory::is_readable(address.addr() as u64, bytes as u64),
    }
}

/// Returns the image at an address that was passed to the driver.
pub(crate) fn image_at(image: *const c_void) -> Image {
    /// Reads bytes at an offset.
    ///
    /// # Safety
    ///
    /// The bytes are part of the image.
    unsafe fn at<const N: usize>(image: *const c_void, offset: usize) -> [u8; N] {
        // SAFETY: the caller's promise.
        unsafe { image.byte_add(offset).cast::<[u8; N]>().read_unaligned() }
    }
    /// Returns a fatbin's size, from its header.
    ///
    /// # Safety
    ///
    /// A fatbin starts at this address.
    unsafe fn fatbin(image: *const c_void) -> u64 {
        // SAFETY: the header has 16 bytes.
        let (header, rest) = unsafe { (u16::from_le_bytes(at(image, 6)), u64::from_le_bytes(at(image, 8))) };
        rest.saturating_add(header.into())
    }
    let known = |format, bytes, begin| Image { format, bytes, content: Content::At(begin) };
    if image.is_null() {
        return known(Format::Null, 0, image);
    }
    // SAFETY: every image has at least four bytes, and the header of its kind.
    unsafe {
        match at(image, 0) {
            [0x7f, b'E', b'L', b'F'] => {
                // A cubin ends with its section headers or its program headers.
                let ends = [(40, 58), (32, 54)].map(|(begin, size)| {
                    let [size, count] =
                        [size, size + 2].map(|offset| u64::from(u16::from_le_bytes(at(image, offset))));
                    u64::from_le_bytes(at(image, begin)).saturating_add(size * count)
                });
                known(Format::Cubin, ends[0].max(ends[1]), image)
            }
            [0x50, 0xed, 0x55, 0xba] => known(Format::Fatbin, fatbin(image), image),
            // This is the wrapper around a fatbin, as nvcc embeds it. The fatbin's address comes after two words.
            [0xb1, 0x43, 0x62, 0x46] => {
                let inside = image.byte_add(8).cast::<*const c_void>().read_unaligned();
                known(Format::Fatbin, if inside.is_null() { 0 } else { fatbin(inside) }, inside)
            }
            [first, ..] if first.is_ascii_graphic() || first.is_ascii_whitespace() => {
                known(Format::Ptx, libc::strlen(image.cast()) as u64, image)
            }
            _ => known(Format::Unknown, 0, image),
        }
    }
}

/// Returns whether these bytes are PTX.
pub(crate) fn is_ptx(image: &[u8]) -> bool {
    image.len() >= 4 && image_at(image.as_ptr().cast()).format == Format::Ptx
}

/// Returns whether these bytes are a complete image. The driver stops reading PTX at a zero.
pub(crate) fn is_whole_image(image: &[u8]) -> bool {
    const SMALLEST: usize = 64;
    let length = |of: Image| of.bytes == image.len() as u64;
    match image {
        [0x7f, b'E', b'L', b'F', ..] | [0x50, 0xed, 0x55, 0xba, ..] => {
            image.len() >= SMALLEST && length(image_at(image.as_ptr().cast()))
        }
        [first, ..] => (first.is_ascii_graphic() || first.is_ascii_whitespace()) && !image.contains(&0),
        [] => false,
    }
}

/// Returns the image in a file.
pub(crate) fn image_in_file(name: *const c_char) -> Image {
    let format = Format::File;
    if name.is_null() {
        return Image { format, bytes: 0, content: Content::At(ptr::null()) };
    }
    // SAFETY: paths end with a zero.
    let path = unsafe { CStr::from_ptr(name) };
    let bytes = path
        .to_str()
        .ok()
        .and_then(|path| fs::metadata(path).ok())
        .filter(fs::Metadata::is_file)
        .map_or(0, |file| file.len());
    Image { format, bytes, content: Content::InFile(name) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::watch::process::refused;

    #[test]
    fn an_image_that_claims_to_be_longer_is_not_read() {
        longer_images_are_not_read();
    }

    /// Simulates Linux before 5.14, and qemu's user mode, which does nothing and returns 0.
    #[test]
    fn nor_where_the_system_does_not_know_how_to_populate() {
        for error in [libc::EINVAL, 0] {
            refused::in_thread(libc::SYS_madvise, error, longer_images_are_not_read);
        }
    }

    fn longer_images_are_not_read() {
        let mut fatbin = vec![0x50, 0xed, 0x55, 0xba, 1, 0, 16, 0];
        fatbin.extend(48_u64.to_le_bytes());
        fatbin.resize(64, 7);
        assert_eq!(image_at(fatbin.as_ptr().cast()).content().as_deref(), Some(&*fatbin));
        for claimed in [1 << 30, 1 << 40, u64::MAX] {
            fatbin[8..16].copy_from_slice(&u64::to_le_bytes(claimed));
            let image = image_at(fatbin.as_ptr().cast());
            assert_eq!((image.bytes >= claimed - 16, image.content()), (true, None), "{claimed}");
        }
        assert_eq!(image_at(ptr::null()).content(), None);

        // A multiple of every page size.
        const PAGE: usize = 1 << 16;
        // The image is followed by memory that can't be read.
        let none = (libc::PROT_NONE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1);
        // SAFETY: the mapping is new. Its first page is made writable before it's written to.
        let memory = unsafe {
            let memory = libc::mmap(ptr::null_mut(), 3 * PAGE, none.0, none.1, none.2, 0).cast::<u8>();
            assert_eq!(libc::mprotect(memory.cast(), PAGE, libc::PROT_READ | libc::PROT_WRITE), 0);
            fatbin[8..16].copy_from_slice(&u64::to_le_bytes(2 * PAGE as u64 - 200));
            memory.copy_from_nonoverlapping(fatbin.as_ptr(), fatbin.len());
            memory
        };
        assert_eq!(image_at(memory.cast()).content(), None);
    }

    #[test]
    fn a_cubin_has_all_of_its_bytes() {
        let mut count = 0;
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../kernel-registry-image/tests/images");
        for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if path.extension().is_some_and(|extension| extension == "cubin") {
                let cubin = fs::read(&path).unwrap();
                assert_eq!(image_at(cubin.as_ptr().cast()).bytes, cubin.len() as u64, "{}", path.display());
                count += 1;
            }
        }
        assert!(count > 3, "{count}");
    }
}
