//! A watched function, and a call of a watched function. The table of all watched functions is in `hooks`, and is set
//! here at the first call.

use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::OnceLock;

use cudarc::driver::sys::CUresult;

use crate::record::Subject;
use crate::watch::process::fork;

/// A watched function, as programs ask for it.
pub(crate) struct Hook {
    /// The exported symbol.
    pub(crate) name: &'static str,
    /// The name in `cuGetProcAddress`.
    pub(crate) base: &'static str,
    /// The first CUDA version for which that name means this function.
    pub(crate) since: c_int,
    /// Whether the function is the variant for per-thread default streams.
    pub(crate) per_thread: bool,
    pub(crate) address: *const c_void,
}

// SAFETY: the address is that of a function.
unsafe impl Sync for Hook {}

static HOOKS: OnceLock<&[Hook]> = OnceLock::new();

/// Sets the table to which the numbers of hooks refer.
pub(crate) fn use_table(hooks: &'static [Hook]) {
    fork::once(&HOOKS, || hooks);
}

/// Returns all watched functions.
pub(crate) fn list_hooks() -> &'static [Hook] {
    HOOKS.get().copied().unwrap_or_default()
}

/// Returns the name of a function by its number.
pub(crate) fn name(number: u32) -> &'static str {
    list_hooks().get(number as usize).map_or("a call", |hook| hook.name)
}

/// Returns the address of a hook by its number.
pub(crate) fn address(number: u32) -> *const c_void {
    list_hooks().get(number as usize).map_or(ptr::null(), |hook| hook.address)
}

/// A call in progress.
#[derive(Clone, Copy)]
pub(crate) struct Call {
    /// The function's number in the table of hooks.
    pub(crate) hook: u32,
    /// The handle or the address that the call is about, or 0.
    pub(crate) subject: u64,
    pub(crate) stream: u64,
}

impl Call {
    /// Returns a call about nothing, in no stream.
    pub(crate) fn plain(hook: u32) -> Self {
        Call { hook, subject: 0, stream: 0 }
    }

    /// Returns the call, about a handle.
    pub(crate) fn about<T>(self, handle: *mut T) -> Self {
        self.at(handle.addr() as u64)
    }

    /// Returns the call, about an address.
    pub(crate) fn at(self, subject: u64) -> Self {
        Call { subject, ..self }
    }

    /// Returns the call, in a stream.
    pub(crate) fn on<T>(self, stream: *mut T) -> Self {
        Call { stream: stream.addr() as u64, ..self }
    }

    pub(crate) fn name(self) -> &'static str {
        name(self.hook)
    }

    /// Returns what the call is about, for an event.
    pub(crate) fn described<'a>(self) -> Subject<&'a str> {
        match self {
            Call { subject: 0, stream: 0, .. } => Subject::Nothing,
            Call { subject: 0, .. } => Subject::Stream,
            Call { subject: handle, .. } => Subject::Handle { handle },
        }
    }
}

/// Calls `use_it` with the handle that the driver has stored, if the call succeeded. Returns the call's result.
pub(crate) fn with_handle<T>(result: CUresult, out: *mut *mut T, use_it: impl FnOnce(u64)) -> CUresult {
    if let Some(handle) = stored_handle(result, out) {
        use_it(handle);
    }
    result
}

/// Returns the handle that the driver has stored, if the call succeeded.
pub(crate) fn stored_handle<T>(result: CUresult, out: *mut *mut T) -> Option<u64> {
    // SAFETY: the driver has stored the handle there.
    (result == CUresult::CUDA_SUCCESS && !out.is_null()).then(|| unsafe { *out }.addr() as u64)
}
