//! What the images are that a program gives to the driver.

use std::ffi::{CStr, c_char, c_void};
use std::fmt;
use std::fs;

use crate::record::PTX;

/// What an image is, by its first bytes.
#[derive(Clone, Copy)]
pub(super) struct Image {
    pub(super) kind: &'static str,
    pub(super) bytes: u64,
}

impl fmt::Display for Image {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.bytes {
            0 => f.write_str(self.kind),
            bytes => write!(f, "{} of {bytes} bytes", self.kind),
        }
    }
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
    if image.is_null() {
        return Image { kind: "nothing", bytes: 0 };
    }
    // SAFETY: every image has four bytes, and behind them what its kind has there.
    unsafe {
        match at(image, 0) {
            [0x7f, b'E', b'L', b'F'] => {
                let sections = u64::from_le_bytes(at(image, 40));
                let [size, count] = [58, 60].map(|offset| u64::from(u16::from_le_bytes(at(image, offset))));
                Image { kind: "cubin", bytes: sections.saturating_add(size * count) }
            }
            [0x50, 0xed, 0x55, 0xba] => Image { kind: "fatbin", bytes: fatbin(image) },
            // The wrapper around a fatbin, as nvcc embeds it: its address comes after two words.
            [0xb1, 0x43, 0x62, 0x46] => {
                let inside = image.byte_add(8).cast::<*const c_void>().read_unaligned();
                Image { kind: "fatbin", bytes: if inside.is_null() { 0 } else { fatbin(inside) } }
            }
            [first, ..] if first.is_ascii_graphic() || first.is_ascii_whitespace() => {
                Image { kind: PTX, bytes: libc::strlen(image.cast()) as u64 }
            }
            _ => Image { kind: "code", bytes: 0 },
        }
    }
}

/// The image in a file.
pub(super) fn image_in_file(path: *const c_char) -> Image {
    let kind = "file";
    if path.is_null() {
        return Image { kind, bytes: 0 };
    }
    // SAFETY: a path ends with a zero.
    let path = unsafe { CStr::from_ptr(path) };
    let bytes = path.to_str().ok().and_then(|path| fs::metadata(path).ok()).map_or(0, |file| file.len());
    Image { kind, bytes }
}
