//! What the driver knows of an address. Asking never waits.

use std::ffi::c_void;

use cudarc::driver::sys::{CUdevice, CUdeviceptr, CUmemorytype, CUpointer_attribute, CUresult};

use crate::watch::real::Function;

/// The device on which memory was allocated, or `None` if that is not the driver's.
pub(crate) fn device(address: u64) -> Option<CUdevice> {
    let ordinal = attribute(CUpointer_attribute::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address)?;
    // The driver stores 32 bits.
    Some(ordinal as CUdevice)
}

/// Whether an address is in host memory, which `cuMemFreeHost` frees.
pub(crate) fn is_of_host(address: u64) -> bool {
    const HOST: u64 = CUmemorytype::CU_MEMORYTYPE_HOST as u64;
    attribute(CUpointer_attribute::CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address) == Some(HOST)
}

/// Whether memory begins before an address, where it is not freed.
pub(crate) fn is_inside(address: u64) -> bool {
    let start = attribute(CUpointer_attribute::CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, address);
    start.is_some_and(|start| start != address)
}

/// Whether memory is of a pool, and so is freed without waiting.
pub(crate) fn is_pooled(address: u64) -> bool {
    // Drivers before CUDA 11.3 have no pools, and refuse.
    attribute(CUpointer_attribute::CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, address).is_some_and(|pool| pool != 0)
}

fn attribute(which: CUpointer_attribute, address: u64) -> Option<u64> {
    type Get = unsafe extern "C" fn(*mut c_void, CUpointer_attribute, CUdeviceptr) -> CUresult;
    // SAFETY: this is the type of the function of that name.
    static GET: Function<Get> = unsafe { Function::new(c"cuPointerGetAttribute") };
    let mut value = 0_u64;
    // SAFETY: the value has room for a number or a handle. The address is only looked up.
    let result = unsafe { GET.get()?((&raw mut value).cast(), which, address) };
    (result == CUresult::CUDA_SUCCESS).then_some(value)
}
