//! What launching costs once kernels are warm, and what warming leaves behind.

pub mod first;
pub mod growth;
pub mod overhead;
pub mod stub;

use std::ptr;
use std::sync::Arc;

use kernel_registry::cudarc::driver::{CudaContext, result, sys};

use crate::Result;

/// A context of its own on the first device.
fn new_context() -> Result<Arc<CudaContext>> {
    kernel_registry::context(0)?;
    let device = result::device::get(0)?;
    // SAFETY: the context is new, and from here on that of the `CudaContext`.
    unsafe {
        let mut context = ptr::null_mut();
        sys::cuCtxCreate_v4(&mut context, ptr::null_mut(), 0, device).result()?;
        Ok(CudaContext::from_raw_context(0, device, context)?)
    }
}
