//! CUDA kernels that are known at compile time, and ready before they are launched.
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
//! # List kernels
//!
//! [`kernels`] lists the kernels of every crate in the program, and [`find`] and [`find_symbol`] look one up:
//!
//! ```
//! # fn main() -> Result<(), kernel_registry::RegistryError> {
//! for kernel in kernel_registry::kernels()? {
//!     println!("{} at {}", kernel.signature(), kernel.location());
//! }
//! # Ok(())
//! # }
//! ```
//!
//! `cargo kernels list` shows the same for a binary on disk, without running it.
//!
//! # Warm kernels
//!
//! The driver loads a kernel when it is first launched, and then waits for everything that runs on the device. Beside a
//! kernel that never ends it waits for ever. [`warm_all`] makes all kernels ready in a context of cudarc, and returns a
//! receipt with a report:
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
//! [`Warmup`] has the options, [`macro@warmup`] functions prepare other libraries.
//!
//! # Launch kernels
//!
//! Each kernel's type has a `launch` with the parameters of its declaration: cudarc's slices and views for `&[T]` and
//! `&mut [T]`, the same or `None` for `Option<&[T]>` ([`SliceOrNull`]), a [`PointerTo<T>`] for `*const T`, values for everything else. `over` and `config` make its [`LaunchConfig`]:
//!
//! ```no_run
//! # mod demo {
//! # use kernel_registry::gpu_kernel;
//! # #[gpu_kernel(image = "tests/images/saxpy.ptx", block = 256)]
//! # pub unsafe fn saxpy(n: u32, a: f32, x: &[f32], y: &mut [f32]);
//! # }
//! # use demo::saxpy;
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let context = kernel_registry::context(0)?;
//! let stream = context.new_stream()?;
//! let x = stream.clone_htod(&[1.0_f32; 1000])?;
//! let mut y = stream.clone_htod(&[2.0_f32; 1000])?;
//! // SAFETY: both vectors have 1000 elements.
//! unsafe { saxpy::launch(&stream, saxpy::over(1000), 1000, 0.5, &x, &mut y)? };
//! # Ok(())
//! # }
//! ```
//!
//! A launch beyond the limits of the kernel or the device is an error with the numbers, before the driver sees it.
//! [`Prepared`] checks a launch once for many, [`launch_dyn`] launches a kernel that is known only at run time,
//! [`Prepared::launch`] takes unchecked arguments, and [`KernelInfo::cu_function`] returns the driver's handle.
//!
//! # The contract of a launch
//!
//! Every launch is `unsafe`: the `launch` of each kernel's type, [`launch_dyn`] and [`Prepared::launch`]. The first takes the arguments of
//! the declaration, the second compares their number, kinds and sizes, and the third compares nothing. The caller promises the rest:
//!
//! - **Arguments.** There are as many as the kernel has parameters, and each is, or points to, a value of the parameter's type.
//! - **Memory.** All that the kernel reaches through its arguments, also through addresses inside of them, is allocated, large enough and
//!   aligned, and can be accessed from the stream's device. What the kernel reads was written before.
//! - **Until when.** That holds until the kernel is done. Each replay of a graph makes its launches again: for them it holds until the
//!   last replay is done. cudarc frees a slice after the work of the streams that used it, but knows nothing of replays. Dropping a
//!   `Mapped`, a `Control` or a `Queue` waits for kernels of its context, but not for replays to come.
//! - **Nobody else.** Meanwhile nothing else writes what the kernel reads, or accesses what it writes: neither the host, nor another stream
//!   or device. Words that both sides access as a whole, as atomics do, are an exception.
//! - **What it writes** is valid as the type of the memory: in a slice or `Mapped` of `bool`, 0 or 1.
//! - **The declaration is right.** The kernel writes only through `&mut [T]`, `Option<&mut [T]>` and `*mut T`, and stays within the slices.
//!
//! # Resident kernels
//!
//! A resident kernel runs until it is told to end: a worker that takes tasks from a queue, for example. The crate kernel-registry-resident
//! checks, launches and guards it. While such a kernel runs, calls of this crate that would wait for it are the error [`WouldWait`].
//!
//! # Kernels that nvcc links
//!
//! C++ code that launches its kernels with `<<<>>>` needs no declarations: `kernel_registry_build::linked()` in the program's build
//! script makes the linker hand these kernels over, and then they are listed, found and warmed like all others
//! ([`KernelInfo::is_linked`]).
//!
//! # Link kernels
//!
//! The compiler links a dependency only if the program names it. [`link_kernels!`] names a crate that is there only for
//! its kernels.
//!
//! # All items, by task
//!
//! | task | items | errors |
//! |---|---|---|
//! | declare | [`gpu_kernel`], [`KernelParam`], [`types`], [`link_kernels!`]; for PTX made at run time `RuntimeImage` | `RuntimeImageError` |
//! | list and find | [`kernels`], [`find`], [`find_symbol`], [`duplicates`] with [`Duplicate`]; [`KernelInfo`], [`Kernel`], [`Image`] | [`RegistryError`] with [`Place`]; [`OtherCopy`] |
//! | what a record says of a kernel | [`Signature`], [`Params`], [`Param`], [`Pass`], [`SliceLength`], [`RustType`], [`Needs`] | |
//! | get a context | [`context()`], [`contexts()`], [`borrow_context`], [`CudaVersion`], [`cudarc`] | [`DriverUnavailable`], [`DriverCallError`] |
//! | warm | [`warm_all`], [`Warmup`], [`Warm`], [`Progress`] | [`WarmError`] with [`Failure`], [`Cause`] and [`FrozenLimit`]; [`RecheckError`] |
//! | read the report | [`Report`], [`KernelReport`], [`HookReport`], [`Stage`], [`Unavailable`] | |
//! | warm other libraries | [`macro@warmup`], [`WarmContext`] | [`LoadError`], [`HookFailure`], [`HookCause`] |
//! | refuse late loads | [`Late`], [`LateLoad`], [`Warm::seal`] | |
//! | launch | [`LaunchConfig`], [`Dim3`], [`Prepared`], [`launch_dyn`] with [`DynArg`] and [`Untyped`] | [`LaunchError`] with [`LaunchLimit`] |
//! | what a launch takes | [`Configure`], [`SliceOrNull`], [`SliceOrNullMut`], [`Nullable`], [`PointerTo`], [`PointerToMut`], [`DeviceAddress`] | |
//! | resident kernels, parts of a GPU | those of kernel-registry-resident | [`WouldWait`] |
//! | return from `main`, or a test | | [`MainError`] |
//!
//! Tests without a GPU are in another crate: `kernel_registry_sim::install()`, and then everything here works on a simulated
//! device. [`cudarc::driver::DriverError`] is cudarc's error; [`DriverCallError`] is that of this crate, and also names the call.
//!
//! # Features
//!
//! | feature | adds |
//! |---|---|
//! | `half` | `half::f16` and `half::bf16` as parameters, for `__half` and `__nv_bfloat16` |
//! | `linked` | names, parameters and needs of kernels that nvcc links, from their images |
//! | `runtime` | `RuntimeImage`: images that are compiled at run time |
//! | `serde` | [`Report`] as data |
//! | `tracing` | spans and events of each warm-up and late load |
//! | `indicatif` | `Warmup::progress_bar` |
//!
//! # cudarc
//!
//! Contexts, streams and slices are those of [cudarc](https://docs.rs/cudarc) 0.19, re-exported as [`cudarc`]. A new minor
//! version of cudarc is a new minor version of this crate before 1.0, and a major one after it. This crate names no
//! `cuda-version` feature of cudarc, because two crates of one program cannot name different ones: that is the application's choice.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod __private;
mod address;
mod borrow;
mod config;
mod contexts;
mod copies;
mod driver;
mod error;
mod hook;
mod info;
mod late;
mod launch;
mod linked;
mod lock;
#[cfg(any(feature = "linked", feature = "runtime"))]
mod made;
mod nullable;
mod param;
mod pass;
mod place;
mod records;
mod registry;
#[cfg(feature = "runtime")]
mod runtime;
mod sections;
mod table;
pub mod types;
mod warm;
mod watch;

