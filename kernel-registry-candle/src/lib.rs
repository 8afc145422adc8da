//! Loads the CUDA kernels of [candle](https://docs.rs/candle-core) 0.11 before the first request.
//!
//! candle brings eleven modules of PTX, 11 MB in all. The driver compiles each at its first use, in one thread, and meanwhile a request
//! waits. [`warm_all`] makes them modules of kernel-registry: they are compiled on all cores, or taken from
//! [baked code](kernel_registry::Warmup::baked), and are loaded, counted and reported like declared kernels. candle itself stays as it
//! is. It loads its modules as always, and gets those that are warm ([`RuntimeImage::adopt`](kernel_registry::RuntimeImage::adopt)).
//!
//! ```no_run
//! use candle_core::Device;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let device = Device::new_cuda(0)?;
//! let report = kernel_registry_candle::warm_all(&device)?;
//! println!("{report}");
//! # Ok(())
//! # }
//! ```
//!
//! [`Warmup`] has options: which kernels, and a forward pass that makes cuBLAS ready, too.
//!
//! This works on Linux, and for the version of candle that this crate depends on.

mod dtype;
mod error;
mod modules;
mod report;
mod warmup;

pub use error::Error;
pub use kernel_registry;
pub use report::Report;
pub use warmup::{OnCuda, Warmup};

/// Makes all kernels of candle, and all other registered kernels, ready on a device. Call it before anything is computed there.
///
/// # Errors
///
/// The device is no CUDA device, or a kernel could not be made ready.
pub fn warm_all(device: &impl OnCuda) -> Result<Report, Error> {
    Warmup::new().warm(device)
}
