//! What is known of a kernel at compile time.

use std::fmt;
use std::ptr;

use kernel_registry_format::{Kernel, Params, Signature};

use crate::Place;

/// A registered kernel, as it was declared. Every kernel's type has its own as `INFO`.
pub struct KernelInfo {
    kernel: Kernel<'static>,
    /// A function, because of how the compiler places constants: see `image_bytes`.
    bytes: fn() -> &'static [u8],
    record: &'static [u8],
}

/// The file that holds a kernel's code; the program contains it.
#[derive(Clone, Copy)]
pub struct Image {
    file: &'static str,
    bytes: &'static [u8],
}

impl KernelInfo {
    pub(crate) const fn new(
        kernel: Kernel<'static>,
        bytes: fn() -> &'static [u8],
        record: &'static [u8],
    ) -> Self {
        KernelInfo { kernel, bytes, record }
    }

    /// Path of the type that stands for the kernel, such as `kernels::blas1::saxpy`.
    pub const fn path(&self) -> &'static str {
        self.kernel.path
    }

    /// Name of the kernel's entry in its image.
    pub const fn symbol(&self) -> &'static str {
        self.kernel.symbol
    }

    /// Name of the cargo package that declares the kernel.
    pub const fn package(&self) -> &'static str {
        self.kernel.package
    }

    /// Version of the cargo package that declares the kernel.
    pub const fn version(&self) -> &'static str {
        self.kernel.version
    }

    /// The source file of the declaration, as the compiler names it.
    pub const fn file(&self) -> &'static str {
        self.kernel.file
    }

    /// The line of the declaration, counted from 1.
    pub const fn line(&self) -> u32 {
        self.kernel.line
    }

    /// The column of the declaration, counted from 1.
    pub const fn column(&self) -> u32 {
        self.kernel.column
    }

    /// Package, file and line of the declaration.
    pub fn location(&self) -> Place {
        Place::of(&self.kernel)
    }

    /// The first line of the kernel's documentation, or nothing.
    pub const fn summary(&self) -> &'static str {
        self.kernel.summary
    }

    /// The parameters, in order.
    pub const fn params(&self) -> Params<'static> {
        self.kernel.params
    }

    /// The declaration in one line, for people.
    pub fn signature(&self) -> Signature<'static> {
        self.kernel.signature()
    }

    /// The least compute capability that the kernel asks for: 80 for `arch = ">=80"`.
    pub const fn min_arch(&self) -> Option<u32> {
        self.kernel.min_arch
    }

    /// Threads in a block, if the declaration fixes them.
    pub const fn block(&self) -> Option<[u32; 3]> {
        self.kernel.block
    }

    /// Bytes of dynamic shared memory, if the declaration fixes them.
    pub const fn shared(&self) -> Option<u32> {
        self.kernel.shared
    }

    /// The image that holds the kernel's code. Kernels of one file share its bytes.
    pub fn image(&self) -> Option<Image> {
        let image = self.kernel.image?;
        Some(Image { file: image.file, bytes: (self.bytes)() })
    }

    pub(crate) const fn record(&self) -> &'static [u8] {
        self.record
    }
}

impl fmt::Debug for KernelInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.kernel.fmt(f)
    }
}

/// Two are equal if they are one and the same declaration.
impl PartialEq for KernelInfo {
    fn eq(&self, other: &Self) -> bool {
        ptr::eq(self, other)
    }
}

impl Eq for KernelInfo {}

impl Image {
    /// Path of the image, as declared.
    pub const fn file(&self) -> &'static str {
        self.file
    }

    /// The whole file: PTX, cubin or fatbin.
    pub const fn bytes(&self) -> &'static [u8] {
        self.bytes
    }
}

impl fmt::Debug for Image {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Image({:?}, {} bytes)", self.file, self.bytes.len())
    }
}
