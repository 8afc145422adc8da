//! What the driver knows of an address. Asking never waits.

use std::ffi::c_void;

use cudarc::driver::sys::{CUdevice, CUdeviceptr, CUmemorytype, CUpointer_attribute, CUresult};

use crate::watch::real::Function;
use crate::watch::section::Place;

/// Whether memory was allocated by the driver, or registered.
pub(crate) fn is_known(address: u64) -> bool {
    attribute(CUpointer_attribute::CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address).is_some()
}

/// Which kernels can use memory that the driver allocated: those of a device, or of all if it is managed.
pub(crate) fn place(address: u64) -> Place {
    let managed = attribute(CUpointer_attribute::CU_POINTER_ATTRIBUTE_IS_MANAGED, address);
    let ordinal = attribute(CUpointer_attribute::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address);
    match (managed, ordinal) {
        // The driver stores 32 bits. Negative numbers are no devices.
        (Some(0), Some(ordinal)) if ordinal as CUdevice >= 0 => Place::Device(ordinal as CUdevice),
        _ => Place::Everywhere,
    }
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
