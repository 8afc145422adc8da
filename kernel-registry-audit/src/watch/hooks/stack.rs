//! Stacks: a launch that needs a larger one enlarges it, and waits until nothing runs on the device.

use std::ffi::c_int;

use cudarc::driver::sys::{CUdevice, CUfunction, CUfunction_attribute, CUkernel, CUlimit, CUresult};

use crate::watch::contexts;
use crate::watch::real::driver_function;

/// A stack limit that is too low for a kernel, in bytes.
pub(super) struct Missing {
    pub(super) frame: usize,
    pub(super) limit: usize,
}

/// Whether the launch of a kernel will enlarge the stack. The attribute that says so does not count recursive calls.
pub(super) fn missing(function: CUfunction) -> Option<Missing> {
    let frame = usize::try_from(frame(function)?).ok().filter(|frame| *frame > 0)?;
    let limit = limit()?;
    (frame > limit).then_some(Missing { frame, limit })
}

/// The frame of a kernel. Asking loads nothing.
fn frame(function: CUfunction) -> Option<c_int> {
    driver_function!(static OF_FUNCTION = cuFuncGetAttribute(*mut c_int, CUfunction_attribute, CUfunction));
    driver_function!(static OF_KERNEL = cuKernelGetAttribute(*mut c_int, CUfunction_attribute, CUkernel, CUdevice));
    const LOCAL: CUfunction_attribute = CUfunction_attribute::CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES;

    let mut bytes = 0;
    let (of_function, of_kernel) = (OF_FUNCTION.get()?, OF_KERNEL.get()?);
    // SAFETY: both store a number, and refuse the other kind of handle.
    let found = unsafe {
        of_function(&mut bytes, LOCAL, function) == CUresult::CUDA_SUCCESS
            || of_kernel(&mut bytes, LOCAL, function.cast(), contexts::current_device()?)
                == CUresult::CUDA_SUCCESS
    };
    found.then_some(bytes)
}

/// The stack limit of the current context.
fn limit() -> Option<usize> {
    driver_function!(static GET_LIMIT = cuCtxGetLimit(*mut usize, CUlimit));
    let get_limit = GET_LIMIT.get()?;
    let mut bytes = 0;
    // SAFETY: it stores a number. It waits only while another thread loads, as the launch does.
    let result = unsafe { get_limit(&mut bytes, CUlimit::CU_LIMIT_STACK_SIZE) };
    (result == CUresult::CUDA_SUCCESS).then_some(bytes)
}
