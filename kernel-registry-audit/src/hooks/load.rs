//! What hooks do when code is loaded, kernels are, or limits change.

use std::ffi::{CStr, c_char, c_void};

use cudarc::driver::sys::{CUfunction, CUlimit, CUresult, CUstream};

use super::{name, of, plain};
use crate::record::Kind;
use crate::watched::{Call, Happening, during, event, launched, now, timed};
use crate::{known, ready, real, watched};

/// A launch. That of a kernel which is known to be loaded neither locks nor allocates.
#[inline]
pub(super) fn launch(
    hook: u32,
    function: CUfunction,
    stream: CUstream,
    real: impl FnOnce() -> CUresult,
) -> CUresult {
    let (kernel, stream) = (function.addr() as u64, stream.addr() as u64);
    let call = Call { hook, subject: kernel, stream };
    if known::is_loaded(kernel) { watched::launch(call, real) } else { first(call, function, real) }
}

/// The first launch of a kernel.
#[cold]
fn first(call: Call, function: CUfunction, real: impl FnOnce() -> CUresult) -> CUresult {
    launched(call.stream, call.subject);
    if driver_says_loaded(function) {
        known::loaded(call.subject);
        return timed(call, name(call.hook), real);
    }
    load(call, &kernel_name(function), real)
}

/// A call that loads a kernel unless it is loaded.
pub(super) fn kernel(
    hook: u32,
    function: CUfunction,
    out: Option<*mut CUfunction>,
    real: impl FnOnce() -> CUresult,
) -> CUresult {
    let call = Call { subject: function.addr() as u64, ..plain(hook) };
    let result = if known::is_loaded(call.subject) || driver_says_loaded(function) {
        timed(call, name(hook), real)
    } else {
        load(call, &kernel_name(function), real)
    };
    if let (CUresult::CUDA_SUCCESS, Some(out)) = (result, out.filter(|out| !out.is_null())) {
        // SAFETY: the driver has stored the handle there.
        let handle = unsafe { *out }.addr() as u64;
        known::name(handle, &of(call.subject));
        known::loaded(handle);
    }
    result
}

/// Makes the call that loads a kernel, and records that.
fn load(call: Call, kernel: &str, real: impl FnOnce() -> CUresult) -> CUresult {
    let words = || {
        format!(
            "`{}` of kernel `{kernel}`, which is not loaded; load it before the program is ready",
            name(call.hook)
        )
    };
    let result = late(call, Kind::Load, kernel, words, real);
    if result == CUresult::CUDA_SUCCESS {
        known::loaded(call.subject);
    }
    result
}

/// Loads an image.
pub(super) fn image(hook: u32, what: &str, real: impl FnOnce() -> CUresult) -> CUresult {
    recorded(hook, Kind::Image, what, real)
}

/// Sets a limit: a stack limit, or the size of a buffer.
pub(super) fn limit(hook: u32, which: CUlimit, value: usize, real: impl FnOnce() -> CUresult) -> CUresult {
    let which = match which {
        CUlimit::CU_LIMIT_STACK_SIZE => "stack",
        CUlimit::CU_LIMIT_PRINTF_FIFO_SIZE => "printf buffer",
        CUlimit::CU_LIMIT_MALLOC_HEAP_SIZE => "heap",
        _ => return timed(plain(hook), name(hook), real),
    };
    recorded(hook, Kind::Resize, &format!("{which} of {value} bytes"), real)
}

/// A call that loads an image or sets a limit, and is recorded.
fn recorded(hook: u32, kind: Kind, what: &str, real: impl FnOnce() -> CUresult) -> CUresult {
    let words = || format!("`{}` ({what}); do it before the program is ready", name(hook));
    late(plain(hook), kind, what, words, real)
}

/// A call that is late once the program is ready: it is recorded, or refused with these words.
fn late(
    call: Call,
    kind: Kind,
    subject: &str,
    words: impl FnOnce() -> String,
    real: impl FnOnce() -> CUresult,
) -> CUresult {
    let begun = now();
    let happening =
        |kind, took, result| Happening { kind, call, name: name(call.hook), subject, begun, took, result };
    if let Some(refused) = ready::refusal(words) {
        event(happening(Kind::Refused, 0, refused));
        return refused;
    }
    let result = during(call, real);
    event(happening(kind, now() - begun, result));
    result
}

/// A call after which handles stand for nothing.
pub(super) fn unload(hook: u32, real: impl FnOnce() -> CUresult) -> CUresult {
    known::forget();
    let result = timed(plain(hook), name(hook), real);
    known::forget();
    result
}

/// A call that returns the handle of a kernel by its name.
pub(super) fn names<T>(
    hook: u32,
    out: *mut *mut T,
    kernel: *const c_char,
    real: impl FnOnce() -> CUresult,
) -> CUresult {
    let result = timed(plain(hook), name(hook), real);
    if result == CUresult::CUDA_SUCCESS && !out.is_null() && !kernel.is_null() {
        // SAFETY: the driver has stored the handle there, and has read the name, which ends with a zero.
        let (handle, kernel) = unsafe { (*out, CStr::from_ptr(kernel)) };
        known::name(handle.addr() as u64, &kernel.to_string_lossy());
    }
    result
}

/// What an image is, by its first bytes.
pub(super) fn code(bytes: *const c_void) -> &'static str {
    if bytes.is_null() {
        return "nothing";
    }
    // SAFETY: every image has four bytes.
    match unsafe { bytes.cast::<[u8; 4]>().read_unaligned() } {
        [0x7f, b'E', b'L', b'F'] => "cubin",
        [0x50, 0xed, 0x55, 0xba] => "fatbin",
        // The wrapper around a fatbin, as nvcc embeds it.
        [0xb1, 0x43, 0x62, 0x46] => "fatbin",
        _ => "PTX",
    }
}

/// Whether the driver says that a function is loaded. It does not say it of a `CUkernel`.
fn driver_says_loaded(function: CUfunction) -> bool {
    type IsLoaded = unsafe extern "C" fn(*mut u32, CUfunction) -> CUresult;
    static IS_LOADED: real::Function = real::Function::new(c"cuFuncIsLoaded");
    let address = IS_LOADED.address();
    if address.is_null() {
        return false;
    }
    // SAFETY: the type is that of the function of this name.
    let is_loaded: IsLoaded = unsafe { std::mem::transmute(address) };
    let mut state = 0;
    // SAFETY: the handle is the one that the program is about to use.
    unsafe { is_loaded(&mut state, function) == CUresult::CUDA_SUCCESS && state == 1 }
}

/// The kernel's name, from the call that gave the handle or from the driver.
fn kernel_name(function: CUfunction) -> String {
    let handle = function.addr() as u64;
    if let Some(name) = known::named(handle) {
        return name;
    }
    type GetName = unsafe extern "C" fn(*mut *const c_char, CUfunction) -> CUresult;
    static NAMES: [real::Function; 2] =
        [real::Function::new(c"cuFuncGetName"), real::Function::new(c"cuKernelGetName")];
    for get in &NAMES {
        let address = get.address();
        if address.is_null() {
            continue;
        }
        // SAFETY: both have this type, but for what the handle is called.
        let get: GetName = unsafe { std::mem::transmute(address) };
        let mut text = std::ptr::null();
        // SAFETY: the handle is one that the program is about to use, of either kind; the driver refuses the other.
        if unsafe { get(&mut text, function) } == CUresult::CUDA_SUCCESS && !text.is_null() {
            // SAFETY: the driver's text ends with a zero.
            let text = unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned();
            known::name(handle, &text);
            return text;
        }
    }
    format!("kernel {handle:#x}")
}
