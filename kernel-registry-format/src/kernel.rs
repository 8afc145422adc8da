//! What is recorded of a kernel, and of the library that registered it.

use core::fmt;

use crate::{Param, Params};

/// One registered kernel, as it was declared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kernel<'a> {
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
    /// Threads in a block, if the declaration fixes them.
    pub block: Option<[u32; 3]>,
    /// Bytes of dynamic shared memory, if the declaration fixes them.
    pub shared: Option<u32>,
    /// The image that holds the machine code, if it was there when the crate was compiled.
    pub image: Option<Image<'a>>,
}

/// The file that holds a kernel's code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Image<'a> {
    /// Path of the image, relative to the package that declares the kernel.
    pub file: &'a str,
    /// Its length in bytes.
    pub len: u64,
}

/// The copy of kernel-registry that a binary contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Library<'a> {
    /// Its version.
    pub version: &'a str,
    /// The compiler that built it, such as `rustc 1.95.0`.
    pub compiler: &'a str,
}

impl<'a> Kernel<'a> {
    /// A kernel of which nothing is known, to complete a struct expression with.
    pub const EMPTY: Kernel<'static> = Kernel {
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
        image: None,
    };

    /// The last part of the path: the name that the kernel was declared under.
    pub fn name(&self) -> &'a str {
        self.path.rsplit("::").next().unwrap_or(self.path)
    }

    /// The declaration in one line, for people: `saxpy(n: u32, x: &[f32])`.
    pub fn signature(&self) -> Signature<'a> {
        Signature { name: self.name(), params: self.params }
    }
}

/// Prints a kernel as it was declared. Made by [`Kernel::signature`].
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
