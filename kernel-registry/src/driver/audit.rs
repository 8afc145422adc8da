//! An audit in front of the driver (kernel-registry-audit), which has functions of its own. Without one, nothing happens.

use std::ffi::{CStr, CString, c_char};

use cudarc::driver::{CudaStream, sys};
use kernel_registry_cuda::OnWait;

use super::{Driver, OLDEST, lookup};

type Ready = unsafe extern "C" fn();
type Begin = unsafe extern "C" fn(*const c_char, sys::CUcontext, sys::CUstream, u32) -> u64;
type End = unsafe extern "C" fn(u64) -> u64;

impl Driver {
    /// Tells an audit that the program uses this crate.
    pub(super) fn attach(&self) {
        // SAFETY: this is its type.
        if let Some(attach) = unsafe { self.of_audit::<Ready>(c"kernel_registry_audit_attach") } {
            // SAFETY: it may be called at any time.
            unsafe { attach() }
        }
    }

    /// Tells an audit that the program is ready.
    pub(crate) fn mark_ready(&self) {
        // SAFETY: this is its type.
        if let Some(ready) = unsafe { self.of_audit::<Ready>(c"kernel_registry_audit_ready") } {
            // SAFETY: it may be called at any time.
            unsafe { ready() }
        }
    }

    /// Tells an audit that a resident kernel will be launched in this stream. Returns the number of the audit's section.
    pub(crate) fn begin_section(&self, kernel: &str, stream: &CudaStream, on_wait: OnWait) -> Option<u64> {
        // SAFETY: this is its type.
        let begin = unsafe { self.of_audit::<Begin>(c"kernel_registry_audit_section_begin") }?;
        let kernel = CString::new(kernel).unwrap_or_default();
        let context = stream.context().cu_ctx();
        // SAFETY: the text ends with a zero, and is copied.
        Some(unsafe { begin(kernel.as_ptr(), context, stream.cu_stream(), on_wait.code()) })
    }

    /// Tells an audit that the kernel has ended. Returns how many deferred calls it has made now.
    pub(crate) fn end_section(&self, number: u64) -> u64 {
        // SAFETY: this is its type.
        let end = unsafe { self.of_audit::<End>(c"kernel_registry_audit_section_end") };
        // SAFETY: the number is that of a section of this audit.
        end.map_or(0, |end| unsafe { end(number) })
    }

    /// A function that only an audit has.
    ///
    /// # Safety
    ///
    /// `F` is its type.
    unsafe fn of_audit<F: Copy>(&self, name: &CStr) -> Option<F> {
        // SAFETY: the caller's promise.
        let found = unsafe { lookup::<F>(name, OLDEST, self.version) };
        // A lookup that fails found no audit.
        found.ok().flatten()
    }
}
