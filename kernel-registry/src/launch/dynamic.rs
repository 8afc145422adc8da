//! Launches kernels that are known only at run time, after comparing the arguments with the kernel's record.

use std::ffi::c_void;
use std::ptr;

use cudarc::driver::sys::{CUcontext, CUdeviceptr};
use cudarc::driver::{CudaStream, DevicePtr, DevicePtrMut};
use kernel_registry_format::{Param, Pass, SliceLength};

use super::parameter::is_unknown;
use super::pass::{self, Tracked, argument, length};
use super::{Launch, LaunchError};
use crate::param;
use crate::{KernelInfo, KernelParam, LaunchConfig, PointerTo};

/// An argument for [`launch_dyn`].
pub struct DynArg<'a> {
    given: Given<'a>,
    /// The size in bytes of the value, or of an element of the pointer or slice.
    size: u32,
    align: u32,
}

enum Given<'a> {
    Value(*const c_void),
    /// An address, and the context that its memory belongs to: see `Sealed::owner`.
    Pointer(CUdeviceptr, CUcontext),
    Null,
    Slice(Track<'a>),
    SliceMut(Track<'a>),
}

/// An argument as it is passed to the driver.
enum Passed<'a> {
    Value(*const c_void),
    Address(CUdeviceptr),
    Slice(Tracked<'a>),
}

/// A function that tells cudarc that a stream is about to use a slice. Dropping the result tells cudarc that the use was launched.
type Track<'a> = Box<dyn FnOnce(&'a CudaStream) -> Tracked<'a> + 'a>;

impl<'a> DynArg<'a> {
    /// Creates an argument from a number, or from another value that a kernel can take.
    pub fn value<T: KernelParam>(value: &'a T) -> Self {
        Self::new::<T>(Given::Value(ptr::from_ref(value).cast()))
    }

    /// Creates an argument from a device pointer. cudarc does not track the memory behind the pointer.
    pub fn pointer<T>(pointer: impl PointerTo<T>) -> Self {
        let owner = pointer.owner();
        Self::new::<T>(Given::Pointer(pointer.address(), owner))
    }

    /// Creates an argument from a slice of cudarc that the kernel reads.
    pub fn slice<T, S: DevicePtr<T>>(slice: &'a S) -> Self {
        Self::new::<T>(Given::Slice(Box::new(|stream| pass::slice(slice, stream))))
    }

    /// Creates an argument from a slice of cudarc that the kernel may write.
    pub fn slice_mut<T, S: DevicePtrMut<T>>(slice: &'a mut S) -> Self {
        Self::new::<T>(Given::SliceMut(Box::new(|stream| pass::slice_mut(slice, stream))))
    }

    /// Creates a null argument for a parameter `Option<&[T]>` or `Option<&mut [T]>`: the kernel gets a null pointer.
    pub fn null() -> Self {
        DynArg { given: Given::Null, size: 0, align: 0 }
    }

    fn new<T>(given: Given<'a>) -> Self {
        let [size, align] = param::layout::<T>();
        DynArg { given, size, align }
    }

    fn pass(self, launch: &Launch<'a>) -> Passed<'a> {
        match self.given {
            Given::Value(value) => Passed::Value(value),
            Given::Pointer(address, owner) => {
                launch.uses(owner);
                Passed::Address(address)
            }
            Given::Null => Passed::Slice(Tracked::NULL),
            Given::Slice(track) | Given::SliceMut(track) => Passed::Slice(track(launch.stream())),
        }
    }

    fn kind(&self) -> &'static str {
        match self.given {
            Given::Value(_) => "a value",
            Given::Pointer(..) => "a pointer to values",
            Given::Null => "null",
            Given::Slice(_) => "a slice of values",
            Given::SliceMut(_) => "a mutable slice of values",
        }
    }

    fn fits(&self, param: &Param<'_>) -> bool {
        if let Given::Null = self.given {
            return param.nullable;
        }
        let (size, align) = (self.size, self.align);
        let kind = match param.pass {
            Pass::Value => matches!(self.given, Given::Value(_)),
            Pass::Slice => matches!(self.given, Given::Slice(_) | Given::SliceMut(_)),
            Pass::SliceMut => matches!(self.given, Given::SliceMut(_)),
            Pass::Pointer => !matches!(self.given, Given::Value(_)),
            Pass::PointerMut => matches!(self.given, Given::Pointer(..) | Given::SliceMut(_)),
        };
        match is_unknown(param) {
            true => kind || matches!(self.given, Given::Value(_)) && size == 8,
            // Machine code does not contain alignments; then the parameter's alignment is 0.
            false => kind && size == param.element_size && [0, align].contains(&param.element_align),
        }
    }
}

