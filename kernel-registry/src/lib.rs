//! CUDA kernels that are known at compile time.
//!
//! # Declare kernels
//!
//! A declaration without a body, in any crate, names a kernel; [`gpu_kernel`] registers it:
//!
//! ```
//! # mod demo {
//! use kernel_registry::gpu_kernel;
//!
//! /// y = a*x + y
//! #[gpu_kernel(image = "tests/images/saxpy.ptx", block = 256)]
//! pub unsafe fn saxpy(n: u32, a: f32, x: &[f32], y: &mut [f32]);
//! # }
//! # use demo::saxpy;
//! assert_eq!(saxpy::INFO.signature().to_string(), "saxpy(n: u32, a: f32, x: &[f32], y: &mut [f32])");
//! ```
//!
//! # Ask for them
//!
//! [`kernels`] lists every kernel of every crate in the program, [`find`] looks one up:
//!
//! ```
//! # fn main() -> Result<(), kernel_registry::Error> {
//! for kernel in kernel_registry::kernels()? {
//!     println!("{} at {}", kernel.signature(), kernel.location());
//! }
//! # Ok(())
//! # }
//! ```
//!
//! `cargo kernels list` shows the same for a binary on disk, without running it.
//!
//! # Make them ready
//!
//! The driver loads a kernel when it is first launched, and then waits for everything that runs on the device; beside
//! a kernel that never ends it waits for ever. One line makes all kernels ready before, in a context of cudarc's, and
//! returns a receipt with a report:
//!
//! ```no_run
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let context = kernel_registry::context(0)?;
//! let warm = kernel_registry::warm_all(&context)?;
//! println!("{}", warm.report());
//! # Ok(())
//! # }
//! ```
//!
//! [`Warmup`] has choices. The feature `serde` makes the report data, `tracing` tells that crate of each stage,
//! `indicatif` has `Warmup::progress_bar`.
//!
//! # Launch them
//!
//! [`launch_dyn`] launches a kernel of which the compiler knows nothing, [`Prepared`] checks a launch once for many,
//! and [`launch_raw`] is what both end in. A launch beyond what the kernel or the device allows is an error with the
//! numbers. [`KernelInfo::cu_function`] hands out the driver's handle.
//!
//! # Keep them
//!
//! The compiler links a dependency only if the program names it. A crate that is there for its
//! kernels alone is named with [`link_kernels!`].

#[doc(hidden)]
pub mod __private;
pub mod arguments;
#[macro_use]
mod readable;
mod copies;
mod driver;
mod error;
mod hook;
mod info;
mod launch;
mod param;
mod records;
mod registration;
mod registry;
mod table;
mod warm;

pub use copies::OtherCopy;
/// The cudarc that contexts, streams and slices are of.
pub use cudarc;
pub use driver::{DriverError, NoDriver, Version, context, contexts};
pub use error::{Error, Place};
pub use hook::{PreloadError, WarmContext};
pub use info::{Image, Kernel, KernelInfo};
pub use kernel_registry_format::{Direction, Needs, Param, Params, Pass};
pub use launch::{Axes, Configure, DynArg, LaunchConfig, LaunchError, Prepared, launch_dyn, launch_raw};
pub use param::{KernelParam, RustType};
pub use registry::{Duplicate, duplicates, find, kernels};
pub use warm::{
    Cause, Failure, HookReport, KernelReport, Late, LateLoad, Progress, Report, SetLimit, Stage, Stale,
    Unavailable, Warm, WarmError, Warmup, warm_all,
};

pub use kernel_registry_macros::KernelParam;