/// What the macros of this version call. Those of another one do not find it.
#[doc(hidden)]
pub mod __private_0_1 {
    pub use crate::__private::*;
}

pub use address::{DeviceAddress, PointerTo, PointerToMut};
pub use borrow::borrow_context;
pub use config::{Dim3, LaunchConfig};
pub use contexts::{Late, LateLoad};
pub use copies::OtherCopy;
/// The version of cudarc in this crate's API.
pub use cudarc;
pub use driver::{CudaVersion, DriverCallError, DriverUnavailable, context, contexts};
pub use error::{MainError, RegistryError};
pub use hook::{LoadError, WarmContext};
pub use info::{Image, Kernel, KernelInfo};
pub use kernel_registry_format::{Needs, Param, Params, Pass, Signature, SliceLength};
pub use launch::{Configure, DynArg, LaunchError, LaunchLimit, Prepared, Untyped, launch_dyn};
pub use nullable::{Nullable, SliceOrNull, SliceOrNullMut};
pub use param::{KernelParam, RustType};
pub use place::Place;
pub use registry::{Duplicate, duplicates, find, find_symbol, kernels};
#[cfg(feature = "runtime")]
pub use runtime::{RuntimeImage, RuntimeImageError};
pub use sections::WouldWait;
pub use warm::{
    Cause, Failure, FrozenLimit, HookCause, HookFailure, HookReport, KernelReport, Progress, RecheckError,
    Report, Stage, Unavailable, Warm, WarmError, Warmup, warm_all,
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
/// the kernel reads or writes. The kernel gets the address of a slice, and also its length if a Rust compiler made the image with
/// LLVM: then it takes one parameter more for each slice, or slices of 16 bytes.
///
/// The declaration is compared with the image at compile time. The image has to contain a kernel of the function's name
/// (for C++ kernels without namespaces), or of the name in `name`. It has to take as many parameters, of the same types;
/// where its symbol does not contain them (`extern "C"`, structs), of the same sizes. The types of an `extern "C"` kernel are
/// compared too if `file` names its source and that spells them out. A block written in numbers has to fit
/// `__launch_bounds__`:
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
/// | `linked` | instead of these two: nvcc links the kernel into the program, where C++ launches it with `<<<>>>`; it is compared with the declaration when it is warmed |
/// | `instances(<f32, 128>, <f64, 128>)` | the instances of a generic kernel: see below |
/// | `name = "symbol"` | the kernel's name in the image, if it is not that of the function: its symbol, or in C++ such as `"reduce<float, 256u>"` |
/// | `arch = ">=80"` | the least compute capability that the kernel runs on |
/// | `block = 256`, `block = (32, 8, 1)` | threads in a block; may be left out for a kernel that was compiled for one block only (`.reqntid`) |
/// | `shared = 48 * 1024` | bytes of dynamic shared memory |
/// | `stack = 16 * 1024` | bytes of stack that a thread needs; only for kernels with recursive calls, whose depth no tool knows |
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
/// Each is registered, listed and compared with its image like any kernel. Its arguments say which C++ instance it is, if
/// they are numbers, and types with the same name in both languages. Otherwise, as for a constant instead of a number, its
/// C++ name follows: `instances(<f32, { config::BLOCK }> = "reduce<float, 256u>")`. Generic code can launch instances with
/// a bound on [`Kernel`]: `where reduce<T, 128>: Kernel`.
///
/// # On a module
///
/// Every function without a body is a kernel; other items are left unchanged. The arguments apply
/// to all kernels, and a declaration's own `#[gpu_kernel(..)]` adds to them or replaces them. The
/// module gets a constant `KERNELS`, which lists the kernels declared in it and in modules inside
/// it (those made there by a `macro_rules` macro register themselves, but are not in that list), and a
/// function `warm_all`, which makes only these kernels ready:
///
/// ```
/// # mod demo {
/// # use kernel_registry::gpu_kernel;
/// #[gpu_kernel(image = "tests/images/saxpy.ptx", block = 256)]
/// pub mod blas1 {
///     /// y = a*x + y
///     pub unsafe fn saxpy(n: u32, a: f32, x: &[f32], y: &mut [f32]);
///
///     /// y = a*x + y, for vectors of even length.
///     #[gpu_kernel(name = "saxpy", block = 128)]
///     pub unsafe fn saxpy_even(n: u32, a: f32, x: &[f32], y: &mut [f32]);
/// }
/// # }
/// # use demo::blas1;
/// const N: usize = blas1::KERNELS.len();
/// assert_eq!(N, 2);
/// ```
pub use kernel_registry_macros::gpu_kernel;

/// Runs a function during a warm-up, to initialise anything that is not a registered kernel: cuBLAS handles, memory pools,
/// streams, kernels of other libraries.
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
/// It runs once in each context, after all kernels are warm, so it may launch them. [`Warmup::hooks`] leaves such functions
/// out. By then the printf buffer and the kernels' heap have their final sizes: [`Warmup::printf_fifo`] and
/// [`Warmup::heap`] set them. `#[warmup(order = 10)]` runs it after those with a lower number; 0 is the default, and equal
/// ones run in the order of their paths. The report has its duration. If it fails, the error of the warm-up names it, and
/// the next warm-up runs it again. It cannot warm its own context, and has a time limit: [`Warmup::hook_timeout`].
pub use kernel_registry_macros::warmup;

/// Links a crate that is there only for its kernels.
///
/// The compiler drops a dependency that the program never names, together with its kernels, without a warning. Naming it is
/// enough:
///
/// ```
/// # mod some { pub mod kernels {} } use some::kernels;
/// kernel_registry::link_kernels!(kernels);
/// ```
///
/// If A uses B, and B uses the kernel crate C, then B must name C.
#[macro_export]
macro_rules! link_kernels {
    ($($path:path),+ $(,)?) => {
        $(
            #[allow(unused_imports)]
            use $path as _;
        )+
    };
}
