//! The contents of a record: a kernel, or the library that registered kernels.

use core::fmt;

use crate::{Param, Params};

/// One registered kernel, as it was declared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelRecord<'a> {
    /// Path of the Rust type that names the kernel, such as `kernels::blas1::saxpy`.
    pub path: &'a str,
    /// Name of the entry in the image, mangled if the image has it mangled.
    pub symbol: &'a str,
    /// The cargo package that declares it.
    pub package: &'a str,
    /// The version of that package.
    pub version: &'a str,
    /// The source file of the declaration, as the compiler names it.
    pub file: &'a str,
    /// The line of the declaration, counted from 1.
    pub line: u32,
    /// The column of the declaration, counted from 1.
    pub column: u32,
    /// The first line of the kernel's documentation, or nothing.
    pub summary: &'a str,
    /// Parameters, in the order in which the kernel takes them.
    pub params: Params<'a>,
    /// The least compute capability that the kernel asks for: 80 for `arch = ">=80"`.
    pub min_arch: Option<u32>,
    /// Threads in a block, if the declaration fixes them, or the kernel was compiled for this block only.
    pub block: Option<[u32; 3]>,
    /// Bytes of dynamic shared memory, if the declaration fixes them.
    pub shared: Option<u32>,
    /// Bytes of stack that a thread needs, if the declaration says so.
    pub stack: Option<u32>,
    /// Stack frames that its image shows and the driver does not report.
    pub frames: StackFrames,
    /// Services of the driver that it uses, such as printf, as far as its image shows.
    pub needs: Needs,
    /// The file that holds its code.
    pub image: Option<ImageRecord<'a>>,
    /// The copy of kernel-registry that registered it: [`LibraryRecord::copy`].
    pub copy: u64,
}

/// Stack frames that the driver's `LOCAL_SIZE_BYTES` leaves out.
///
/// The driver counts the frames of a kernel and of all functions that it calls, with two exceptions: the stack of
/// recursive calls has no bound, and a kernel that launches others needs a stack for any kernel of its image.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct StackFrames {
    /// The kernel's calls are recursive, so that its stack has no known bound. This is the least that it needs in bytes:
    /// the frames of one pass through its calls.
    pub recursive: Option<u32>,
    /// The kernel launches kernels: the largest frame in its image in bytes.
    pub launched: Option<u32>,
}

impl StackFrames {
    /// The driver reports the kernel's whole stack.
    pub const KNOWN: StackFrames = StackFrames { recursive: None, launched: None };
}

/// The file that holds a kernel's code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImageRecord<'a> {
    /// Path of the image or of its source, relative to the package that declares the kernel.
    pub file: &'a str,
    /// The length of the image in bytes; 0 if the crate was compiled without it.
    pub len: u64,
    /// Its variants, separated by commas: `sm_90` is machine code, `compute_75` is PTX.
    pub variants: &'a str,
    /// It is PTX text, and its kernels share nothing: each can be compiled without the others.
    pub separable: bool,
}

impl ImageRecord<'_> {
    /// Whether the crate was compiled with it.
    pub const fn is_there(&self) -> bool {
        self.len > 0
    }
}

/// Services of the driver that a kernel uses.
///
/// These are found in all functions that the kernel can call, whether or not a launch calls them. If a kernel calls
/// through pointers, these functions include all whose address is taken in the image.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Needs {
    /// It calls `printf`: the driver keeps a buffer for that.
    pub printf: bool,
    /// It contains `assert`.
    pub assert: bool,
    /// It calls `malloc`, `free`, `new` or `delete`: the driver keeps a heap for that.
    pub heap: bool,
    /// It launches kernels itself (dynamic parallelism).
    pub device_launch: bool,
    /// Part of its image could not be read, so that it may need anything.
    pub unknown: bool,
}

impl Needs {
    /// The kernel needs none.
    pub const NONE: Needs =
        Needs { printf: false, assert: false, heap: false, device_launch: false, unknown: false };

    /// Nothing is known of the kernel, so that it may need anything.
    pub const UNKNOWN: Needs = Needs { unknown: true, ..Needs::NONE };

    /// The needs of both.
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

    /// Each need in a word or two.
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
            // A bit that this version does not know is a need that it does not know.
            unknown: bits >= 16,
        }
    }
}

/// The copy of kernel-registry that a binary contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LibraryRecord<'a> {
    /// Its version.
    pub version: &'a str,
    /// The compiler that built it, such as `rustc 1.95.0`.
    pub compiler: &'a str,
    /// Identifies this copy in a program that contains several: of two versions, or of one version from two sources.
    pub copy: u64,
}

impl<'a> KernelRecord<'a> {
    /// An empty record, to complete a struct expression with.
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
        min_arch: None,
        block: None,
        shared: None,
        stack: None,
        frames: StackFrames::KNOWN,
        needs: Needs::NONE,
        image: None,
        copy: 0,
    };

    /// The last part of the path: the name that the kernel was declared under, for an instance of a generic
    /// kernel with its arguments.
    pub fn name(&self) -> &'a str {
        // C++ has no `::` before the arguments of a template.
        let generic = self.path.find("::<").or_else(|| self.path.find('<')).unwrap_or(self.path.len());
        let start = self.path[..generic].rfind("::").map_or(0, |at| at + 2);
        &self.path[start..]
    }

    /// The declaration in one line, for people: `saxpy(n: u32, x: &[f32])`.
    pub fn signature(&self) -> Signature<'a> {
        Signature { name: self.name(), params: self.params }
    }
}

/// Prints a kernel as it was declared. Made by [`KernelRecord::signature`].
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
