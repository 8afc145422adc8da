//! Makes a `CudaContext` from a context that another library created.

use std::ffi::c_void;
use std::sync::{Arc, Mutex};

use cudarc::driver::{CudaContext, result, sys};

use crate::contexts::KnownContext;
use crate::driver::{ContextId, Driver, DriverCallError, DriverUnavailable, Pushed, call};
use crate::lock::lock;

/// Returns a context that another library created (C++ code, cust, cuda-core, another version of cudarc) as the `CudaContext`
/// that [`warm_all`](crate::warm_all) takes. This `CudaContext` never destroys the context.
///
/// The runtime library (`cudaSetDevice`, `<<<>>>`), PyTorch, cust and cuda-core use a device's *primary* context, which
/// [`context`](crate::context) returns, too. So this function is for contexts of `cuCtxCreate`. If the context was already
/// warmed, the result is the `CudaContext` of the warm-up. Otherwise the first call creates a `CudaContext`, and later calls for
/// the same context return that one.
///
/// A stream of another library needs no function of this crate: cudarc's `wrap_borrowed_stream` converts it to a `CudaStream`,
/// which every launch accepts.
///
/// # Safety
///
/// `context` is a valid `CUcontext`. The context is not destroyed before the last use of the returned `CudaContext`, of its
/// streams and slices, and of kernels that were warmed in it.
///
/// # Errors
///
/// The same errors as [`context`](crate::context), or the driver does not accept this context.
///
/// ```no_run
/// use std::ffi::c_void;
///
/// use kernel_registry::warm_all;
///
/// /// C++ code calls this once, with its context and its stream.
/// #[unsafe(no_mangle)]
/// unsafe extern "C" fn warm(context: *mut c_void, stream: *mut c_void) -> bool {
///     // SAFETY: the caller destroys the context and the stream at its end.
///     let Ok(context) = (unsafe { kernel_registry::borrow_context(context) }) else { return false };
///     // SAFETY: as above.
///     let _stream = unsafe { context.wrap_borrowed_stream(stream.cast()) };
///     warm_all(&context).is_ok()
/// }
/// ```
pub unsafe fn borrow_context(context: *mut c_void) -> Result<Arc<CudaContext>, DriverUnavailable> {
    Driver::get()?;
    let raw: sys::CUcontext = context.cast();
    let mut id = 0;
    // SAFETY: the caller guarantees that the context is valid.
    call("cuCtxGetId", unsafe { sys::cuCtxGetId(raw, &mut id) })?;
    let id = ContextId(id);
    if let Some(warmed) = KnownContext::find(id).and_then(|known| known.home()) {
        return Ok(warmed);
    }
    // SAFETY: as above.
    let current = unsafe { Pushed::raw(raw) }?;
    let mut device = 0;
    // SAFETY: a context is current.
    call("cuCtxGetDevice", unsafe { sys::cuCtxGetDevice(&mut device) })?;
    let ordinal = ordinal_of(device)?;
    if ContextId::query_primary(device)? == Some(id) {
        drop(current);
        return crate::context(ordinal);
    }
    let mut contexts = lock(&BORROWED);
    if let Some((_, borrowed)) = contexts.iter().find(|(known, _)| *known == id) {
        return Ok(borrowed.clone());
    }
    // SAFETY: as above. `BORROWED` keeps this `CudaContext` forever, so the context isn't destroyed through it.
    let borrowed = unsafe { CudaContext::from_raw_context(ordinal, device, raw) };
    let borrowed =
        borrowed.map_err(|error| DriverCallError::new("CudaContext::from_raw_context", error.0))?;
    contexts.push((id, borrowed.clone()));
    Ok(borrowed)
}

/// The borrowed contexts, each with its id when it was borrowed: a reset gives a context another id. They are never dropped, because
/// dropping a `CudaContext` would destroy the other library's context.
static BORROWED: Mutex<Vec<(ContextId, Arc<CudaContext>)>> = Mutex::new(Vec::new());

/// Returns the ordinal of a device, which [`crate::context`] takes.
fn ordinal_of(device: sys::CUdevice) -> Result<usize, DriverCallError> {
    let count =
        CudaContext::device_count().map_err(|error| DriverCallError::new("cuDeviceGetCount", error.0))?;
    let is_device = |ordinal: &i32| result::device::get(*ordinal).is_ok_and(|found| found == device);
    let ordinal = (0..count).find(is_device);
    // The device of a context is always found: it is one of the driver's devices.
    Ok(ordinal.unwrap_or(device).unsigned_abs() as usize)
}
