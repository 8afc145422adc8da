//! A stream for the kernels that warming launches.

use std::ffi::c_void;
use std::ptr;

use cudarc::driver::sys;

use super::{DriverCallError, Function, call};

/// A stream that does not wait for other streams, not even for the default stream.
pub(crate) struct Stream(sys::CUstream);

impl Stream {
    /// Creates a stream in the current context. The caller has a `Current`.
    pub(crate) fn new() -> Result<Self, DriverCallError> {
        let mut stream = ptr::null_mut();
        const FLAGS: u32 = sys::CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
        // SAFETY: the caller's `Current` has made a context current.
        call("cuStreamCreate", unsafe { sys::cuStreamCreate(&mut stream, FLAGS) })?;
        Ok(Stream(stream))
    }

    /// Launches one thread of a kernel whose only parameter, an `int`, is 0.
    pub(crate) fn launch(&self, function: Function) -> Result<(), DriverCallError> {
        let mut zero = 0_i32;
        let mut args: [*mut c_void; 1] = [(&raw mut zero).cast()];
        // SAFETY: the kernels of prime.cu and first.cu take one `int`, and with 0 they do nothing.
        call("cuLaunchKernel", unsafe {
            let none = ptr::null_mut();
            sys::cuLaunchKernel(function.0, 1, 1, 1, 1, 1, 1, 0, self.0, args.as_mut_ptr(), none)
        })
    }

    /// Waits until all kernels that were launched in this stream have ended.
    pub(crate) fn wait(&self) -> Result<(), DriverCallError> {
        // SAFETY: the stream exists until it is dropped.
        call("cuStreamSynchronize", unsafe { sys::cuStreamSynchronize(self.0) })
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // SAFETY: the stream has no other owner. A failure here repeats an earlier failure, which was reported.
        let _ = unsafe { sys::cuStreamDestroy_v2(self.0) };
    }
}
