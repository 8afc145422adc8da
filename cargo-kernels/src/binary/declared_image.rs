//! An image as the records of its kernels name it.

use kernel_registry_format::{self as format, KernelRecord};

/// An image of declared kernels. The records hold no more than this: the bytes are found by their length.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct DeclaredImage<'a> {
    pub(crate) package: &'a str,
    pub(crate) version: &'a str,
    pub(crate) file: &'a str,
    pub(crate) len: u64,
}

impl<'a> DeclaredImage<'a> {
    pub(crate) fn from_kernel(kernel: &KernelRecord<'a>) -> Option<Self> {
        let KernelRecord { package, version, image, .. } = *kernel;
        let image = image.filter(format::ImageRecord::is_there);
        image.map(|image| DeclaredImage { package, version, file: image.file, len: image.len })
    }
}
