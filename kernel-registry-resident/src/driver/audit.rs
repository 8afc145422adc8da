//! Notifies an audit (kernel-audit, a library in front of the driver) when a section begins and ends. Does
//! nothing without one.

use std::ffi::{CString, c_char};

use cudarc::driver::{CudaStream, sys};
use kernel_registry::__private_0_1::resident::Driver;
use kernel_registry_cuda::OnWait;

type Begin = unsafe extern "C" fn(*const c_char, sys::CUcontext, sys::CUstream, u32) -> u64;
type End = unsafe extern "C" fn(u64) -> u64;

/// Notifies an audit that a resident kernel will be launched in this stream. Returns the number of the
/// audit's section.
pub(crate) fn begin_section(
    driver: &Driver,
    kernel: &str,
    stream: &CudaStream,
    on_wait: OnWait,
) -> Option<u64> {
    // SAFETY: `Begin` is the type of this function.
    let begin = unsafe { driver.find_of_audit::<Begin>(c"kernel_registry_audit_section_begin") }?;
    let kernel = CString::new(kernel).unwrap_or_default();
    let context = stream.context().cu_ctx();
    // SAFETY: the text ends with a zero, and the audit copies it.
    Some(unsafe { begin(kernel.as_ptr(), context, stream.cu_stream(), on_wait.code()) })
}

/// Notifies an audit that the kernel has ended, so that it makes the deferred calls. Returns their number.
pub(crate) fn end_section(driver: &Driver, number: u64) -> u64 {
    // SAFETY: `End` is the type of this function.
    let end = unsafe { driver.find_of_audit::<End>(c"kernel_registry_audit_section_end") };
    // SAFETY: the audit has returned this number for the section.
    end.map_or(0, |end| unsafe { end(number) })
}
