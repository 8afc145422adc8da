//! Creates contexts other than the primary context, as other libraries do.

use std::ptr;
use std::sync::Arc;

use benches::Result;
use kernel_registry::cudarc::driver::{CudaContext, result, sys};

/// Makes another context on the first device.
pub(crate) fn new_context() -> Result<Arc<CudaContext>> {
    kernel_registry::context(0)?;
    let device = result::device::get(0)?;
    // SAFETY: the context is new, and the `CudaContext` owns it from here on.
    unsafe {
        let mut context = ptr::null_mut();
        sys::cuCtxCreate_v4(&mut context, ptr::null_mut(), 0, device).result()?;
        Ok(CudaContext::from_raw_context(0, device, context)?)
    }
}
