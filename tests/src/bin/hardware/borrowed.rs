//! Checks contexts and streams that another library created.

use std::ptr;
use std::sync::Arc;
use std::time::Duration;

use kernel_registry::cudarc::driver::{result, sys};
use kernel_registry::{Warm, borrow_context, warm_all};

use crate::checked::Checked;
use crate::checks::ensure;
use crate::resident::{Resident, Status};
use crate::samples;

pub(crate) fn borrowed(warm: &Warm, _: Duration) -> Checked {
    let device = result::device::get(0)?;
    let (mut raw, mut current) = (ptr::null_mut(), ptr::null_mut());
    // SAFETY: this function destroys the context at its end. `cuCtxCreate` has made the context current.
    unsafe {
        sys::cuCtxCreate_v4(&mut raw, ptr::null_mut(), 0, device).result()?;
        sys::cuCtxPopCurrent_v2(&mut current).result()?;
        sys::cuCtxSetCurrent(ptr::null_mut()).result()?;
    }
    // SAFETY: the context exists until the end of this function.
    let context = unsafe { borrow_context(raw.cast()) }?;
    // SAFETY: the driver writes to `current`.
    unsafe { sys::cuCtxGetCurrent(&mut current) }.result()?;
    ensure(current.is_null(), "the thread's context was changed")?;
    ensure(context.cu_ctx() == raw && !context.is_primary(), "it is another context")?;
    warm_all(&context)?.recheck()?;
    // SAFETY: the context still exists.
    let again = unsafe { borrow_context(raw.cast()) }?;
    ensure(Arc::ptr_eq(&again, &context), "after the warm-up it is another `CudaContext`")?;

    let mut stream = ptr::null_mut();
    const FLAGS: u32 = sys::CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
    context.bind_to_thread()?;
    // SAFETY: a context is current, and the stream is destroyed with it.
    let stream = unsafe {
        sys::cuStreamCreate(&mut stream, FLAGS).result()?;
        context.wrap_borrowed_stream(stream)
    };
    let resident = Resident::start(&context, Duration::from_secs(5))?;
    samples::ALL[0].1(&stream)?;
    ensure(resident.status() == Status::Spinning, "the launch waited")?;
    resident.release()?;
    drop((stream, again, context));
    // SAFETY: the context still exists, because a borrowed `CudaContext` does not destroy it.
    unsafe {
        sys::cuCtxPushCurrent_v2(raw).result()?;
        sys::cuCtxSynchronize().result()?;
        sys::cuCtxPopCurrent_v2(&mut current).result()?;
    }
    // SAFETY: nothing uses the context any more.
    unsafe { sys::cuCtxDestroy_v2(raw) }.result()?;

    // SAFETY: the primary context lives as long as the receipt.
    let primary = unsafe { borrow_context(warm.context().cu_ctx().cast()) }?;
    ensure(Arc::ptr_eq(&primary, warm.context()), "the primary context is another `CudaContext`")?;
    Ok("warmed and launched in both kinds, and left alone".into())
}
