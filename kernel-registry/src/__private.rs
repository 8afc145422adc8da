//! The functions, types and macros that expansions of the macros use, under the name `__private_0_1`, whose numbers are the crate's
//! version. This module is not part of the API, and changes without notice.

pub mod checks;
pub mod resident;

pub use std::string::String;
pub use std::sync::Arc;

pub use cudarc::driver::{CudaContext, CudaStream, DevicePtr, DevicePtrMut};
pub use inventory;
pub use kernel_registry_format::{Encoded, encode};

pub use crate::hook::{Hook, Outcome};
pub use crate::info::ImageSource;
pub use crate::launch::pass::{argument, length};
use crate::records;
pub use crate::records::COPY;
pub use crate::registry::Registration;
pub use crate::table::Table;
pub use crate::{KernelInfo, Place, PointerTo, PointerToMut, SliceOrNull, SliceOrNullMut};
use crate::{Warm, WarmError, Warmup};

/// Returns the bytes unchanged. If a constant is a literal, the compiler writes the literal as text into the crate's metadata and
/// documentation, once for each kernel. If it is a call of this function, the compiler writes `_`.
pub const fn embedded(bytes: &'static [u8]) -> &'static [u8] {
    bytes
}

/// Returns the bytes of an image.
///
/// This function is generic, not inlined, and in this crate, so that a debug binary contains each image once. In a debug
/// build every module of a crate is compiled separately, so sixty `include_bytes!` of one file would be sixty copies. But
/// the compiler puts all instances of a generic function of another crate into one codegen unit, and merges equal constants
/// there.
#[inline(never)]
fn image_bytes<S: ImageSource>() -> &'static [u8] {
    S::BYTES
}

/// Builds a kernel's information from its record and its image.
pub const fn info<S: ImageSource, const FIXED: usize, const PATH: usize, const PARAMS: usize>(
    record: &'static Encoded<FIXED, PATH, PARAMS>,
    table: &'static Table,
) -> KernelInfo {
    KernelInfo::new(records::bytes(record), record.launch(), image_bytes::<S>, table)
}

/// Converts the parameters of a generated `launch` into arguments for the driver.
pub mod pass {
    use cudarc::driver::{DevicePtr, DevicePtrMut};

    pub use crate::launch::pass::{Tracked, pointer, value};
    use crate::launch::{Launch, pass};
    use crate::{SliceOrNull, SliceOrNullMut};

    /// Converts a slice that the kernel reads.
    #[inline]
    pub fn slice<'a, T>(slice: &'a impl DevicePtr<T>, launch: &Launch<'a>) -> Tracked<'a> {
        pass::slice(slice, launch.stream())
    }

    /// Converts a slice that the kernel may write.
    #[inline]
    pub fn slice_mut<'a, T>(slice: &'a mut impl DevicePtrMut<T>, launch: &Launch<'a>) -> Tracked<'a> {
        pass::slice_mut(slice, launch.stream())
    }

    /// Converts an optional slice that the kernel reads.
    #[inline]
    pub fn nullable<'a, T>(slice: impl SliceOrNull<T> + 'a, launch: &Launch<'a>) -> Tracked<'a> {
        slice.track(launch.stream())
    }

    /// Converts an optional slice that the kernel may write.
    #[inline]
    pub fn nullable_mut<'a, T>(slice: impl SliceOrNullMut<T> + 'a, launch: &Launch<'a>) -> Tracked<'a> {
        slice.track_mut(launch.stream())
    }
}

/// Warms the kernels of a module.
pub fn warm_module(kernels: &[&KernelInfo], context: &Arc<CudaContext>) -> Result<Warm, WarmError> {
    Warmup::new().only(|kernel| kernels.contains(&kernel)).hooks(false).warm(context)
}

/// Returns how many kernels all parts have together.
pub const fn total(parts: &[&[&KernelInfo]]) -> usize {
    let mut total = 0;
    let mut part = 0;
    while part < parts.len() {
        total += parts[part].len();
        part += 1;
    }
    total
}

