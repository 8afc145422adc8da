//! Identifies contexts, and makes contexts current.

use std::ptr;

use cudarc::driver::{CudaContext, sys};

use super::{DriverCallError, Relaxed, call};

/// The driver's id of a context. The driver never gives the same id to another context. An address does not identify a
/// context: a primary context that is reset keeps its address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ContextId(pub(crate) u64);

impl ContextId {
    /// Asks the driver for the id of a context.
    pub fn query(context: &CudaContext) -> Result<Self, DriverCallError> {
        let mut id = 0;
        // SAFETY: the context lives as long as its `CudaContext`.
        call("cuCtxGetId", unsafe { sys::cuCtxGetId(context.cu_ctx(), &mut id) })?;
        Ok(ContextId(id))
    }

    /// Asks the driver for the id of the context that is current in this thread, if there is one.
    #[cfg(all(feature = "adopt", target_os = "linux"))]
    pub(crate) fn current() -> Option<Self> {
        let (mut context, mut id) = (ptr::null_mut(), 0);
        // SAFETY: the call only reads which context is current.
        call("cuCtxGetCurrent", unsafe { sys::cuCtxGetCurrent(&mut context) }).ok()?;
        if context.is_null() {
            return None;
        }
        // SAFETY: a context that is current exists.
        call("cuCtxGetId", unsafe { sys::cuCtxGetId(context, &mut id) }).ok()?;
        Some(ContextId(id))
    }

    /// Asks the driver for the id of a device's primary context, if that context exists.
    pub(crate) fn query_primary(device: sys::CUdevice) -> Result<Option<Self>, DriverCallError> {
        let (mut flags, mut active) = (0, 0);
        // SAFETY: the call only reads the state of a device.
        let state = unsafe { sys::cuDevicePrimaryCtxGetState(device, &mut flags, &mut active) };
        call("cuDevicePrimaryCtxGetState", state)?;
        if active == 0 {
            return Ok(None);
        }
        let (mut context, mut id) = (ptr::null_mut(), 0);
        // SAFETY: while the context is retained, another thread can only reset it, and then it keeps its address.
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

/// Makes a context current in this thread, as cudarc does, and leaves it current. The returned error may belong to an earlier
/// call: cudarc keeps an error that a call could not return, for the next call that can.
pub fn bind(context: &CudaContext) -> Result<(), DriverCallError> {
    context.bind_to_thread().map_err(|error| DriverCallError::new("CudaContext::bind_to_thread", error.0))
}

/// A context that is current in this thread until this is dropped. Then the former context is current again. Unlike [`bind`],
/// this does not return an error that cudarc keeps. As with [`Current`](super::Current), the thread's calls do not fail because
/// some stream is being captured.
pub struct Pushed(#[expect(dead_code, reason = "dropping it ends the relaxed mode")] Relaxed);

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
        // SAFETY: the caller's promise.
        call("cuCtxPushCurrent", unsafe { sys::cuCtxPushCurrent_v2(context) })?;
        Ok(Pushed(relaxed))
    }
}

impl Drop for Pushed {
    fn drop(&mut self) {
        let mut popped = ptr::null_mut();
        // SAFETY: the context was pushed in this thread. A failure cannot be reported.
        let _ = unsafe { sys::cuCtxPopCurrent_v2(&mut popped) };
    }
}

/// Returns the architecture of a context's device: 90 for sm_90.
pub(crate) fn architecture(context: &CudaContext) -> Result<u32, DriverCallError> {
    let capability = context.compute_capability();
    let (major, minor) = capability.map_err(|error| DriverCallError::new("cuDeviceGetAttribute", error.0))?;
    Ok(major.unsigned_abs() * 10 + minor.unsigned_abs())
}
