//! Stacks: a launch that needs a larger one enlarges it, and waits until nothing runs on the device.

use std::ffi::{c_int, c_void};
use std::mem;

use cudarc::driver::sys::{CUdevice, CUfunction, CUfunction_attribute, CUlimit, CUresult};

use crate::watch::real::Function;

/// A stack limit that is too low for a kernel, in bytes.
pub(super) struct Missing {
    pub(super) frame: usize,
    pub(super) limit: usize,
}

/// Whether the launch of a kernel will enlarge the stack, as far as its attribute tells: it does not of recursive kernels.
pub(super) fn missing(function: CUfunction) -> Option<Missing> {
    let frame = usize::try_from(frame(function)?).ok().filter(|frame| *frame > 0)?;
    let limit = limit()?;
    (frame > limit).then_some(Missing { frame, limit })
}

/// The frame of a kernel. Asking loads nothing.
fn frame(function: CUfunction) -> Option<c_int> {
    type OfFunction = unsafe extern "C" fn(*mut c_int, CUfunction_attribute, CUfunction) -> CUresult;
    type OfKernel = unsafe extern "C" fn(*mut c_int, CUfunction_attribute, CUfunction, CUdevice) -> CUresult;
    type GetDevice = unsafe extern "C" fn(*mut CUdevice) -> CUresult;
    static OF_FUNCTION: Function = Function::new(c"cuFuncGetAttribute");
    static OF_KERNEL: Function = Function::new(c"cuKernelGetAttribute");
    static GET_DEVICE: Function = Function::new(c"cuCtxGetDevice");
    const LOCAL: CUfunction_attribute = CUfunction_attribute::CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES;

    let (mut bytes, mut device) = (0, 0);
    let [of_function, of_kernel, get_device] = [&OF_FUNCTION, &OF_KERNEL, &GET_DEVICE].map(Function::address);
    if of_function.is_null() || of_kernel.is_null() || get_device.is_null() {
        return None;
    }
    // SAFETY: the types are those of the functions of these names. They store a number, and refuse the other kind of handle.
    unsafe {
        let of_function = mem::transmute::<*mut c_void, OfFunction>(of_function);
        let of_kernel = mem::transmute::<*mut c_void, OfKernel>(of_kernel);
        let get_device = mem::transmute::<*mut c_void, GetDevice>(get_device);
        let found = of_function(&mut bytes, LOCAL, function) == CUresult::CUDA_SUCCESS
            || get_device(&mut device) == CUresult::CUDA_SUCCESS
                && of_kernel(&mut bytes, LOCAL, function, device) == CUresult::CUDA_SUCCESS;
        found.then_some(bytes)
    }
}

/// The stack limit of the current context.
fn limit() -> Option<usize> {
    type GetLimit = unsafe extern "C" fn(*mut usize, CUlimit) -> CUresult;
    static GET_LIMIT: Function = Function::new(c"cuCtxGetLimit");
    let address = GET_LIMIT.address();
    if address.is_null() {
        return None;
    }
    // SAFETY: the type is that of the function of this name.
    let get_limit = unsafe { mem::transmute::<*mut c_void, GetLimit>(address) };
    let mut bytes = 0;
    // SAFETY: it stores a number. It waits only while another thread loads, as the launch does.
    let result = unsafe { get_limit(&mut bytes, CUlimit::CU_LIMIT_STACK_SIZE) };
    (result == CUresult::CUDA_SUCCESS).then_some(bytes)
}
