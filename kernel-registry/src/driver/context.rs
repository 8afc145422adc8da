//! Contexts: identifies them, and makes them current.

use std::ptr;

use cudarc::driver::{CudaContext, sys};

use super::{DriverCallError, Relaxed, call};

/// The driver's id of a context, which it never uses again. An address does not identify a context: a primary context that
/// is reset keeps its address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ContextId(pub(crate) u64);

impl ContextId {
    /// Asks the driver.
    pub fn query(context: &CudaContext) -> Result<Self, DriverCallError> {
        let mut id = 0;
        // SAFETY: the context lives as long as its `CudaContext`.
        call("cuCtxGetId", unsafe { sys::cuCtxGetId(context.cu_ctx(), &mut id) })?;
        Ok(ContextId(id))
    }

    /// The primary context of a device, if there is one.
    pub(crate) fn query_primary(device: sys::CUdevice) -> Result<Option<Self>, DriverCallError> {
        let (mut flags, mut active) = (0, 0);
        // SAFETY: it asks for the state of a device.
        let state = unsafe { sys::cuDevicePrimaryCtxGetState(device, &mut flags, &mut active) };
        call("cuDevicePrimaryCtxGetState", state)?;
        if active == 0 {
            return Ok(None);
        }
        let (mut context, mut id) = (ptr::null_mut(), 0);
        // SAFETY: while it is retained, another thread can only reset it, which keeps its address.
        let asked = unsafe {
            call("cuDevicePrimaryCtxRetain", sys::cuDevicePrimaryCtxRetain(&mut context, device))?;
            let asked = sys::cuCtxGetId(context, &mut id);
            // After a reset there may be nothing left to release.
            let _ = sys::cuDevicePrimaryCtxRelease_v2(device);
            asked
        };
        call("cuCtxGetId", asked).map(|()| Some(ContextId(id)))
    }
}

/// Makes a context current in this thread, as cudarc does, and leaves it current. The error may be that of an earlier
/// call, which cudarc keeps for the next call that can return it.
pub fn bind(context: &CudaContext) -> Result<(), DriverCallError> {
    context.bind_to_thread().map_err(|error| DriverCallError::new("CudaContext::bind_to_thread", error.0))
}

/// Makes a context current in this thread until it is dropped; then the former one is current again. An error that cudarc keeps for its
/// user stays where it is. As with [`Current`](super::Current), captures are left alone.
pub struct Pushed(#[expect(dead_code, reason = "its drop ends it")] Relaxed);

impl Pushed {
    /// Makes a context current.
    pub fn new(context: &CudaContext) -> Result<Self, DriverCallError> {
        // SAFETY: the context lives as long as its `CudaContext`.
        unsafe { Pushed::raw(context.cu_ctx()) }
    }

    /// # Safety
    ///
    /// The context is valid.
    pub(crate) unsafe fn raw(context: sys::CUcontext) -> Result<Self, DriverCallError> {
        let relaxed = Relaxed::new()?;
        // SAFETY: see above.
        call("cuCtxPushCurrent", unsafe { sys::cuCtxPushCurrent_v2(context) })?;
        Ok(Pushed(relaxed))
    }
}

impl Drop for Pushed {
    fn drop(&mut self) {
        let mut popped = ptr::null_mut();
        // SAFETY: it was pushed in this thread. A failure cannot be reported.
        let _ = unsafe { sys::cuCtxPopCurrent_v2(&mut popped) };
    }
}

/// The architecture of a context's device: 90 for sm_90.
pub(crate) fn architecture(context: &CudaContext) -> Result<u32, DriverCallError> {
    let capability = context.compute_capability();
    let (major, minor) = capability.map_err(|error| DriverCallError::new("cuDeviceGetAttribute", error.0))?;
    Ok(major.unsigned_abs() * 10 + minor.unsigned_abs())
}
