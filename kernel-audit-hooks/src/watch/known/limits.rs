//! Reads limits, above all the stack limit: a launch that needs more raises it, and waits for the device.

use std::ffi::c_int;

use cudarc::driver::sys::{CUdevice, CUfunction, CUfunction_attribute, CUkernel, CUlimit, CUresult};

use crate::record::Limit;
use crate::watch::known::contexts;
use crate::watch::loader::real::{driver_function, stored};

/// Returns a limit that waits for the device, or that can be set only before a kernel needs it.
pub(crate) fn limit_of(limit: CUlimit) -> Option<Limit> {
    match limit {
        CUlimit::CU_LIMIT_STACK_SIZE => Some(Limit::Stack),
        CUlimit::CU_LIMIT_PRINTF_FIFO_SIZE => Some(Limit::Printf),
        CUlimit::CU_LIMIT_MALLOC_HEAP_SIZE => Some(Limit::Heap),
        _ => None,
    }
}

/// A stack limit that's too low for a kernel, in bytes.
pub(crate) struct Missing {
    pub(crate) frame: usize,
    pub(crate) limit: usize,
}

/// Returns the stack limit, if a kernel's launch will raise it. Frame sizes don't include recursive calls.
pub(crate) fn missing(function: CUfunction) -> Option<Missing> {
    let frame = frame(function).filter(|frame| *frame > 0)?;
    let limit = limit(CUlimit::CU_LIMIT_STACK_SIZE)?;
    (frame > limit).then_some(Missing { frame, limit })
}

/// Returns the size of a kernel's frame. This loads nothing.
pub(crate) fn frame(function: CUfunction) -> Option<usize> {
    driver_function!(static OF_FUNCTION = cuFuncGetAttribute(*mut c_int, CUfunction_attribute, CUfunction));
    driver_function!(static OF_KERNEL = cuKernelGetAttribute(*mut c_int, CUfunction_attribute, CUkernel, CUdevice));
    const LOCAL: CUfunction_attribute = CUfunction_attribute::CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES;

    let (of_function, of_kernel) = (OF_FUNCTION.get()?, OF_KERNEL.get()?);
    // SAFETY: the call stores a number, and refuses other kinds of handles.
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
    // SAFETY: the call stores a number. It waits only while another thread loads, as would the launch.
    stored(0, |bytes| unsafe { get_limit(bytes, which) })
}
