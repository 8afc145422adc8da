//! Queries a stream: whether it waits for the default stream, is being captured, or is done.

use cudarc::driver::{CudaStream, sys};
use kernel_registry::__private_0_1::resident::{Pushed, call};
use kernel_registry::DriverCallError;

/// Returns whether a stream and the default stream wait for each other.
pub(crate) fn is_blocking(stream: &CudaStream) -> Result<bool, DriverCallError> {
    let mut flags = 0;
    // SAFETY: the stream exists as long as its `CudaStream`.
    call("cuStreamGetFlags", unsafe { sys::cuStreamGetFlags(stream.cu_stream(), &mut flags) })?;
    const NON_BLOCKING: u32 = sys::CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
    Ok(flags & NON_BLOCKING == 0)
}

/// Returns whether a stream is being captured, so that submitted work becomes part of a graph. The stream
/// isn't the default stream.
pub(crate) fn is_captured(stream: &CudaStream) -> Result<bool, DriverCallError> {
    let mut status = sys::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE;
    // SAFETY: as above.
    call("cuStreamIsCapturing", unsafe { sys::cuStreamIsCapturing(stream.cu_stream(), &mut status) })?;
    Ok(status != sys::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE)
}

/// Returns whether a stream has done all of its work. Never waits, doesn't disturb captures, and keeps the
/// thread's current context.
pub(crate) fn is_done(stream: &CudaStream) -> Result<bool, DriverCallError> {
    let _pushed = Pushed::new(stream.context())?;
    // SAFETY: the stream exists as long as its `CudaStream`.
    match unsafe { sys::cuStreamQuery(stream.cu_stream()) } {
        sys::CUresult::CUDA_ERROR_NOT_READY => Ok(false),
        answer => call("cuStreamQuery", answer).map(|()| true),
    }
}
