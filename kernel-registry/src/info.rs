//! Defines `KernelInfo`: the facts about a kernel that are known before it is loaded.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::ptr;

use kernel_registry_format::{self as format, Needs, Params, Record, Records, Signature};

use crate::Place;
use crate::linked::Linked;
use crate::table::Table;

/// A registered kernel, as it was declared. The constant `INFO` of a kernel's type refers to its `KernelInfo`.
///
/// All information is read from the kernel's record in the binary, so there is no second copy that could differ.
pub struct KernelInfo {
    record: &'static [u8],
    bytes: Bytes,
    /// The block and the dynamic shared memory in the record. They are kept separately, because decoding the whole record takes longer
    /// than a launch.
    launch: &'static [[u8; 4]; 4],
    /// The table in which launches find the kernel's handle. The field is a raw pointer, because compilers before Rust 1.90 reject a
    /// constant that refers to interior mutability.
    table: *const Table,
}

// SAFETY: every field, including the pointer, refers to memory that is never freed and is `Sync`.
unsafe impl Sync for KernelInfo {}
// SAFETY: as above.
unsafe impl Send for KernelInfo {}

/// The launch part of a record in which neither block nor shared memory is fixed.
const ANY_LAUNCH: &[[u8; 4]; 4] = &[[0xff; 4]; 4];

/// Where the bytes of a kernel's image are.
#[derive(Clone, Copy)]
enum Bytes {
    /// The macro has embedded the image. This is a function because of how the compiler places constants: see
    /// `__private::image_bytes`.
    Embedded(fn() -> &'static [u8]),
    /// The image was compiled at run time.
    #[cfg(feature = "runtime")]
    Runtime(&'static [u8]),
    /// nvcc linked the kernel; the runtime library has the image.
    Linked(Linked),
}

/// The file that holds a kernel's code. The program contains the file.
#[derive(Clone, Copy)]
pub struct Image {
    file: &'static str,
    variants: &'static str,
    bytes: &'static [u8],
}

impl KernelInfo {
    pub(crate) const fn new(
        record: &'static [u8],
        launch: &'static [[u8; 4]; 4],
        bytes: fn() -> &'static [u8],
        table: &'static Table,
    ) -> Self {
        KernelInfo { record, launch, bytes: Bytes::Embedded(bytes), table }
    }

    /// Creates the kernel of an image that was compiled at run time.
    #[cfg(feature = "runtime")]
    pub(crate) fn runtime(record: &'static [u8], image: &'static [u8], table: &'static Table) -> Self {
        let mut kernel = KernelInfo { record, launch: ANY_LAUNCH, bytes: Bytes::Runtime(image), table };
        let format::KernelRecord { block, shared, .. } = kernel.kernel();
        let [x, y, z] = block.unwrap_or([format::NOT_FIXED; 3]);
        let launch = [x, y, z, shared.unwrap_or(format::NOT_FIXED)].map(u32::to_le_bytes);
        kernel.launch = Box::leak(Box::new(launch));
        kernel
    }

    /// Creates a kernel that nvcc linked.
    pub(crate) fn linked(record: &'static [u8], linked: Linked) -> Self {
        let table = Box::leak(Box::new(Table::COLD));
        KernelInfo { record, launch: ANY_LAUNCH, bytes: Bytes::Linked(linked), table }
    }

    /// Returns the registration of a kernel that nvcc linked. Returns `None` for a kernel that has a declaration, linked or not.
    pub(crate) fn registration(&self) -> Option<Linked> {
        match self.bytes {
            Bytes::Linked(linked) => Some(linked),
            _ => None,
        }
    }

    /// Returns whether nvcc links the kernel into the program. Such a kernel is launched by C++ code with `<<<>>>`, and
    /// `kernel_registry_build::linked()` makes the linker pass its registration to kernel-registry. If the kernel has no declaration,
    /// its path is its name in C++.
    pub fn is_linked(&self) -> bool {
        self.kernel().image.is_none()
    }

    /// Decodes the record.
    pub(crate) fn kernel(&self) -> format::KernelRecord<'static> {
        match Records::new(self.record).next() {
            Some(Ok(Record::Kernel(kernel))) => kernel,
            // This version of the library has written every record that a `KernelInfo` has.
            other => unreachable!("the record of a kernel reads {other:?}"),
        }
    }

    /// Returns the path of the type that stands for the kernel, such as `kernels::blas1::saxpy`.
    pub fn path(&self) -> &'static str {
        self.kernel().path
    }

