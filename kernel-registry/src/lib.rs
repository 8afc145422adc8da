//! Declares CUDA kernels at compile time, lists all kernels of a program, and makes them ready before their first launch.
//!
//! # Declare kernels
//!
//! A function declaration without a body, in any crate, stands for a kernel, and [`gpu_kernel`] registers the kernel:
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
//! [`kernels`] lists the kernels of every crate in the program. [`find`] and [`find_symbol`] look up one kernel:
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
//! `cargo kernels list` shows the same list for a binary on disk, without running the binary.
//!
//! # Warm kernels
//!
//! The driver loads a kernel at the kernel's first launch, and waits for everything that runs on the device before that. If a
//! kernel that never ends is running, the driver waits forever. [`warm_all`] makes all kernels ready in a context of cudarc, and
//! returns a receipt with a report:
//!
//! ```no_run
//! # fn main() -> Result<(), kernel_registry::MainError> {
//! let context = kernel_registry::context(0)?;
//! let warm = kernel_registry::warm_all(&context)?;
//! println!("{}", warm.report());
//! # Ok(())
//! # }
//! ```
//!
//! [`Warmup`] has the options of a warm-up, and [`macro@warmup`] functions prepare other libraries.
//!
//! # Launch kernels
//!
//! Each kernel's type has a function `launch` with the parameters of the kernel's declaration. `launch` takes cudarc's slices and views for
//! `&[T]` and `&mut [T]`, the same or `None` for `Option<&[T]>` ([`SliceOrNull`]), a [`PointerTo<T>`] for `*const T`, and values for
//! everything else. `over` and `config` return a [`LaunchConfig`] for the launch:
//!
//! ```no_run
//! # mod demo {
//! # use kernel_registry::gpu_kernel;
//! # #[gpu_kernel(image = "tests/images/saxpy.ptx", block = 256)]
//! # pub unsafe fn saxpy(n: u32, a: f32, x: &[f32], y: &mut [f32]);
//! # }
//! # use demo::saxpy;
//! # fn main() -> Result<(), kernel_registry::MainError> {
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
//! A launch that exceeds a limit of the kernel or the device returns an error with both numbers, without calling the driver.
//! [`Prepared`] checks a launch once, for many launches. [`launch_dyn`] launches a kernel that is known only at run time.
//! [`Prepared::launch`] takes unchecked arguments, and [`KernelInfo::cu_function`] returns the driver's handle.
//!
//! # The contract of a launch
//!
//! Every launch is `unsafe`. The `launch` of a kernel's type takes arguments of the declared types. [`launch_dyn`] compares the
//! number, kinds and sizes of arguments with the declaration. [`Prepared::launch`] compares nothing. The caller promises the rest:
//!
//! - **Arguments.** There are as many arguments as the kernel has parameters, and each is, or points to, a value of the parameter's
//!   type.
//! - **Memory.** All memory that the kernel reaches through its arguments, including addresses inside of them, is allocated, large
//!   enough and aligned, and can be accessed from the stream's device. Memory that the kernel reads was written before. A slice of another
//!   context isn't refused: peer access may allow it, and only a call of the driver at each launch could tell.
//! - **Lifetime.** The memory stays allocated until the kernel has ended. If the launch was captured into a graph, each replay launches
//!   the kernel again, so the memory stays until the last replay has ended. cudarc frees a slice after the work of the streams that
//!   used the slice, but knows nothing of replays. Dropping a `Mapped`, a `Control` or a `Queue` waits for the running kernels of its
//!   context, but not for later replays.
//! - **No other access.** While the kernel runs, nothing else writes memory that the kernel reads, or accesses memory that the kernel
//!   writes: neither the host, nor another stream or device. The exception are words that both sides access atomically.
//! - **Valid values.** The kernel writes only values that are valid for the type of the memory: in a slice or `Mapped` of `bool`, 0 or 1.
//! - **A correct declaration.** The kernel writes only through `&mut [T]`, `Option<&mut [T]>` and `*mut T`, and stays within the slices.
//!
//! # Resident kernels
//!
//! A resident kernel runs until it is told to end, for example a worker that takes tasks from a queue. The crate
//! kernel-registry-resident checks, launches and guards resident kernels. While a resident kernel runs, a call of this crate that
//! would wait for it returns the error [`WouldWait`].
//!
//! # Kernels that nvcc links
//!
//! Kernels that C++ code launches with `<<<>>>` need no declarations. `kernel_registry_build::linked()` in the program's build script
//! makes the linker pass their registrations to this crate. Then they are listed, found and warmed like all other kernels
//! ([`KernelInfo::is_linked`]).
//!
//! # Link kernels
//!
//! The compiler links a dependency only if the program names it. [`link_kernels!`] names a crate that the program needs only for its
//! kernels.
//!
//! # All items, by task
//!
//! | task | items | errors |
//! |---|---|---|
//! | declare | [`gpu_kernel`], [`KernelParam`], [`types`], [`link_kernels!`]; for images compiled at run time `RuntimeImage` | `RuntimeImageError` |
//! | list and find | [`kernels`], [`find`], [`find_symbol`], [`duplicates`] with [`Duplicate`]; [`KernelInfo`], [`Kernel`], [`Image`] | [`RegistryError`] with [`Place`]; [`OtherCopy`] |
//! | read a kernel's record | [`Signature`], [`Params`], [`Param`], [`Pass`], [`SliceLength`], [`RustType`], [`Needs`] | |
//! | get a context | [`context()`], [`contexts()`], [`borrow_context`], [`CudaVersion`], [`cudarc`] | [`DriverUnavailable`], [`DriverCallError`] |
//! | warm | [`warm_all`], [`Warmup`], [`Warm`], [`Progress`] | [`WarmError`] with [`Failure`], [`Cause`] and [`FrozenLimit`]; [`RecheckError`] |
//! | read the report | [`Report`], [`KernelReport`], [`HookReport`], [`NotAdopted`], [`Stage`], [`Unavailable`] | |
//! | warm other libraries | [`macro@warmup`], [`WarmContext`] | [`LoadError`], [`HookFailure`], [`HookCause`] |
//! | refuse late loads | [`Late`], [`LateLoad`], [`Warm::seal`] | |
//! | launch | [`LaunchConfig`], [`Dim3`], [`Prepared`], [`launch_dyn`] with [`DynArg`] and [`Untyped`] | [`LaunchError`] with [`LaunchLimit`] |
//! | pass arguments and configurations | [`Configure`], [`SliceOrNull`], [`SliceOrNullMut`], [`Nullable`], [`PointerTo`], [`PointerToMut`], [`DeviceAddress`] | |
//! | run resident kernels, divide a GPU into parts | the items of kernel-registry-resident | [`WouldWait`] |
//! | return from `main`, or a test | | [`MainError`] |
//!
//! Another crate is for tests without a GPU: after `kernel_registry_sim::install()` everything here works on a simulated device.
//! [`cudarc::driver::DriverError`] is cudarc's error for a failed driver call; [`DriverCallError`] is this crate's error, and also
//! names the call.
//!
//! # Features
//!
//! | feature | adds |
//! |---|---|
//! | `adopt` | `RuntimeImage::adopt`: other code that loads the same image gets the warm kernels; Linux |
//! | `half` | `half::f16` and `half::bf16` as parameters, for `__half` and `__nv_bfloat16` |
//! | `linked` | names, parameters and needs of kernels that nvcc links, from their images |
//! | `runtime` | `RuntimeImage`: images that are compiled at run time |
//! | `serde` | `Serialize` for [`Report`] |
//! | `tracing` | spans and events of each warm-up and late load |
//! | `indicatif` | `Warmup::progress_bar` |
//!
//! # cudarc
//!
//! Contexts, streams and slices are types of [cudarc](https://docs.rs/cudarc) 0.19, re-exported as [`cudarc`]. A new minor version
//! of cudarc requires a new minor version of this crate before 1.0, and a new major version after 1.0. This crate does not enable
//! a `cuda-version` feature of cudarc: two crates of one program cannot enable different features, so the application chooses.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod __private;
mod address;
#[cfg_attr(not(all(feature = "adopt", target_os = "linux")), path = "adopt/absent.rs")]
mod adopt;
mod borrow;
mod config;
mod contexts;
mod copies;
mod driver;
mod error;
mod hook;
#[cfg(any(feature = "linked", feature = "runtime"))]
mod image_record;
mod info;
mod late;
mod launch;
mod linked;
mod lock;
mod milliseconds;
mod nullable;
mod param;
mod place;
mod records;
mod registry;
#[cfg(test)]
mod remedies;
#[cfg(feature = "runtime")]
mod runtime;
mod sections;
mod table;
pub mod types;
mod warm;
mod watch;

