//! Reads CUDA kernel images: turns the bytes of PTX, a cubin or a fatbin into facts about their kernels.
//!
//! [`read`] returns an [`Image`] with its variants: machine code for one architecture, or PTX for many. Each
//! kernel in a variant has its symbol, its C++ [`Signature`], the layout of its parameters, the limits of a
//! launch, the resources that it takes, and its [needs](Needs), such as printf. No compiler, driver or GPU is
//! used.
//!
//! Images needn't be trusted. Reading never panics, whatever the bytes, and takes time and memory in
//! proportion to their size, or to their size after decompression, which is bounded by [`MAX_PLAIN_SIZE`].
//!
//! ```
//! use kernel_registry_image::{CudaType, Scalar, read};
//!
//! let ptx = "
//!     .version 8.0
//!     .target sm_75
//!     .address_size 64
//!     .visible .entry _Z5sscaljfPf(.param .u32 n, .param .f32 a, .param .u64 x)
//!     .maxntid 256
//!     { ret; }";
//! let image = read(ptx.as_bytes())?;
//! let variant = &image.variants[0];
//! assert!(variant.runs_on((9, 0)));
//!
//! let kernel = &variant.entries[0];
//! let signature = kernel.signature.as_ref().unwrap();
//! assert_eq!(signature.to_string(), "sscal(unsigned int, float, float*)");
//! assert_eq!(signature.params[1], CudaType::Scalar(Scalar::Float));
//! assert_eq!(kernel.params[2].offset, 8);
//! assert_eq!(kernel.limits.max_threads, Some(256));
//! # Ok::<(), kernel_registry_image::Error>(())
//! ```

#![forbid(unsafe_code)]

mod bytes;
pub mod comparison;
mod cubin;
mod cuda_type;
#[cfg(feature = "dump")]
pub mod dump;
mod elf;
pub mod embedded;
mod entry;
mod error;
mod fatbin;
mod find;
mod image;
pub mod linked;
mod names;
mod near;
mod needs;
mod partial;
mod ptx;
mod read;
mod signature;
pub mod source;
mod stable;
mod stack;
mod unpack;
mod variant;

pub use cuda_type::CudaType;
pub use entry::{Entry, Limits, ParamLayout, Resources};
pub use error::Error;
pub use fatbin::{newest_variant, ptx_of_entry, ptx_of_fatbin};
pub use find::FindError;
pub use image::{Image, ImageKind, Unread};
pub use kernel_registry_cuda::{InvalidTarget, Portability, Target};
pub use kernel_registry_format::{Needs, Scalar, StackFrames};
pub use near::near;
pub use partial::Partial;
pub use read::read;
pub use signature::{Signature, readable};
pub use stable::stable_symbol;
pub use unpack::MAX_PLAIN_SIZE;
pub use variant::{Variant, VariantKind};
