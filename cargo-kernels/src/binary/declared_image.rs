//! An image as records describe it.

use kernel_registry_format::{self as format, KernelRecord};

/// What the records of an image's kernels say of it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Recorded<'a> {
    pub(crate) package: &'a str,
    pub(crate) version: &'a str,
    pub(crate) file: &'a str,
    pub(crate) len: u64,
}

impl<'a> Recorded<'a> {
    pub(crate) fn from_kernel(kernel: &KernelRecord<'a>) -> Option<Self> {
        let KernelRecord { package, version, image, .. } = *kernel;
        let image = image.filter(format::ImageRecord::is_there);
        image.map(|image| Recorded { package, version, file: image.file, len: image.len })
    }
}