/// Launches a kernel after comparing the number, kinds and sizes of the arguments with its declaration.
///
/// This function reads the kernel's record and allocates memory; a typed launch does neither.
///
/// # Errors
///
/// [`LaunchError`]: the arguments do not fit the parameters, or one of the errors that every launch can return.
///
/// ```no_run
/// use kernel_registry::{DynArg, launch_dyn};
///
/// # fn main() -> Result<(), kernel_registry::MainError> {
/// # let context = kernel_registry::context(0)?;
/// # let _warm = kernel_registry::warm_all(&context)?;
/// let stream = context.new_stream()?;
/// let x = stream.clone_htod(&[1.0_f32; 100])?;
/// let mut y = stream.clone_htod(&[1.0_f32; 100])?;
/// let kernel = kernel_registry::find("kernels::blas1::saxpy")?;
/// let args = [DynArg::value(&100_u32), DynArg::value(&2.0_f32), DynArg::slice(&x), DynArg::slice_mut(&mut y)];
/// // SAFETY: `saxpy` takes these, and 100 elements of each vector are there.
/// unsafe { launch_dyn(kernel, &stream, kernel.over(100), args)? };
/// # Ok(())
/// # }
/// ```
///
/// # Safety
///
/// The [contract of every launch](crate#the-contract-of-a-launch). Only the number, the kinds and the sizes of the arguments are
/// compared, not their types.
pub unsafe fn launch_dyn<'a>(
    kernel: &'static KernelInfo,
    stream: &'a CudaStream,
    config: impl Into<LaunchConfig>,
    args: impl IntoIterator<Item = DynArg<'a>>,
) -> Result<(), LaunchError> {
    let args: Vec<_> = args.into_iter().collect();
    compare(kernel, &args)?;
    let launch = Launch::new(kernel, stream, &config.into())?;

    // The slices are dropped after the launch: dropping them makes cudarc record that the stream uses them.
    let passed: Vec<Passed<'_>> = args.into_iter().map(|arg| arg.pass(&launch)).collect();
    let mut values: Vec<*mut c_void> = Vec::with_capacity(2 * passed.len());
    for (param, passed) in kernel.params().iter().zip(&passed) {
        match passed {
            Passed::Value(value) => values.push(value.cast_mut()),
            Passed::Address(address) => values.push(argument(address)),
            Passed::Slice(slice) => {
                values.push(argument(slice));
                let next = param.length.filter(|length| *length == SliceLength::Next);
                values.extend(next.map(|_| length(slice)));
            }
        }
    }
    // SAFETY: the arguments are as many and as large as the kernel's parameters; the rest is the caller's promise.
    unsafe { launch.submit(&mut values) }
}

fn compare(kernel: &'static KernelInfo, args: &[DynArg<'_>]) -> Result<(), LaunchError> {
    if kernel.registration().is_some_and(|linked| !linked.is_read()) {
        return Err(LaunchError::ParamsUnread { kernel });
    }
    let params = kernel.params();
    if params.len() != args.len() {
        return Err(LaunchError::ArgumentCount { kernel, given: args.len(), takes: params.len() });
    }
    match params.iter().zip(args).enumerate().find(|(_, (param, arg))| !arg.fits(param)) {
        Some((index, (param, arg))) => {
            Err(LaunchError::Argument { kernel, index, param, given: arg.kind(), size: arg.size })
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::info::tests::scale;

    const NOWHERE: *const f32 = ptr::null();

    fn compared<'a>(args: impl IntoIterator<Item = DynArg<'a>>) -> Result<(), String> {
        compare(scale(), &args.into_iter().collect::<Vec<_>>()).map_err(|error| error.to_string())
    }

    /// The declaration is `scale(n: u32, a: f32, x: *const f32)`.
    #[test]
    fn arguments_are_compared_with_the_declaration() {
        let (n, a) = (7_u32, 2.0_f32);
        let fine = || [DynArg::value(&n), DynArg::value(&a), DynArg::pointer(NOWHERE)];
        assert_eq!(compared(fine()), Ok(()));

        let error = compared(fine().into_iter().take(2)).expect_err("one is missing");
        assert!(error.ends_with("it takes 3 arguments, and 2 were given"), "{error}");

        let error = compared([DynArg::value(&n), DynArg::value(&2.0_f64), DynArg::pointer(NOWHERE)]);
        let error = error.expect_err("it is too large");
        assert!(
            error.ends_with("argument 1 is a value of 8 bytes, and `a: f32` takes a value of 4"),
            "{error}"
        );

        let error = compared([DynArg::value(&n), DynArg::pointer(NOWHERE), DynArg::value(&a)]);
        let error = error.expect_err("two are exchanged");
        assert!(error.contains("argument 1 is a pointer to values"), "{error}");

        let error = compared([DynArg::value(&n), DynArg::value(&a), DynArg::null()]);
        let error = error.expect_err("a pointer is no slice");
        assert!(
            error.ends_with("argument 2 is null, and `x: *const f32` takes a pointer to values of 4"),
            "{error}"
        );

        // The lower 32 bits of this size are the size of an `f32`.
        let huge = DynArg::pointer(ptr::null::<[f32; (1 << 30) + 1]>());
        assert!(compared([DynArg::value(&n), DynArg::value(&a), huge]).is_err(), "the elements are of 4 GiB");

        let error = compared([DynArg::value(&n), DynArg::value(&a), DynArg::pointer(ptr::null::<f64>())]);
        assert!(error.is_err(), "the elements are of another size");
    }
}
