//! Opens a section of the audit around the resident kernel, in which calls that would wait for the kernel are
//! refused or deferred.

use std::ffi::{CStr, c_char};

use kernel_audit::Installed;
use kernel_registry::cudarc::driver::sys;

use crate::cuda::{self, Done, Failed};

type Begin = unsafe extern "C" fn(*const c_char, sys::CUcontext, sys::CUstream, u32) -> u64;
type End = extern "C" fn(u64) -> u64;

/// The flag that makes the audit defer calls that free, and refuse all others that would wait.
const DEFER: u32 = 2;

/// An open section, and the audit's function to end it.
pub(crate) struct Guard {
    section: u64,
    end: End,
}

/// Installs the audit in this process. Must come before the first driver call.
pub(crate) fn install() -> Done {
    match kernel_audit::install() {
        Ok(Installed::Now) => Ok(()),
        Ok(other) => Err(Failed(format!("the audit is {other:?}"))),
        Err(error) => Err(Failed(error.to_string())),
    }
}

impl Guard {
    /// Begins the section of the next kernel that is launched in this stream of the current context.
    pub(crate) fn begin(kernel: &CStr, stream: sys::CUstream) -> Done<Self> {
        let missing = || Failed("the audit has no sections".into());
        // SAFETY: `Begin` and `End` are the types of the audit's functions.
        let (begin, end) = unsafe {
            let begin = cuda::lookup::<Begin>(c"kernel_registry_audit_section_begin", 12_000);
            let end = cuda::lookup::<End>(c"kernel_registry_audit_section_end", 12_000);
            (begin.ok_or_else(missing)?, end.ok_or_else(missing)?)
        };
        let context = cuda::current_context()?;
        // SAFETY: the name ends with a zero.
        let section = unsafe { begin(kernel.as_ptr(), context, stream, DEFER) };
        Ok(Guard { section, end })
    }

    /// Ends the section after the kernel has ended. Returns how many deferred calls the audit has made now.
    pub(crate) fn end(self) -> u64 {
        (self.end)(self.section)
    }
}
