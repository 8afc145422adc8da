//! Queries the driver about addresses, which never waits.

use std::collections::HashSet;
use std::ffi::c_void;
use std::ptr;

use cudarc::driver::sys::{CUdevice, CUdeviceptr, CUmemorytype, CUpointer_attribute, CUresult};

use crate::watch::known::devices::{self, Devices};
use crate::watch::known::owners::Owner;
use crate::watch::loader::real::{driver_function, stored};
use crate::watch::process::locked::Locked;

/// Returns whether memory was allocated by the driver, or registered.
pub(crate) fn is_known(address: u64) -> bool {
    attribute(CUpointer_attribute::CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address).is_some()
}

/// Returns the devices that can access memory: all of them, if it's managed or not the driver's.
pub(crate) fn devices(address: u64) -> Devices {
    let ordinal = attribute(CUpointer_attribute::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address);
    match ordinal {
        // The driver stores 32 bits. Negative numbers mean no device.
        Some(ordinal) if !is_managed(address) && ordinal as CUdevice >= 0 => {
            devices::using_memory_of(ordinal as CUdevice)
        }
        _ => Devices::ALL,
    }
}

/// Returns the context that memory belongs to.
pub(crate) fn owner(address: u64) -> Option<Owner> {
    let context = attribute(CUpointer_attribute::CU_POINTER_ATTRIBUTE_CONTEXT, address);
    context.filter(|context| *context != 0).map(Owner::Context)
}

/// Returns the size of the allocation that an address is in.
pub(crate) fn size(address: u64) -> u64 {
    attribute(CUpointer_attribute::CU_POINTER_ATTRIBUTE_RANGE_SIZE, address).unwrap_or(0)
}

fn is_managed(address: u64) -> bool {
    attribute(CUpointer_attribute::CU_POINTER_ATTRIBUTE_IS_MANAGED, address) != Some(0)
}

/// Returns whether an address is in host memory that is not managed.
pub(crate) fn is_of_host(address: u64) -> bool {
    const HOST: u64 = CUmemorytype::CU_MEMORYTYPE_HOST as u64;
    attribute(CUpointer_attribute::CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address) == Some(HOST)
        && !is_managed(address)
}

/// Returns whether an address is within an allocation, but not its start. Only the start can be freed.
pub(crate) fn is_inside(address: u64) -> bool {
    let start = attribute(CUpointer_attribute::CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, address);
    start.is_some_and(|start| start != address)
}

/// Returns whether memory is from a pool, and is therefore freed without waiting.
pub(crate) fn is_pooled(address: u64) -> bool {
    // Drivers before CUDA 11.3 don't know the attribute, and have no pools.
    attribute(CUpointer_attribute::CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, address).is_some_and(|pool| pool != 0)
}

/// Host memory that the program has registered. To the driver it looks like its own host memory.
static REGISTERED: Locked<HashSet<u64>> = Locked::new();

/// Calls `real`, which registers host memory.
pub(crate) fn register(address: *mut c_void, real: impl FnOnce() -> CUresult) -> CUresult {
    let result = real();
    if result == CUresult::CUDA_SUCCESS {
        REGISTERED.lock().insert(address.addr() as u64);
    }
    result
}

pub(crate) fn is_registered(address: u64) -> bool {
    REGISTERED.lock().contains(&address)
}

pub(crate) fn forget_registered(address: u64) {
    REGISTERED.lock().remove(&address);
}

fn attribute(which: CUpointer_attribute, address: u64) -> Option<u64> {
    driver_function!(static GET = cuPointerGetAttribute(*mut c_void, CUpointer_attribute, CUdeviceptr));
    let get = GET.get()?;
    // SAFETY: the value has room for a number or a handle. The address isn't accessed.
    stored(0_u64, |value| unsafe { get(ptr::from_mut(value).cast(), which, address) })
}
