//! Reads limits, above all the stack limit: a launch that needs a larger stack enlarges it, and waits until nothing
//! runs on the device.

use std::ffi::c_int;

use cudarc::driver::sys::{CUdevice, CUfunction, CUfunction_attribute, CUkernel, CUlimit, CUresult};

use crate::watch::known::contexts;
use crate::watch::loader::real::{driver_function, stored};

/// Returns the name of a limit that waits for the device, or that can be set only before a kernel needs it.
pub(crate) fn name_of(limit: CUlimit) -> Option<&'static str> {
    match limit {
        CUlimit::CU_LIMIT_STACK_SIZE => Some("stack"),
        CUlimit::CU_LIMIT_PRINTF_FIFO_SIZE => Some("printf buffer"),
        CUlimit::CU_LIMIT_MALLOC_HEAP_SIZE => Some("heap"),
        _ => None,
    }
}

/// A stack limit that is too low for a kernel, in bytes.
pub(crate) struct Missing {
    pub(crate) frame: usize,
    pub(crate) limit: usize,
}

/// Returns the stack that the launch of a kernel will enlarge, if it will. The attribute with the size of the frame
/// does not count recursive calls.
pub(crate) fn missing(function: CUfunction) -> Option<Missing> {
    let frame = frame(function).filter(|frame| *frame > 0)?;
    let limit = limit(CUlimit::CU_LIMIT_STACK_SIZE)?;
    (frame > limit).then_some(Missing { frame, limit })
}

/// Returns the frame of a kernel. Asking loads nothing.
pub(crate) fn frame(function: CUfunction) -> Option<usize> {
    driver_function!(static OF_FUNCTION = cuFuncGetAttribute(*mut c_int, CUfunction_attribute, CUfunction));
    driver_function!(static OF_KERNEL = cuKernelGetAttribute(*mut c_int, CUfunction_attribute, CUkernel, CUdevice));
    const LOCAL: CUfunction_attribute = CUfunction_attribute::CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES;

    let (of_function, of_kernel) = (OF_FUNCTION.get()?, OF_KERNEL.get()?);
    // SAFETY: the call stores a number, and refuses the other kind of handle.
    let frame = stored(0, |bytes| unsafe { of_function(bytes, LOCAL, function) }).or_else(|| {
        let device = contexts::current_device()?;
        // SAFETY: as above.
        stored(0, |bytes| unsafe { of_kernel(bytes, LOCAL, function.cast(), device) })
    });
    usize::try_from(frame?).ok()
}

/// Returns a limit of the current context.
pub(crate) fn limit(which: CUlimit) -> Option<usize> {
    driver_function!(static GET_LIMIT = cuCtxGetLimit(*mut usize, CUlimit));
    let get_limit = GET_LIMIT.get()?;
    // SAFETY: the call stores a number. It waits only while another thread loads, as the launch does.
    stored(0, |bytes| unsafe { get_limit(bytes, which) })
}
