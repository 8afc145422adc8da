//! Reads images of all kinds.

use kernel_registry_cuda::fatbin::is_fatbin;

use crate::{Error, Image, ImageKind, cubin, elf, fatbin, ptx};

/// Reads an image of any kind.
///
/// # Errors
///
/// Fails if the bytes are no image, or a damaged one: see [`Error`]. An image without kernels is fine.
pub fn read(bytes: &[u8]) -> Result<Image, Error> {
    if is_fatbin(bytes) {
        let (variants, unread) = fatbin::read(bytes)?;
        Ok(Image { unread, ..Image::new(ImageKind::Fatbin, variants) })
    } else if elf::is_elf(bytes) {
        Ok(Image::new(ImageKind::Cubin, vec![cubin::read(bytes)?]))
    } else if ptx::is_ptx(bytes) {
        Ok(Image::new(ImageKind::Ptx, ptx::read(bytes)?))
    } else {
        Err(Error::NotAnImage)
    }
}
