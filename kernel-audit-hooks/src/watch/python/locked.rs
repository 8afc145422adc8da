//! Reads this thread's frames through the C API, if the thread is attached to the interpreter (holds the GIL,
//! if there is one). The calls run no Python code, and preserve a pending exception.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::Arc;
use std::{ptr, slice};

use super::interpreter::{Frame, MOST, function, is_running};

type Object = *mut c_void;
type Getter = unsafe extern "C" fn(Object) -> Object;

/// Functions of the C API.
struct Api {
    attached: unsafe extern "C" fn() -> Object,
    thread: unsafe extern "C" fn() -> Object,
    frame: Getter,
    back: Getter,
    code: Getter,
    line: unsafe extern "C" fn(Object) -> c_int,
    attribute: unsafe extern "C" fn(Object, *const c_char) -> Object,
    text: unsafe extern "C" fn(Object, *mut isize) -> *const c_char,
    release: unsafe extern "C" fn(Object),
    fetch: unsafe extern "C" fn(*mut Object, *mut Object, *mut Object),
    restore: unsafe extern "C" fn(Object, Object, Object),
}

impl Api {
    fn find() -> Option<Self> {
        // SAFETY: the functions have had these types since CPython 3.9.
        unsafe {
            Some(Api {
                attached: function(c"PyThreadState_GetUnchecked")
                    .or_else(|| function(c"_PyThreadState_UncheckedGet"))?,
                thread: function(c"PyGILState_GetThisThreadState")?,
                frame: function(c"PyThreadState_GetFrame")?,
                back: function(c"PyFrame_GetBack")?,
                code: function(c"PyFrame_GetCode")?,
                line: function(c"PyFrame_GetLineNumber")?,
                attribute: function(c"PyObject_GetAttrString")?,
                text: function(c"PyUnicode_AsUTF8AndSize")?,
                release: function(c"Py_DecRef")?,
                fetch: function(c"PyErr_Fetch")?,
                restore: function(c"PyErr_Restore")?,
            })
        }
    }

    /// Returns the frames of a thread, which must be this one, and attached.
    unsafe fn frames(&self, thread: Object) -> Vec<Frame> {
        let mut frames = Vec::new();
        let mut error = [ptr::null_mut(); 3];
        let [kind, value, trace] = &mut error;
        // SAFETY: the caller's promise. Each returned object is released once.
        unsafe {
            (self.fetch)(kind, value, trace);
            let mut frame = (self.frame)(thread);
            while !frame.is_null() && frames.len() < MOST {
                let code = (self.code)(frame);
                let attribute = |name: &CStr| self.text_of(code, name);
                let (file, function) = (attribute(c"co_filename"), attribute(c"co_name"));
                let line = (self.line)(frame).unsigned_abs();
                frames.extend(file.zip(function).map(|(file, function)| Frame { file, function, line }));
                (self.release)(code);
                let back = (self.back)(frame);
                (self.release)(frame);
                frame = back;
            }
            (self.release)(frame);
            let [kind, value, trace] = error;
            (self.restore)(kind, value, trace);
        }
        frames
    }

    /// Returns an attribute that is a `str`.
    unsafe fn text_of(&self, object: Object, name: &CStr) -> Option<Arc<str>> {
        // SAFETY: as above; the text lives as long as its object.
        unsafe {
            let text = (self.attribute)(object, name.as_ptr());
            if text.is_null() {
                return None;
            }
            let mut bytes = 0;
            let begin = (self.text)(text, &mut bytes);
            let copy = (!begin.is_null()).then(|| {
                String::from_utf8_lossy(slice::from_raw_parts(begin.cast(), bytes.unsigned_abs())).into()
            });
            (self.release)(text);
            copy
        }
    }
}

/// Returns this thread's frames, the innermost first, if it's attached.
pub(super) fn frames() -> Option<Vec<Frame>> {
    let api = Api::find().filter(|_| is_running())?;
    // SAFETY: both functions have no side effects, and may be called without the GIL.
    let (attached, thread) = unsafe { ((api.attached)(), (api.thread)()) };
    // SAFETY: this thread is attached.
    (!thread.is_null() && attached == thread).then(|| unsafe { api.frames(thread) })
}