    /// Returns the kernel's name in its image.
    pub fn symbol(&self) -> &'static str {
        self.kernel().symbol
    }

    /// Returns the name of the cargo package that declares the kernel.
    pub fn package(&self) -> &'static str {
        self.kernel().package
    }

    /// Returns the version of the cargo package that declares the kernel.
    pub fn version(&self) -> &'static str {
        self.kernel().version
    }

    /// Returns the source file of the declaration, as the compiler names it.
    pub fn file(&self) -> &'static str {
        self.kernel().file
    }

    /// Returns the line of the declaration, counted from 1.
    pub fn line(&self) -> u32 {
        self.kernel().line
    }

    /// Returns the column of the declaration, counted from 1.
    pub fn column(&self) -> u32 {
        self.kernel().column
    }

    /// Returns the package, file and line of the declaration.
    pub fn location(&self) -> Place {
        Place::from_record(&self.kernel())
    }

    /// Returns the first line of the kernel's documentation, or an empty string.
    pub fn summary(&self) -> &'static str {
        self.kernel().summary
    }

    /// Returns the parameters, in order.
    pub fn params(&self) -> Params<'static> {
        self.kernel().params
    }

    /// Returns the declaration, which `Display` writes as one line of text.
    pub fn signature(&self) -> Signature<'static> {
        self.kernel().signature()
    }

    /// Returns the least architecture that the declaration asks for: 80 for `arch = ">=80"`.
    pub fn min_arch(&self) -> Option<u32> {
        self.kernel().min_arch
    }

    /// Returns the threads of a block in x, y and z, if the declaration fixes them, or if the kernel was compiled for this block only.
    pub fn block(&self) -> Option<[u32; 3]> {
        let [x, y, z, _] = self.launch.map(u32::from_le_bytes);
        (x != u32::MAX).then_some([x, y, z])
    }

    /// Returns the bytes of dynamic shared memory, if the declaration fixes them.
    pub fn shared(&self) -> Option<u32> {
        let shared = u32::from_le_bytes(self.launch[3]);
        (shared != u32::MAX).then_some(shared)
    }

    /// Returns the bytes of stack that a thread needs, if the declaration states them.
    pub fn stack(&self) -> Option<u32> {
        self.kernel().stack
    }

    /// Returns the services of the driver that the kernel uses, such as printf, as found in its image.
    pub fn needs(&self) -> Needs {
        self.kernel().needs
    }

    /// Returns the image that holds the kernel's code. Kernels of one file share the bytes. Returns `None` if the crate was compiled
    /// without the image, for example because there was no CUDA compiler.
    pub fn image(&self) -> Option<Image> {
        let image = self.kernel().image.filter(format::ImageRecord::is_there)?;
        Some(Image { file: image.file, variants: image.variants, bytes: self.image_bytes() })
    }

    /// Returns the bytes of the image. They are empty if the crate was compiled without the image, or if nvcc linked the kernel.
    pub(crate) fn image_bytes(&self) -> &'static [u8] {
        match self.bytes {
            Bytes::Embedded(bytes) => bytes(),
            #[cfg(feature = "runtime")]
            Bytes::Runtime(bytes) => bytes,
            Bytes::Linked(_) => &[],
        }
    }

    pub(crate) const fn record(&self) -> &'static [u8] {
        self.record
    }

    #[inline]
    pub(crate) const fn table(&self) -> &'static Table {
        // SAFETY: every constructor makes this pointer from a `&'static Table`.
        unsafe { &*self.table }
    }
}

/// The image that an expansion of the macro embeds.
pub trait ImageSource {
    /// The bytes of the image.
    const BYTES: &'static [u8];
}

/// The types that stand for kernels, for code that is generic over kernels. Only `#[gpu_kernel]` implements this trait: it is sealed.
///
/// ```
/// # mod demo {
/// # use kernel_registry::gpu_kernel;
/// # #[gpu_kernel(image = "tests/images/saxpy.ptx")]
/// # pub unsafe fn saxpy(n: u32, a: f32, x: &[f32], y: &mut [f32]);
/// # }
/// # use demo::saxpy;
/// use kernel_registry::Kernel;
///
/// fn name<K: Kernel>() -> &'static str {
///     K::INFO.path()
/// }
/// assert!(name::<saxpy>().ends_with("::saxpy"));
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a kernel",
    label = "not declared with `#[gpu_kernel]`"
)]
pub trait Kernel: ImageSource {
    /// The kernel's information, which is known without loading the kernel.
    const INFO: &'static KernelInfo;
}

impl fmt::Debug for KernelInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.kernel().fmt(f)
    }
}

/// Two are equal if they come from one declaration. Each declaration has exactly one record, so the addresses of the records are
/// compared. The compiler may duplicate everything else in an `INFO`.
impl PartialEq for KernelInfo {
    fn eq(&self, other: &Self) -> bool {
        ptr::eq(self.record, other.record)
    }
}

impl Hash for KernelInfo {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.record.as_ptr().hash(state);
    }
}

impl Eq for KernelInfo {}

impl Image {
    /// Returns the path of the image, as declared.
    pub const fn file(&self) -> &'static str {
        self.file
    }

    /// Returns the image's variants, named as nvcc names them: `sm_90` is machine code for that architecture, `compute_75` is PTX.
    pub fn variants(&self) -> impl Iterator<Item = &'static str> + use<> {
        self.variants.split(',').filter(|variant| !variant.is_empty())
    }

    /// Returns the whole file: PTX, cubin or fatbin.
    pub const fn bytes(&self) -> &'static [u8] {
        self.bytes
    }
}

impl fmt::Debug for Image {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Image({:?}, {} bytes)", self.file, self.bytes.len())
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::sync::OnceLock;

    use kernel_registry_format::{Param, Pass, write_kernel};

    use super::*;

    /// Returns the kernel `scale(n: u32, a: f32, x: *const f32)`, which is not registered.
    pub(crate) fn scale() -> &'static KernelInfo {
        static SCALE: OnceLock<&'static KernelInfo> = OnceLock::new();
        SCALE.get_or_init(|| kernel("demo::scale", || &[]))
    }

    /// Creates a kernel like `scale` with another path and an image.
    pub(crate) fn kernel(path: &'static str, image: fn() -> &'static [u8]) -> &'static KernelInfo {
        let params = [
            Param::new("n", "u32", Pass::Value, 4, 4),
            Param::new("a", "f32", Pass::Value, 4, 4),
            Param::new("x", "*const f32", Pass::Pointer, 4, 4),
        ];
        let params = Params::new(&params);
        let mut record = Vec::new();
        write_kernel(
            &format::KernelRecord { path, symbol: "scale", params, ..format::KernelRecord::EMPTY },
            &mut record,
        );
        let table = Box::leak(Box::new(Table::COLD));
        Box::leak(Box::new(KernelInfo::new(record.leak(), &[[0xff; 4]; 4], image, table)))
    }
}
