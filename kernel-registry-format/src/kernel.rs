//! Defines the subjects of records: a kernel, or the copy of kernel-registry that registered kernels.

use core::fmt;

use crate::{Param, Params};

/// One registered kernel, as it was declared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelRecord<'a> {
    /// Path of the Rust type that represents the kernel, such as `kernels::blas1::saxpy`.
    pub path: &'a str,
    /// The kernel's name in the image, which may be a mangled C++ name.
    pub symbol: &'a str,
    /// The cargo package that declares the kernel.
    pub package: &'a str,
    /// The version of that package.
    pub version: &'a str,
    /// The source file of the declaration, as the compiler names it.
    pub file: &'a str,
    /// The line of the declaration, counted from 1.
    pub line: u32,
    /// The column of the declaration, counted from 1.
    pub column: u32,
    /// The first line of the kernel's documentation, or an empty string.
    pub summary: &'a str,
    /// The parameters, in the order in which the kernel takes them.
    pub params: Params<'a>,
    /// The names of the parameters in the CUDA source, such as `m, n, k`, if they're known and differ from
    /// the declared names.
    pub source_names: &'a str,
    /// The lowest architecture that the declaration asks for: 80 for `arch = ">=80"`.
    pub min_arch: Option<u32>,
    /// The threads of a block in x, y and z, if the declaration fixes them, or if the kernel was compiled for
    /// this block only.
    pub block: Option<[u32; 3]>,
    /// Bytes of dynamic shared memory, if the declaration fixes the number.
    pub shared: Option<u32>,
    /// Bytes of stack that a thread needs, if the declaration states the number.
    pub stack: Option<u32>,
    /// Stack frames in the image that the driver doesn't report.
    pub frames: StackFrames,
    /// Services of the driver that the kernel uses, such as printf, as found in its image.
    pub needs: Needs,
    /// The file that holds the kernel's code, if there is one.
    pub image: Option<ImageRecord<'a>>,
    /// The copy of kernel-registry that registered the kernel: [`LibraryRecord::copy`].
    pub copy: u64,
}

/// Stack frames that the driver's `LOCAL_SIZE_BYTES` omits.
///
/// The driver counts the frames of a kernel and of all functions that it calls, with two exceptions. It omits
/// the stack of recursive calls, because that has no bound. And it omits the stack of kernels that a kernel
/// launches, which may be any in its image.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct StackFrames {
    /// The least stack in bytes of a kernel with recursive calls: the frames of one pass through its calls.
    /// Such a stack has no known bound. `None` if no call is recursive.
    pub recursive: Option<u32>,
    /// The largest frame in the image in bytes, if the kernel launches kernels.
    pub launched: Option<u32>,
}

impl StackFrames {
    /// The value for a kernel whose whole stack the driver reports.
    pub const KNOWN: StackFrames = StackFrames { recursive: None, launched: None };
}

/// The file that holds a kernel's code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImageRecord<'a> {
    /// Path of the image or of its source, relative to the package that declares the kernel.
    pub file: &'a str,
    /// The length of the image in bytes; 0 if the crate was compiled without the image.
    pub len: u64,
    /// The image's variants, separated by commas: `sm_90` is machine code, `compute_75` is PTX.
    pub variants: &'a str,
    /// Whether the image is PTX whose kernels share no variables, so that each kernel can be compiled
    /// separately.
    pub separable: bool,
}

impl ImageRecord<'_> {
    /// Returns whether the crate was compiled with this image.
    pub const fn is_there(&self) -> bool {
        self.len > 0
    }
}

/// Services of the driver that a kernel uses.
///
/// A service counts if any function that the kernel can call uses it, whether or not a launch calls that
/// function. A kernel that calls through pointers can call every function whose address is taken in the
/// image.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Needs {
    /// The kernel calls `printf`, for which the driver keeps a buffer.
    pub printf: bool,
    /// The kernel contains `assert`.
    pub assert: bool,
    /// The kernel calls `malloc`, `free`, `new` or `delete`, for which the driver keeps a heap.
    pub heap: bool,
    /// The kernel launches kernels (dynamic parallelism).
    pub device_launch: bool,
    /// Part of the image could not be read, so the kernel may need any service.
    pub unknown: bool,
}

