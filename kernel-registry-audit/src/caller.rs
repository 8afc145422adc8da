//! Which library called: the first function of the stack that is neither ours, nor the driver's, nor the runtime API's.

use std::ffi::{CStr, c_void};
use std::fmt::Write as _;
use std::mem::MaybeUninit;

/// Frames that are looked at.
pub(crate) const DEPTH: usize = 48;

/// The calling library and function, `libtorch_cuda.so cublasCreate_v2`, and the stack below it, a line for each frame.
pub(crate) fn caller() -> (String, String) {
    let mut frames = [std::ptr::null_mut::<c_void>(); DEPTH];
    // SAFETY: there is room for so many addresses.
    let count = unsafe { libc::backtrace(frames.as_mut_ptr(), DEPTH as i32) };
    lines(&frames[..count.max(0) as usize])
}

/// Libraries whose calls are made for another one.
const INSIDE: [&str; 4] = ["libcuda.so", "libcudart.so", "libc.so", "ld-linux"];

/// The first of these frames that is outside of this library, the driver and the runtime API, and all from there on as
/// lines.
pub(crate) fn lines(frames: &[*mut c_void]) -> (String, String) {
    let own = library(caller as *const c_void).map(|frame| frame.library);
    let is_inside = |frame: &Frame| {
        Some(&frame.library) == own.as_ref() || INSIDE.iter().any(|inside| frame.library.starts_with(inside))
    };
    let frames = frames.iter().filter_map(|address| library(*address));
    let outside: Vec<_> = frames.skip_while(is_inside).collect();
    let mut stack = String::new();
    for Frame { library, function, offset } in &outside {
        // Writing to a `String` does not fail.
        let _ = match function {
            Some(function) => writeln!(stack, "{library} {function}+{offset:#x}"),
            None => writeln!(stack, "{library}+{offset:#x}"),
        };
    }
    let first = outside.first().map(|Frame { library, function, .. }| match function {
        Some(function) => format!("{library} {function}"),
        None => library.clone(),
    });
    (first.unwrap_or_default(), stack)
}

struct Frame {
    library: String,
    function: Option<String>,
    /// Bytes from the function, or else from the beginning of the library.
    offset: usize,
}

fn library(address: *const c_void) -> Option<Frame> {
    let mut info = MaybeUninit::<libc::Dl_info>::uninit();
    // SAFETY: the answer has room; the address is only looked up.
    if unsafe { libc::dladdr(address, info.as_mut_ptr()) } == 0 {
        return None;
    }
    // SAFETY: it was found, so all fields are set; texts are those of loaded libraries and end with a zero.
    let (path, name, symbol, base) = unsafe {
        let info = info.assume_init();
        let text =
            |text: *const libc::c_char| (!text.is_null()).then(|| CStr::from_ptr(text).to_string_lossy());
        (text(info.dli_fname)?, text(info.dli_sname), info.dli_saddr, info.dli_fbase)
    };
    let library = path.rsplit('/').next().unwrap_or_default().to_owned();
    let start = if name.is_some() { symbol } else { base };
    Some(Frame { library, function: name.map(Into::into), offset: address.addr().wrapping_sub(start.addr()) })
}
