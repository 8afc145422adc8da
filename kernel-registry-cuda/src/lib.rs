//! Facts about CUDA that are independent of its user: data and arithmetic, without a driver. Any tool can
//! depend on this crate.
//!
//! | module | fact |
//! |---|---|
//! | [`rules`] | which driver calls wait for running kernels |
//! | [`OnWait`], [`stream_mark`] | sections, during which a resident kernel runs: how to treat calls that would wait, and a mark for streams |
//! | [`fit`] | what the multiprocessors of each architecture have room for |
//! | [`sticky`] | errors of the driver after which the process can no longer use CUDA |
//! | [`Target`] | architectures, and on which devices code for one runs |
//! | [`CudaVersion`] | the PTX that came with each version of CUDA |
//! | [`fatbin`] | reading the headers of fatbins, and writing fatbins |
//! | [`ptx`] | where the kernels of a PTX module are in its text |
//! | [`prime`] | images with kernels that prime a context: their launch makes the driver set up printf, assert and malloc |
//! | [`device_header`] | the CUDA C++ header for resident kernels |
//! | [`SharedObject`] | an interposer: a library loaded in front of another one, such as the driver's `libcuda.so.1` |

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod device_header;
pub mod fatbin;
pub mod fit;
pub mod prime;
pub mod ptx;
pub mod rules;
mod sections;
mod shared_object;
pub mod sticky;
mod target;
mod version;

pub use sections::{OnWait, stream_mark};
pub use shared_object::SharedObject;
pub use target::{InvalidTarget, Portability, Target};
pub use version::CudaVersion;
