//! Defines the facts about one kernel.

use kernel_registry_format::{Needs, StackFrames};

use crate::source::PlacedField;
use crate::{CudaType, Scalar, Signature};

/// One kernel of a variant.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Entry {
    /// The kernel's name as the driver knows it, mangled if the kernel is a C++ function.
    pub symbol: String,
    /// The signature in the mangled name. `None` for `extern "C"` kernels, whose names have none.
    pub signature: Option<Signature>,
    /// The kernel's parameters, in their order.
    pub params: Vec<ParamLayout>,
    /// The types of an `extern "C"` kernel's parameters, if a source has them: see
    /// [`Image::add_c_signatures`](crate::Image::add_c_signatures). Otherwise empty.
    pub c_params: Vec<Option<CudaType>>,
    /// The names of the kernel's parameters, if a source has them: see
    /// [`Image::add_param_names`](crate::Image::add_param_names). Otherwise empty.
    pub param_names: Vec<String>,
    /// The limits of its launches.
    pub limits: Limits,
    /// The resources that it takes. `None` for PTX, which the driver still has to compile.
    pub resources: Option<Resources>,
    /// Services of the driver that it uses.
    pub needs: Needs,
    /// Stack frames that the driver doesn't report. For PTX, which the driver still has to compile, an
    /// estimate from its variables.
    pub frames: StackFrames,
    /// Bytes of its machine code, including the functions that were copied for it, or of its PTX.
    pub code_size: u32,
    /// Whether its PTX comes from LLVM's NVPTX back end, as used by rustc, rather than from nvcc. Such a
    /// kernel may take a slice's length as an argument.
    pub(crate) is_of_llvm: bool,
    /// Whether the signature has the types of the parameters.
    is_typed: bool,
}

impl Entry {
    pub(crate) fn new(symbol: &str) -> Self {
        let signature = Signature::parse_once(symbol);
        let is_typed = signature.as_ref().is_some_and(|signature| signature.params.is_empty());
        Entry { symbol: symbol.to_owned(), is_typed, signature, ..Entry::default() }
    }

    /// Returns the C++ name if there is one (`reduce<float, 128u>`), otherwise the symbol.
    pub fn name(&self) -> &str {
        self.signature.as_ref().map_or(&self.symbol, |signature| &signature.name)
    }

    /// Returns the signature, if its types match the image's parameters in number and sizes. They don't in
    /// numba's kernels, where an array in the signature is several parameters in the image.
    pub fn typed_signature(&self) -> Option<&Signature> {
        self.signature.as_ref().filter(|_| self.is_typed)
    }

    /// Returns the type of a parameter, from the mangled name or the source. The mangled name counts only if
    /// all of its types fit the image's parameters, because nothing else links the two.
    pub fn cuda_type(&self, index: usize) -> Option<&CudaType> {
        match self.typed_signature() {
            Some(signature) => signature.params.get(index),
            None => self.c_params.get(index)?.as_ref(),
        }
    }

    pub(crate) fn set_params(&mut self, params: Vec<ParamLayout>) {
        let fits = |types: &[CudaType]| {
            types.len() == params.len() && types.iter().zip(&params).all(|(ty, param)| param.fits(ty))
        };
        self.is_typed = self.signature.as_ref().is_some_and(|signature| fits(&signature.params));
        self.params = params;
    }

    /// Returns whether the types of parameters are known, as in PTX. Machine code only has sizes.
    pub fn tells_types(&self) -> bool {
        self.params.iter().any(|param| param.ptx_type.is_some())
    }

    /// Returns the bytes of all parameters together, with the gaps between them.
    pub fn params_size(&self) -> u32 {
        self.params.iter().map(|param| param.offset.saturating_add(param.size)).max().unwrap_or(0)
    }
}

/// The position of a parameter among the arguments of a launch, with its size and type.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct ParamLayout {
    /// Bytes from the first parameter to this parameter. In machine code the offset depends on the
    /// architecture if this or an earlier parameter is aligned to more than 16 bytes: machine code aligns the
    /// address, not the offset.
    pub offset: u32,
    /// The parameter's size in bytes.
    pub size: u32,
    /// The parameter's alignment. Cubins don't have it.
    pub align: Option<u32>,
    /// The parameter's type in PTX: `u64`, `f32`, or `b8[24]` for a structure. Cubins don't have it.
    pub ptx_type: Option<String>,
    /// The alignment of the pointee, if PTX promises one (`.ptr .global .align 16`).
    pub pointee_align: Option<u32>,
    /// The parameter's fields, if a source spells out the struct: see
    /// [`Image::add_structs`](crate::Image::add_structs). Otherwise empty.
    pub fields: Vec<PlacedField>,
}

impl ParamLayout {
    /// Returns whether the parameter can have this type. Size and kind (integer or floating point) must agree
    /// if both are known.
    pub fn fits(&self, ty: &CudaType) -> bool {
        let is_float = match ty {
            CudaType::Scalar(scalar) => Some(matches!(scalar, Scalar::Float | Scalar::Double)),
            CudaType::Pointer { .. } => Some(false),
            _ => None,
        };
        ty.size().is_none_or(|size| size == self.size)
            && is_float.zip(self.is_float()).is_none_or(|(here, there)| here == there)
    }

    /// Returns whether the parameter is floating point, if PTX shows that. PTX has neither signs nor the
    /// types of pointees, and shows nothing about types such as `.b32` and `.b8[16]`.
    pub(crate) fn is_float(&self) -> Option<bool> {
        match self.ptx_type.as_deref()? {
            "f32" | "f64" => Some(true),
            "u8" | "u16" | "u32" | "u64" | "s8" | "s16" | "s32" | "s64" => Some(false),
            _ => None,
        }
    }
}

/// The limits of a kernel's launches.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Limits {
    /// The most threads of a block: the product of the dimensions of `.maxntid` or `.reqntid`.
    pub max_threads: Option<u32>,
    /// The block that it must be launched with: `.reqntid`.
    pub required_threads: Option<[u32; 3]>,
    /// Blocks that the compiler was asked to fit on a multiprocessor. Cubins don't have it.
    pub min_blocks: Option<u32>,
    /// Blocks of a cluster: `.reqnctapercluster`.
    pub cluster: Option<[u32; 3]>,
    /// The most blocks of a cluster: `.maxclusterrank`.
    pub max_cluster: Option<u32>,
}

/// Returns the threads of a block.
pub(crate) fn threads(block: [u32; 3]) -> u32 {
    block.into_iter().fold(1, u32::saturating_mul)
}

/// The resources that a kernel occupies on the device for which the kernel was compiled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Resources {
    /// Registers of a thread.
    pub registers: u32,
    /// Shared memory of a block that its own variables take, as `ptxas -v` counts it.
    pub static_shared: u32,
    /// Shared memory that CUDA reserves in a block: 1024 bytes, or none if the kernel uses no shared memory.
    /// From sm_90 on, the size of the kernel's ELF section `.nv.shared` includes it.
    pub reserved_shared: u32,
    /// Constant memory of the kernel, which holds its parameters and what CUDA puts in front of them:
    /// `cmem[0]` of `ptxas -v`.
    pub constants: u32,
    /// Local memory of a thread for the frame of the kernel itself, and of functions that the
    /// compiler has copied into its code: spills and arrays.
    pub local_frame: u32,
    /// Local memory of a thread for the frames of the kernel and of everything it calls. `None` if its calls
    /// can be recursive, so that nothing bounds it: see [`StackFrames::recursive`].
    pub stack: Option<u32>,
}
