//! The images that may be adopted, found by their bytes.

use std::collections::HashMap;
use std::ffi::{c_char, c_void};
use std::sync::{PoisonError, RwLock};
use std::{ptr, slice};

use crate::KernelInfo;

/// An image that may be adopted, and its kernels.
struct Adoptable {
    bytes: &'static [u8],
    kernels: Vec<&'static KernelInfo>,
}

/// The images that can't be adopted, each with a variable that prevents it.
static REFUSED: RwLock<Vec<(&'static [u8], String)>> = RwLock::new(Vec::new());

/// The images that may be adopted, by length.
static IMAGES: RwLock<Option<HashMap<usize, Vec<Adoptable>>>> = RwLock::new(None);

/// Lets an image be adopted, unless it has a variable: each load of such an image must get variables of its own, with their initial
/// values, and all loads of an adopted image share one module. `bytes` doesn't contain the zero that ends PTX.
pub(crate) fn add(bytes: &'static [u8], kernels: &[&'static KernelInfo], variable: Option<&str>) {
    if let Some(variable) = variable {
        let mut refused = REFUSED.write().unwrap_or_else(PoisonError::into_inner);
        if refused.iter().all(|(other, _)| !ptr::eq(*other, bytes)) {
            refused.push((bytes, variable.to_owned()));
        }
        return;
    }
    let mut images = IMAGES.write().unwrap_or_else(PoisonError::into_inner);
    let same_length = images.get_or_insert_default().entry(bytes.len()).or_default();
    if same_length.iter().all(|other| !ptr::eq(other.bytes, bytes)) {
        same_length.push(Adoptable { bytes, kernels: kernels.to_vec() });
    }
}

/// Returns the variable that keeps an image from being adopted.
pub(crate) fn refused(image: &'static [u8]) -> Option<String> {
    let refused = REFUSED.read().unwrap_or_else(PoisonError::into_inner);
    refused.iter().find(|(other, _)| ptr::eq(*other, image)).map(|(_, variable)| variable.clone())
}

/// Returns whether an image may be adopted.
pub(crate) fn is_adopted(image: &'static [u8]) -> bool {
    with(image, |_| ()).is_some()
}

/// Returns the kernel of this symbol in an image that may be adopted.
pub(super) fn kernel(image: &'static [u8], symbol: &[u8]) -> Option<&'static KernelInfo> {
    let has_symbol = |kernel: &&KernelInfo| kernel.symbol().as_bytes() == symbol;
    with(image, |image| image.kernels.iter().copied().find(has_symbol))?
}

fn with<T>(image: &'static [u8], read: impl FnOnce(&Adoptable) -> T) -> Option<T> {
    let images = IMAGES.read().unwrap_or_else(PoisonError::into_inner);
    let same_length = images.as_ref()?.get(&image.len())?;
    same_length.iter().find(|other| ptr::eq(other.bytes, image)).map(read)
}

/// Returns the images that may be adopted and have exactly the bytes of this image.
///
/// # Safety
///
/// `image` is null, or the address of a whole image, as the driver's functions take it.
pub(super) unsafe fn find(image: *const c_void) -> Vec<&'static [u8]> {
    let images = IMAGES.read().unwrap_or_else(PoisonError::into_inner);
    let Some(images) = images.as_ref().filter(|_| !image.is_null()) else { return Vec::new() };
    let longest = images.keys().copied().max().unwrap_or(0);
    // SAFETY: the caller's promise.
    let Some(length) = (unsafe { length(image, longest) }) else { return Vec::new() };
    let Some(same_length) = images.get(&length) else { return Vec::new() };
    // SAFETY: the image has `length` bytes.
    let bytes = unsafe { slice::from_raw_parts(image.cast::<u8>(), length) };
    same_length.iter().map(|image| image.bytes).filter(|other| *other == bytes).collect()
}

/// Returns the length of an image, according to the header of a cubin or fatbin, or up to the zero that ends PTX. Returns `None` for
/// PTX that is longer than `longest`, and for images of another kind.
///
/// # Safety
///
/// `image` is the address of a whole image.
unsafe fn length(image: *const c_void, longest: usize) -> Option<usize> {
    unsafe extern "C" {
        fn strnlen(text: *const c_char, most: usize) -> usize;
    }
    let at = |offset: usize| {
        // SAFETY: these bytes belong to the header, of 64 bytes in a cubin and 16 in a fatbin.
        unsafe { image.cast::<u8>().add(offset).read() }
    };
    let number = |offset: usize, bytes: usize| {
        (0..bytes).fold(0_u64, |number, byte| number | u64::from(at(offset + byte)) << (8 * byte))
    };
    // Bytes are read one by one, because PTX may end after any of them.
    let begins_with = |magic: &[u8]| magic.iter().enumerate().all(|(offset, byte)| at(offset) == *byte);
    let length = if begins_with(b"\x7fELF") {
        // A cubin ends with the table of section headers or the table of program headers, whichever comes last.
        let end = |begin, size| number(begin, 8).saturating_add(number(size, 2) * number(size + 2, 2));
        end(40, 58).max(end(32, 54))
    } else if begins_with(&[0x50, 0xed, 0x55, 0xba]) {
        number(8, 8).saturating_add(number(6, 2))
    } else if at(0).is_ascii_graphic() || at(0).is_ascii_whitespace() {
        // SAFETY: PTX ends with a zero.
        let length = unsafe { strnlen(image.cast(), longest + 1) };
        return Some(length).filter(|length| *length <= longest);
    } else {
        return None;
    };
    usize::try_from(length).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(image: &[u8]) -> Vec<&'static [u8]> {
        // SAFETY: the tests pass whole images.
        unsafe { find(image.as_ptr().cast()) }
    }

    #[test]
    fn images_are_found_by_all_of_their_bytes() {
        const PTX: &[u8] = b".version 8.0 // of the test of adopted bytes";
        let mut cubin = b"\x7fELF".to_vec();
        cubin.resize(64, 0);
        cubin[40] = 64;
        cubin[58..62].copy_from_slice(&[8, 0, 2, 0]);
        cubin.resize(80, 7);
        let mut fatbin = vec![0x50, 0xed, 0x55, 0xba, 1, 0, 16, 0, 21];
        fatbin.resize(16 + 21, 0);
        for image in [PTX, cubin.leak(), fatbin.leak()] {
            let mut other = [image, b"\0"].concat();
            assert!(found(&other).is_empty(), "before it may be adopted");
            add(image, &[], None);
            add(image, &[], None);
            assert!(is_adopted(image));
            assert_eq!(found(&other), [image]);
            other[image.len() - 1] ^= 1;
            assert!(found(&other).is_empty(), "with another byte");
        }
        assert!(found(b".version\0").is_empty(), "shorter");
        assert!(found(&[PTX, b" and more\0"].concat()).is_empty(), "longer");
        assert!(found(b"\0").is_empty(), "nothing");
        assert!(found(b"\x7f\0").is_empty(), "another kind");
        // SAFETY: the address is null.
        assert!(unsafe { find(ptr::null()) }.is_empty());
    }
}
