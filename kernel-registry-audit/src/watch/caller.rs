//! Which library called: the first function of the stack that is neither ours, nor the driver's, nor the runtime API's.

use std::env;
use std::ffi::{CStr, c_void};
use std::fmt::Write as _;
use std::mem::MaybeUninit;
use std::sync::OnceLock;

use super::build_id::build_id;
use super::python::{self, Frame};

/// Frames that are looked at.
pub(crate) const DEPTH: usize = 48;

/// Who called a hook.
#[derive(Default)]
pub(crate) struct Caller {
    pub(crate) library: String,
    /// Library and function, `libtorch_cuda.so cublasCreate_v2`.
    pub(crate) name: String,
    /// The stack below it, a line for each frame.
    pub(crate) stack: String,
}

/// The caller of a hook.
pub(crate) fn find(hook: *const c_void) -> Caller {
    let mut frames = [std::ptr::null_mut::<c_void>(); DEPTH];
    // SAFETY: there is room for so many addresses.
    let count = unsafe { libc::backtrace(frames.as_mut_ptr(), DEPTH as i32) };
    find_among(&frames[..count.max(0) as usize], hook).in_python(&python::frames())
}

impl Caller {
    /// The caller, where the thread also has Python frames: then the user's function called.
    pub(crate) fn in_python(self, frames: &[Frame]) -> Caller {
        let Some(user) = python::of_user(frames) else { return self };
        let name = |frame: &Frame| format!("{}:{} {}", frame.file, frame.line, frame.function);
        let short = user.file.rsplit('/').next().unwrap_or_default();
        let lines: String = frames.iter().map(|frame| format!("{}\n", name(frame))).collect();
        let caller = name(&Frame { file: short.to_owned(), ..user.clone() });
        Caller { name: caller, stack: lines + &self.stack, library: self.library }
    }
}

/// Libraries whose calls are made for another one.
const INSIDE: [&str; 6] = ["libcuda.so", "libcudart.so", "libc.so", "ld-linux", "libffi.so", "_ctypes."];

/// No hook is larger.
const LARGEST: usize = 1 << 16;

/// The caller is the first frame outside of the hook, the driver and the runtime API. The stack begins there.
pub(crate) fn find_among(frames: &[*mut c_void], hook: *const c_void) -> Caller {
    // Hooks in the program itself: the frame of the hook has the nearest address after its beginning.
    let after = |address: &*mut c_void| address.addr().checked_sub(hook.addr()).unwrap_or(usize::MAX);
    let nearest = (0..frames.len()).min_by_key(|index| after(&frames[*index]));
    let skipped = nearest.filter(|index| after(&frames[*index]) < LARGEST).map_or(0, |index| index + 1);
    // Hooks in a library of their own: all of that library is skipped.
    let own = library(hook).filter(|_| cfg!(feature = "export")).map(|frame| frame.library);
    let is_inside = |(_, frame): &(_, Native)| {
        Some(&frame.library) == own.as_ref() || INSIDE.iter().any(|inside| frame.library.starts_with(inside))
    };
    let frames = frames[skipped..].iter().filter_map(|address| Some((address, library(*address)?)));
    let outside: Vec<_> = frames.skip_while(is_inside).collect();
    let mut stack = String::new();
    for (address, Native { path, library, function, offset }) in &outside {
        // Writing to a `String` does not fail.
        let _ = match function {
            Some(function) => writeln!(stack, "{library} {function}+{offset:#x}"),
            // A reader of the record may find the function in this file.
            None => match build_id(**address) {
                Some(id) => writeln!(stack, "{path}#{id}+{offset:#x}"),
                None => writeln!(stack, "{library}+{offset:#x}"),
            },
        };
    }
    let Some((_, Native { library, function, .. })) = outside.into_iter().next() else {
        return Caller { stack, ..Caller::default() };
    };
    let name = match function {
        Some(function) => format!("{library} {function}"),
        None => library.clone(),
    };
    Caller { library, name, stack }
}

struct Native {
    path: String,
    library: String,
    function: Option<String>,
    /// Bytes from the function, or else from the beginning of the library.
    offset: usize,
}

fn library(address: *const c_void) -> Option<Native> {
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
    let path = if path.starts_with('/') { path.into_owned() } else { program().to_owned() };
    Some(Native {
        path,
        library,
        function: name.map(Into::into),
        offset: address.addr().wrapping_sub(start.addr()),
    })
}

/// The path of the program, which the loader may know by a relative one only.
fn program() -> &'static str {
    static PROGRAM: OnceLock<String> = OnceLock::new();
    PROGRAM.get_or_init(|| env::current_exe().unwrap_or_default().to_string_lossy().into_owned())
}
