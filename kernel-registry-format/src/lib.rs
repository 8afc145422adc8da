//! Models, writers and readers of the record that each kernel leaves in the binary, the index of images that
//! the build step leaves, and files of baked code. This crate has no dependencies, so any tool that reads
//! binaries can depend on it.
//!
//! | module | contents |
//! |---|---|
//! | (crate root) | the record |
//! | [`section`] | the link section that holds the records |
//! | [`index`] | the build step's index: the image of each CUDA source |
//! | [`baked`] | files of machine code that was compiled ahead of time |
//! | [`Scalar`], [`RustType`] | number types of C++ and of Rust, and which Rust types match which C++ types |
//! | [`Printable`], [`is_control`] | text of unknown origin, made safe for a terminal |
//!
//! # Records
//!
//! `#[gpu_kernel]` describes a kernel as a [`KernelRecord`]. The macro encodes a part of the record while it
//! expands ([`fixed_fields`]); the code that it expands to encodes the rest at compile time ([`encode`]). The
//! bytes go into a separate link section ([`section`]). [`Records`] reads that section back, from a file on
//! disk or from the running program. Writer and reader share one model, so they can't drift apart.
//!
//! The bytes hold no pointers: a `&str` in a link section is a relocation, and reads as zero in a file that
//! lld has written. Records have alignment 1 and state their own length, so a linker may put them in any
//! order, with zeros between them as padding.
//!
//! ```
//! use kernel_registry_format::{KernelRecord, Param, Params, Pass, Record, Records, write_kernel};
//!
//! const KERNEL: KernelRecord<'static> = KernelRecord {
//!     path: "demo::saxpy",
//!     symbol: "saxpy",
//!     package: "demo",
//!     version: "0.1.0",
//!     file: "src/lib.rs",
//!     line: 7,
//!     column: 15,
//!     params: Params::new(&[
//!         Param::new("n", "u32", Pass::Value, 4, 4),
//!         Param::new("x", "&[f32]", Pass::Slice, 4, 4),
//!     ]),
//!     ..KernelRecord::EMPTY
//! };
//! let mut section = Vec::new();
//! write_kernel(&KERNEL, &mut section);
//!
//! let Some(Ok(Record::Kernel(read))) = Records::new(&section).next() else { panic!() };
//! assert_eq!(read, KERNEL);
//! assert_eq!(read.signature().to_string(), "saxpy(n: u32, x: &[f32])");
//! ```

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod baked;
mod fields;
pub mod index;
mod kernel;
mod layout;
mod param;
mod printable;
mod read;
mod scalar;
pub mod section;
mod write;

pub use fields::Problem;
pub use kernel::{ImageRecord, KernelRecord, LibraryRecord, Needs, Signature, StackFrames};
pub use layout::{HEADER_LEN, MAGIC, NOT_FIXED, VERSION};
pub use param::{Direction, Param, Params, ParamsIter, Pass, SliceLength};
pub use printable::{Printable, is_control};
pub use read::{Frame, Frames, Malformed, Record, Records};
pub use scalar::{RustType, Scalar, same_layout};
pub use write::{Encoded, encode, encode_library, encoded_library_len, fixed_fields, write_kernel};