/// The items that the macros of this version use. Macros of another version use another name, so they do not compile with this
/// version.
#[doc(hidden)]
pub mod __private_0_1 {
    pub use crate::__private::*;
}

pub use address::{DeviceAddress, PointerTo, PointerToMut};
pub use borrow::borrow_context;
pub use config::{Dim3, LaunchConfig};
pub use contexts::{KernelReport, MachineCode};
pub use contexts::{Late, LateLoad};
pub use copies::OtherCopy;
/// The version of cudarc that this crate's API uses.
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
    Cause, Failure, FrozenLimit, HookCause, HookFailure, HookReport, NotAdopted, NotBaked, Progress,
    RecheckError, Report, Stage, Unavailable, Warm, WarmError, Warmup, warm_all,
};

pub use kernel_registry_macros::KernelParam;

/// Registers a kernel, or every kernel of a module.
///
/// # On a declaration
///
/// The function is `unsafe` and has no body, because its code is in a compiled image. The macro replaces the function by a type of
/// the same name. The constant `INFO` of this type is the kernel's [`KernelInfo`]:
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
/// The declared parameters correspond to the kernel's. Numbers and other [`KernelParam`] types are passed by value; `*const T` and
/// `*mut T` are device pointers; `&[T]` and `&mut [T]` are device memory that the kernel reads or writes. A kernel in C++ gets the
/// address of a slice. A kernel that a Rust compiler has compiled with LLVM also gets the length, in an additional parameter or in
/// one parameter of 16 bytes.
///
/// The declaration is compared with the image at compile time. The image has to contain a kernel with the function's name (for C++
/// kernels without namespaces), or with the name in `name`. The kernel has to take as many parameters, of the same types. If the
/// kernel's symbol does not contain the types (`extern "C"`, structs), the sizes have to be the same. The types of an `extern "C"`
/// kernel are compared, too, if `file` names its source and the source spells them out. Then parameters also need the source's order, by
/// their names; names that only differ are a warning of the lint `deprecated`, which `#[allow(deprecated)]` on the declaration turns off and
/// `#[deny(deprecated)]` makes an error. A block written in numbers has to fit
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
/// | argument | meaning |
/// |---|---|
/// | `image = "x.ptx"` | the compiled image: PTX, cubin or fatbin; relative to the folder of Cargo.toml, or `$OUT_DIR/..` for an image that a build script made |
/// | `file = "cuda/x.cu"` | the CUDA source, which `kernel_registry_build::compile()` compiles in the build script |
/// | `linked` | instead of `image` and `file`: nvcc links the kernel into the program, where C++ launches it with `<<<>>>`; the kernel is compared with the declaration when it is warmed |
/// | `instances(<f32, 128>, <f64, 128>)` | the instances of a generic kernel: see below |
/// | `name = "symbol"` | the kernel's name in the image, if it is not the function's name: its symbol, or its name in C++, such as `"reduce<float, 256u>"` |
/// | `arch = ">=80"` | the least architecture that the kernel runs on |
/// | `block = 256`, `block = (32, 8, 1)` | threads in a block; may be left out for a kernel that was compiled for one block size only (`.reqntid`) |
/// | `shared = 48 * 1024` | bytes of dynamic shared memory |
/// | `stack = 16 * 1024` | bytes of stack that a thread needs; only for kernels with recursive calls, whose depth no tool can compute |
/// | `type = Saxpy` | the name of the generated type |
/// | `crate = path` | the path of kernel-registry, if this crate knows it under another name |
///
/// Documentation, visibility, `#[cfg]` and lint attributes apply to the generated type, and lint attributes to the names of parameters.
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
/// Each instance is registered, listed and compared with its image like any kernel. The macro derives the name of the C++ instance
/// from the generic arguments, if these are numbers, and types that correspond to C++ types. For other arguments, such as a constant
/// instead of a number, write the C++ name after them: `instances(<f32, { config::BLOCK }> = "reduce<float, 256u>")`. Generic code
/// can launch instances with a bound on [`Kernel`]: `where reduce<T, 128>: Kernel`.
///
/// # On a module
///
/// Every function without a body is a kernel; other items are left unchanged. The arguments apply to all kernels of the module. A
/// `#[gpu_kernel(..)]` on a declaration adds arguments, or replaces those of the module. The module gets a constant `KERNELS`, which
/// lists the kernels declared in the module and in modules inside it, and a function `warm_all`, which makes only these kernels
/// ready. Kernels that a `macro_rules` macro declares there are registered, but are not in `KERNELS`:
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
/// The function takes a [`WarmContext`], whose context is current, and returns nothing or a `Result<(), E>`:
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
/// The function runs once in each context, after all kernels are warm, so the function may launch kernels. [`Warmup::hooks`] can turn these
/// functions off. When the function runs, the printf buffer and the kernels' heap have their final sizes, which
/// [`Warmup::printf_fifo`] and [`Warmup::heap`] set.
///
/// `#[warmup(order = 10)]` runs the function after functions with a lower order. The default is 0, and functions of equal order run
/// in the order of their paths. The report has the function's duration. If the function fails, the error of the warm-up names it,
/// and the next warm-up runs it again; if it panics, so does the warm-up. The function cannot warm its own context, and has a time limit: [`Warmup::hook_timeout`].
pub use kernel_registry_macros::warmup;

/// Links a crate that the program needs only for its kernels.
///
/// The compiler drops a dependency that the program never names, together with its kernels, without a warning. It is enough to name
/// the dependency:
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