impl Needs {
    /// The needs of a kernel that doesn't use any service.
    pub const NONE: Needs =
        Needs { printf: false, assert: false, heap: false, device_launch: false, unknown: false };

    /// The needs of an unknown kernel, which may use any service.
    pub const UNKNOWN: Needs = Needs { unknown: true, ..Needs::NONE };

    /// Returns the union of two sets of needs.
    #[must_use]
    pub const fn and(self, other: Needs) -> Needs {
        Needs {
            printf: self.printf || other.printf,
            assert: self.assert || other.assert,
            heap: self.heap || other.heap,
            device_launch: self.device_launch || other.device_launch,
            unknown: self.unknown || other.unknown,
        }
    }

    /// Returns each need in one or two words, such as `device launch`.
    pub fn words(self) -> impl Iterator<Item = &'static str> {
        let Needs { printf, assert, heap, device_launch, unknown } = self;
        let all = [
            (printf, "printf"),
            (assert, "assert"),
            (heap, "heap"),
            (device_launch, "device launch"),
            (unknown, "unknown"),
        ];
        all.into_iter().filter(|(needed, _)| *needed).map(|(_, word)| word)
    }

    pub(crate) const fn bits(self) -> u8 {
        self.printf as u8
            | (self.assert as u8) << 1
            | (self.heap as u8) << 2
            | (self.device_launch as u8) << 3
            | (self.unknown as u8) << 4
    }

    pub(crate) const fn from_bits(bits: u8) -> Self {
        Needs {
            printf: bits & 1 != 0,
            assert: bits & 2 != 0,
            heap: bits & 4 != 0,
            device_launch: bits & 8 != 0,
            // Bits from 16 up are needs that only newer versions know.
            unknown: bits >= 16,
        }
    }
}

/// The copy of kernel-registry that a binary contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LibraryRecord<'a> {
    /// The version of kernel-registry.
    pub version: &'a str,
    /// The compiler that built the copy, such as `rustc 1.95.0`.
    pub compiler: &'a str,
    /// A number that identifies this copy in a program with several copies: of two versions, or of one
    /// version from two sources.
    pub copy: u64,
}

impl<'a> KernelRecord<'a> {
    /// An empty record, for `..KernelRecord::EMPTY` in struct expressions.
    pub const EMPTY: KernelRecord<'static> = KernelRecord {
        path: "",
        symbol: "",
        package: "",
        version: "",
        file: "",
        line: 0,
        column: 0,
        summary: "",
        params: Params::new(&[]),
        source_names: "",
        min_arch: None,
        block: None,
        shared: None,
        stack: None,
        frames: StackFrames::KNOWN,
        needs: Needs::NONE,
        image: None,
        copy: 0,
    };

    /// Returns the last part of the path, which is the declared name. The name of an instance of a generic
    /// kernel contains the generic arguments: `reduce::<f32, 256>`.
    pub fn name(&self) -> &'a str {
        // C++ has no `::` before the arguments of a template.
        let generic = self.path.find("::<").or_else(|| self.path.find('<')).unwrap_or(self.path.len());
        let start = self.path[..generic].rfind("::").map_or(0, |at| at + 2);
        &self.path[start..]
    }

    /// Returns the declaration as one line of text: `saxpy(n: u32, x: &[f32])`.
    pub fn signature(&self) -> Signature<'a> {
        Signature { name: self.name(), params: self.params }
    }
}

/// A kernel's declaration, written by `Display` as one line. [`KernelRecord::signature`] returns it.
#[derive(Clone, Copy, Debug)]
pub struct Signature<'a> {
    name: &'a str,
    params: Params<'a>,
}

impl fmt::Display for Signature<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}(", self.name)?;
        for (index, Param { name, ty, .. }) in self.params.iter().enumerate() {
            let comma = if index == 0 { "" } else { ", " };
            write!(f, "{comma}{name}: {ty}")?;
        }
        f.write_str(")")
    }
}
