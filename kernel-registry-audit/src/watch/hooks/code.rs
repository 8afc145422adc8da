//! What the images are that a program gives to the driver.

use std::borrow::Cow;
use std::ffi::{CStr, c_char, c_void};
use std::fmt;
use std::{fs, ptr, slice};

use crate::options::Audit;
use crate::record::PTX;

/// What an image is, by its first bytes.
#[derive(Clone, Copy)]
pub(super) struct Image {
    pub(super) kind: &'static str,
    pub(super) bytes: u64,
    /// Where its bytes are, or the name of the file.
    content: Content,
}

#[derive(Clone, Copy)]
enum Content {
    At(*const c_void),
    InFile(*const c_char),
}

impl Image {
    /// The image's bytes.
    pub(super) fn content(&self) -> Option<Cow<'_, [u8]>> {
        let bytes = usize::try_from(self.bytes).ok().filter(|bytes| *bytes > 0)?;
        match self.content {
            Content::At(address) if address.is_null() || !is_mapped(address, bytes) => None,
            Content::At(address) => {
                // SAFETY: so many bytes are mapped, and the program lets the driver read them.
                Some(unsafe { slice::from_raw_parts(address.cast::<u8>(), bytes) }.into())
            }
            Content::InFile(_) if !Audit::chosen().preloads() => None,
            Content::InFile(path) => {
                // SAFETY: a file has a size if its name is there, which ends with a zero.
                let path = unsafe { CStr::from_ptr(path) };
                Some(fs::read(path.to_str().ok()?).ok()?.into())
            }
        }
    }
}

impl fmt::Display for Image {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.bytes {
            0 => f.write_str(self.kind),
            bytes => write!(f, "{} of {bytes} bytes", self.kind),
        }
    }
}

/// Whether so many bytes are in memory. A damaged image can say that it is longer than it is.
fn is_mapped(address: *const c_void, bytes: usize) -> bool {
    const LONGEST: usize = 4 << 30;
    // SAFETY: it returns a number.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) }.unsigned_abs().max(1) as usize;
    let inside = address.addr() % page;
    if bytes > LONGEST || address.addr().checked_add(bytes).is_none() {
        return false;
    }
    let mut pages = vec![0_u8; (inside + bytes).div_ceil(page)];
    let begin = address.wrapping_byte_sub(inside).cast_mut();
    // SAFETY: it stores a byte for each page, and fails if one is not mapped.
    unsafe { libc::mincore(begin, inside + bytes, pages.as_mut_ptr()) == 0 }
}

/// The image that a program gives to the driver.
pub(super) fn image_at(image: *const c_void) -> Image {
    /// Bytes from an offset.
    ///
    /// # Safety
    ///
    /// They are part of the image.
    unsafe fn at<const N: usize>(image: *const c_void, offset: usize) -> [u8; N] {
        // SAFETY: the caller's promise.
        unsafe { image.byte_add(offset).cast::<[u8; N]>().read_unaligned() }
    }
    /// The size of a fatbin, which has it in its header.
    ///
    /// # Safety
    ///
    /// A fatbin begins there.
    unsafe fn fatbin(image: *const c_void) -> u64 {
        // SAFETY: the header has 16 bytes.
        let (header, rest) = unsafe { (u16::from_le_bytes(at(image, 6)), u64::from_le_bytes(at(image, 8))) };
        rest.saturating_add(header.into())
    }
    let of = |kind, bytes, begin| Image { kind, bytes, content: Content::At(begin) };
    if image.is_null() {
        return of("nothing", 0, image);
    }
    // SAFETY: every image has four bytes, and behind them what its kind has there.
    unsafe {
        match at(image, 0) {
            [0x7f, b'E', b'L', b'F'] => {
                let sections = u64::from_le_bytes(at(image, 40));
                let [size, count] = [58, 60].map(|offset| u64::from(u16::from_le_bytes(at(image, offset))));
                of("cubin", sections.saturating_add(size * count), image)
            }
            [0x50, 0xed, 0x55, 0xba] => of("fatbin", fatbin(image), image),
            // The wrapper around a fatbin, as nvcc embeds it: its address comes after two words.
            [0xb1, 0x43, 0x62, 0x46] => {
                let inside = image.byte_add(8).cast::<*const c_void>().read_unaligned();
                of("fatbin", if inside.is_null() { 0 } else { fatbin(inside) }, inside)
            }
            [first, ..] if first.is_ascii_graphic() || first.is_ascii_whitespace() => {
                of(PTX, libc::strlen(image.cast()) as u64, image)
            }
            _ => of("code", 0, image),
        }
    }
}

/// The image in a file.
pub(super) fn image_in_file(name: *const c_char) -> Image {
    let kind = "file";
    if name.is_null() {
        return Image { kind, bytes: 0, content: Content::At(ptr::null()) };
    }
    // SAFETY: a path ends with a zero.
    let path = unsafe { CStr::from_ptr(name) };
    let bytes = path
        .to_str()
        .ok()
        .and_then(|path| fs::metadata(path).ok())
        .filter(fs::Metadata::is_file)
        .map_or(0, |file| file.len());
    Image { kind, bytes, content: Content::InFile(name) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_that_says_too_much_of_itself_is_not_read() {
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
    }
}