/// Registers a kernel, or every kernel of a module.
///
/// # On a declaration
///
/// The function has no body and is `unsafe`; its code is in a compiled image. A type of the same
/// name takes its place, whose `INFO` is the kernel's [`KernelInfo`]:
///
/// ```
/// # mod demo {
/// # use kernel_registry::gpu_kernel;
/// /// y = a*x + y
/// #[gpu_kernel(image = "tests/images/saxpy.ptx", arch = ">=70", block = 256)]
/// pub unsafe fn saxpy(n: u32, a: f32, x: &[f32], y: &mut [f32]);
/// # }
/// # use demo::saxpy;
/// assert_eq!(saxpy::INFO.block(), Some([256, 1, 1]));
/// ```
///
/// Parameters mirror those of the kernel. Numbers and other [`KernelParam`] types are passed by
/// value; `*const T` and `*mut T` are device pointers; `&[T]` and `&mut [T]` are device memory that
/// the kernel reads or writes.
///
/// The declaration is compared with the image at compile time. The kernel has to be there: under the name of the
/// function, which for C++ kernels is the name without namespaces, or under what `name` says. It has to
/// take as many parameters, of the same types; where its name does not tell them (`extern "C"`, structs), of the same
/// sizes. And a block written in numbers has to fit `__launch_bounds__`:
///
/// ```compile_fail
/// # use kernel_registry::gpu_kernel;
/// // error: `saxpy` of `tests/images/saxpy.ptx` takes 4 parameters, and 3 are declared
/// #[gpu_kernel(image = "tests/images/saxpy.ptx")]
/// pub unsafe fn saxpy(n: u32, a: f32, x: &[f32]);
/// ```
///
/// # Arguments
///
/// | argument | says |
/// |---|---|
/// | `image = "x.ptx"` | the compiled image: PTX, cubin or fatbin; relative to the folder of Cargo.toml, or `$OUT_DIR/..` for what a build script made |
/// | `file = "cuda/x.cu"` | the CUDA source, which `kernel_registry_build::compile()` compiles in the build script |
/// | `instances(<f32, 128>, <f64, 128>)` | the instances of a generic kernel: see below |
/// | `name = "symbol"` | the kernel's name in the image, if it is not that of the function: its symbol, or in C++ such as `"reduce<float, 256u>"` |
/// | `arch = ">=80"` | the least compute capability that the kernel runs on |
/// | `block = 256`, `block = (32, 8, 1)` | threads in a block |
/// | `shared = 48 * 1024` | bytes of dynamic shared memory |
/// | `stack = 16 * 1024` | bytes of stack that a thread needs. Only a kernel with recursive calls wants it: nothing else knows how deep they go |
/// | `type = Saxpy` | the name of the generated type |
/// | `crate = path` | where kernel-registry is, if this crate knows it under another name |
///
/// Documentation, visibility, `#[cfg]` and lint attributes pass through.
///
/// # On a generic declaration
///
/// A C++ template is declared as a generic function, with the instances that the CUDA source contains:
///
/// ```
/// # mod demo {
/// # use kernel_registry::gpu_kernel;
/// /// The sum of each block.
/// #[gpu_kernel(
///     image = "tests/images/reduce.ptx",
///     instances(<f32, 128>, <f64, 256>),
///     block = BLOCK
/// )]
/// pub unsafe fn reduce<T, const BLOCK: u32>(x: &[T], out: &mut [T], n: u32);
/// # }
/// # use demo::reduce;
/// assert_eq!(reduce::<f32, 128>::INFO.block(), Some([128, 1, 1]));
/// assert_eq!(reduce::<f64, 256>::INFO.signature().to_string(),
///     "reduce::<f64, 256>(x: &[f64], out: &mut [f64], n: u32)");
/// ```
///
/// Each is registered, listed and compared with its image like any kernel. Which C++ instance it is, its arguments
/// tell: numbers, and types with the same name in both languages. Where they do not, as for a constant instead of a number, its name
/// follows: `instances(<f32, { config::BLOCK }> = "reduce<float, 256u>")`. Code that is generic itself asks for
/// [`Kernel`], `where reduce<T, 128>: Kernel`, and can launch it then.
///
/// # On a module
///
/// Every function without a body is a kernel; other items are left as they are. The arguments hold
/// for all of them, and a declaration's own `#[gpu_kernel(..)]` adds to them or replaces them. The
/// module gets a constant `KERNELS`, which lists the kernels declared in it and in modules inside
/// it (those that a `macro_rules` macro makes there register themselves, but are not in that list), and a
/// function `warm_all`, which makes these kernels ready and no others:
///
/// ```
/// # mod demo {
/// # use kernel_registry::gpu_kernel;
/// #[gpu_kernel(image = "tests/images/saxpy.ptx", block = 256)]
/// pub mod blas1 {
///     /// y = a*x + y
///     pub unsafe fn saxpy(n: u32, a: f32, x: &[f32], y: &mut [f32]);
///
///     /// The same on vectors whose length is known to be even.
///     #[gpu_kernel(name = "saxpy", block = 128)]
///     pub unsafe fn saxpy_even(n: u32, a: f32, x: &[f32], y: &mut [f32]);
/// }
/// # }
/// # use demo::blas1;
/// const N: usize = blas1::KERNELS.len();
/// assert_eq!(N, 2);
/// ```
pub use kernel_registry_macros::gpu_kernel;

/// Runs a function whenever kernels are warmed, for what is no kernel of the registry: handles and first calls of cuBLAS, memory
/// pools, streams, kernels of others.
///
/// The function takes a [`WarmContext`], in whose context it runs, and returns nothing or a `Result<(), E>`:
///
/// ```
/// use kernel_registry::{WarmContext, warmup};
///
/// #[warmup]
/// fn memory_pool(warm: &WarmContext<'_>) -> Result<(), kernel_registry::cudarc::driver::DriverError> {
///     let stream = warm.context().new_stream()?;
///     let memory = stream.alloc_zeros::<u8>(1 << 20)?;
///     drop(memory);
///     stream.synchronize()
/// }
/// ```
///
/// It runs once in each context, by `warm_all` and by every [`Warmup`] that does not say `hooks(false)`, when all kernels are
/// warm: it may launch them. The printf buffer and the heap of kernels have their final sizes then, which
/// [`Warmup::printf_fifo`] and [`Warmup::heap`] set. `#[warmup(order = 10)]` runs it after those with a lower number; 0 is the default, and equal ones run in the order of
/// their paths. The report has its time. If it fails, that is in the error of the warm-up with its path, and it runs
/// again the next time. It cannot warm the context that it runs for, and has a time limit: [`Warmup::hook_timeout`].
pub use kernel_registry_macros::warmup;

/// Links a crate that is there for its kernels alone.
///
/// The compiler drops a dependency that the program never names, kernels and all, and nothing tells
/// the program. Naming it is enough:
///
/// ```
/// # mod some { pub mod kernels {} } use some::kernels;
/// kernel_registry::link_kernels!(kernels);
/// ```
///
/// It holds for each crate on its own: a crate whose dependency has kernels has to name that one.
#[macro_export]
macro_rules! link_kernels {
    ($($path:path),+ $(,)?) => {
        $(
            #[allow(unused_imports)]
            use $path as _;
        )+
    };
}
