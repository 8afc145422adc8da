//! Allocates and frees host memory that devices can access.

use std::ffi::c_void;
use std::ptr::{self, NonNull};

use cudarc::driver::{CudaContext, sys};
use kernel_registry::__private_0_1::resident::{ContextId, Current, Driver, Pushed, call, driver_error};
use kernel_registry::DriverUnavailable;

/// Allocates host memory that every context can access under the same address.
pub(crate) fn allocate_host(
    context: &CudaContext,
    bytes: usize,
) -> Result<NonNull<c_void>, DriverUnavailable> {
    let _current = Current::new(context, Driver::get()?)?;
    let flags = sys::CU_MEMHOSTALLOC_PORTABLE | sys::CU_MEMHOSTALLOC_DEVICEMAP;
    let mut address = ptr::null_mut();
    // SAFETY: a context is current.
    call("cuMemHostAlloc", unsafe { sys::cuMemHostAlloc(&mut address, bytes, flags) })?;
    let none = driver_error("cuMemHostAlloc", sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY);
    Ok(NonNull::new(address).ok_or(none)?)
}

/// Frees memory of `allocate_host`. Waits for everything that runs in the memory's context, but not for other
/// contexts.
///
/// # Safety
///
/// The memory was allocated by [`allocate_host`] in this context, when the context had this id. The host no
/// longer uses it.
pub(crate) unsafe fn free_host(context: &CudaContext, id: ContextId, address: NonNull<c_void>) {
    // If the context is gone, so is the memory. After a reset, the address may belong to other memory.
    if Driver::get().is_err() {
        return;
    }
    let Ok(_pushed) = Pushed::new(context) else { return };
    if ContextId::query(context) != Ok(id) {
        return;
    }
    // SAFETY: the caller's promise; the driver waits for kernels. A failure cannot be reported.
    let _ = unsafe { sys::cuMemFreeHost(address.as_ptr()) };
}