/// Joins the parts into one array. `N` is their [`total`].
pub const fn join<const N: usize>(parts: &[&[&'static KernelInfo]]) -> [&'static KernelInfo; N] {
    let Some(mut rest) = parts.split_first() else {
        assert!(N == 0);
        // The array has no elements, so `UNKNOWN` is never read.
        return [UNKNOWN; N];
    };
    let mut joined = [UNKNOWN; N];
    let mut at = 0;
    loop {
        let (first, others) = rest;
        joined.split_at_mut(at).1.split_at_mut(first.len()).0.copy_from_slice(first);
        at += first.len();
        match others.split_first() {
            Some(next) => rest = next,
            None => return joined,
        }
    }
}

/// A placeholder for a kernel: for a kernel whose declaration has errors, and for elements of an array that are not set yet.
pub const UNKNOWN: &KernelInfo = {
    static COLD: Table = Table::COLD;
    static UNKNOWN: KernelInfo = KernelInfo::new(&[], &[[0xff; 4]; 4], || &[], &COLD);
    &UNKNOWN
};

/// Returns the size and alignment of a parameter's value or element.
pub mod param {
    use crate::KernelParam;
    pub use crate::param::Field;
    use crate::param::layout;

    /// Describes a field of the type `T`.
    pub const fn field<T: KernelParam>(name: &'static str, spelled: &'static str, offset: usize) -> Field {
        let [size, _] = layout::<T>();
        Field { name, spelled, offset: offset as u32, size, rust: T::RUST }
    }

    /// Returns the size and alignment of a parameter type.
    pub const fn any<T: KernelParam>() -> [u32; 2] {
        layout::<T>()
    }

    /// Returns the size and alignment of a pointer's element, which need not be a parameter type.
    pub const fn pointee<T>() -> [u32; 2] {
        layout::<T>()
    }
}

/// Defines the trait that the instances of a generic kernel implement, in a module.
#[doc(hidden)]
#[macro_export]
macro_rules! __instances {
    ($module:ident $message:literal $note:literal) => {
        #[allow(non_snake_case)]
        mod $module {
            #[diagnostic::on_unimplemented(message = $message, label = "no such instance", note = $note)]
            pub trait Instance: $crate::__private_0_1::ImageSource {
                const INFO: &'static $crate::KernelInfo;
            }
        }
    };
}

/// Writes everything of a kernel except its type: the functions of the type, and the registration of each instance. This is a
/// `macro_rules!` macro, because the compiler expands it many times faster than the attribute macro could write the same tokens.
///
/// A program with a thousand kernels expands every token here a thousand times. So each piece of documentation is one literal,
/// and numbers that a declaration does not fix are `u32::MAX`, as in the record.
#[doc(hidden)]
#[macro_export]
macro_rules! __kernel {
    (
        [$($impl:tt)*] $about:literal
        $(launch($($arg:ident: $ty:ty = $pass:ident $(, $length:ident)?;)*))?
        $(
            register $kernel:ty: $has_info:path, $path:literal
            $fixed:literal $fixed_len:literal [$($layout:expr,)*] $param_count:literal
            $block:expr, $shared:expr, $stack:expr, $image:expr;
        )*
    ) => {
        #[allow(deprecated)]
        #[doc = $about]
        $($impl)* {
            #[doc = " What is known of the kernel without loading it."]
            pub const INFO: &'static $crate::KernelInfo = <Self as $crate::Kernel>::INFO;

            #[doc = " A grid that covers `n` threads, with the `block` and `shared` of the declaration."]
            #[inline]
            pub fn over(n: impl ::core::convert::TryInto<::core::primitive::u64>) -> $crate::LaunchConfig {
                <Self as $crate::Kernel>::INFO.over(n)
            }

            #[doc = " A grid of that many blocks, with the `block` and `shared` of the declaration."]
            #[inline]
            pub fn config(grid: impl ::core::convert::Into<$crate::Dim3>) -> $crate::LaunchConfig {
                <Self as $crate::Kernel>::INFO.config(grid)
            }

            $(
                #[doc = " Launches the kernel on a stream of a context in which it is warm.\n\n # Safety\n\n That of every launch: see \"The contract of a launch\" on the page of the crate kernel_registry. The kernel does with its arguments what its declaration says, and what they refer to stays until it is done, and until the last replay of a graph that it was captured into."]
                #[inline]
                #[allow(clippy::too_many_arguments)]
                pub unsafe fn launch(
                    stream: &$crate::__private_0_1::CudaStream,
                    config: impl $crate::Configure<Self>,
                    $($arg: $ty),*
                ) -> ::core::result::Result<(), $crate::LaunchError> {
                    // The configuration is checked before the slices are used, so that a refused launch does nothing to the slices.
                    let launch = $crate::Configure::<Self>::configure(config, stream)?;
                    $(let $arg = $crate::__private_0_1::pass::$pass($arg, &launch);)*
                    // SAFETY: the arguments are those of the declaration; the rest is the caller's promise.
                    unsafe {
                        launch.submit(&mut [
                            $($crate::__private_0_1::argument(&$arg), $($crate::__private_0_1::$length(&$arg),)?)*
                        ])
                    }
                }
            )?
        }

        $(
            #[allow(deprecated)]
            const _: () = {
                #[used]
                // Every object format has its own name for the section: see `kernel_registry_format::section`.
                #[cfg_attr(
                    not(any(windows, target_vendor = "apple", target_family = "wasm")),
                    unsafe(link_section = "kernel_registry_v1")
                )]
                #[cfg_attr(target_vendor = "apple", unsafe(link_section = "__DATA,__kernel_reg_v1"))]
                #[cfg_attr(windows, unsafe(link_section = ".krnl1$b"))]
                static __RECORD: $crate::__private_0_1::Encoded<
                    $fixed_len,
                    { ::core::concat!(::core::module_path!(), $path).len() },
                    $param_count,
                > = $crate::__private_0_1::encode(
                    $fixed,
                    ::core::concat!(::core::module_path!(), $path),
                    $block,
                    $shared,
                    $stack,
                    $crate::__private_0_1::COPY,
                    [$($layout),*],
                );

                static __TABLE: $crate::__private_0_1::Table = $crate::__private_0_1::Table::COLD;

                #[doc(hidden)]
                impl $crate::__private_0_1::ImageSource for $kernel {
                    const BYTES: &'static [::core::primitive::u8] = $crate::__private_0_1::embedded($image);
                }

                $crate::__private_0_1::inventory::submit! {
                    $crate::__private_0_1::Registration::new(<$kernel as $has_info>::INFO)
                }

                impl $has_info for $kernel {
                    const INFO: &'static $crate::KernelInfo =
                        &$crate::__private_0_1::info::<$kernel, _, _, _>(&__RECORD, &__TABLE);
                }
            };
        )*
    };
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_version_in_the_name_is_that_of_the_crate() {
        let (major, minor) = (env!("CARGO_PKG_VERSION_MAJOR"), env!("CARGO_PKG_VERSION_MINOR"));
        let name = format!("pub mod __private_{major}_{minor} {{");
        assert!(include_str!("lib.rs").contains(&name), "call the module `{name}`, here and in the macros");
    }
}
