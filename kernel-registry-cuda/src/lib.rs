//! What is true of CUDA, whoever uses it: data and arithmetic, without a driver. Any tool may depend on it.
//!
//! | module | fact |
//! |---|---|
//! | [`rules`] | which driver calls wait for running kernels |
//! | [`OnWait`], [`stream_mark`] | sections: what to do with a call that would wait for a resident kernel, and a mark to recognise a section's streams |
//! | [`fit`] | what the multiprocessors of each architecture have room for |
//! | [`sticky`] | errors of the driver that end CUDA for the process |
//! | [`CudaVersion`] | the PTX that came with each version of CUDA |
//! | [`fatbin`] | fatbins: their headers, and a writer |
//! | [`ptx`] | where the kernels of a PTX module are in its text |
//! | [`prime`] | images whose kernels prime a context |
//! | [`device_header`] | the header for resident kernels |
//! | [`shared_object`] | a library that stands in for the driver's |

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
mod version;

pub use sections::{OnWait, stream_mark};
pub use shared_object::shared_object;
pub use version::CudaVersion;
