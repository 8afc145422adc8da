//! The Python frames of a thread. CPython 3.11 and 3.12 export the function by which they write them when they crash: that takes no lock, allocates
//! nothing, and may be called in the handler of a signal and without the interpreter's lock, for the thread's own frames. Of others `locked` asks for
//! the frames, if the thread holds the interpreter's lock.

mod locked;

use std::collections::HashMap;
use std::ffi::{CStr, c_int, c_void};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::os::fd::{AsRawFd, RawFd};
use std::{mem, ptr};

use crate::watch::loader::{mapped, symbols};
use crate::watch::process::locked::Locked;
use crate::watch::process::system;
use crate::watch::record::recording;

/// Frames that are kept.
const MOST: usize = 32;

/// Bytes that are read.
const LONGEST: u64 = 32 << 10;

/// No interpreter writes more: a hundred frames with two texts of 500 characters, each of ten bytes at most.
const WRITTEN: usize = 1 << 21;

/// A frame of a Python function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) file: String,
    pub(crate) line: u32,
    pub(crate) function: String,
}

/// An interpreter in this process.
#[derive(Clone, Copy)]
pub(crate) struct Interpreter {
    write: unsafe extern "C" fn(c_int, *mut c_void),
    thread: unsafe extern "C" fn() -> *mut c_void,
}

impl Interpreter {
    /// The interpreter, if there is one that runs and has the function.
    pub(crate) fn find() -> Option<Self> {
        type Write = unsafe extern "C" fn(c_int, *mut c_void);
        type ThreadState = unsafe extern "C" fn() -> *mut c_void;
        let (write, thread) = (symbol(c"_Py_DumpTraceback")?, symbol(c"PyGILState_GetThisThreadState")?);
        // A signal can end the process that writes more than it may, also to a file in memory.
        if !runs() || !recording::may_be(WRITTEN) {
            return None;
        }
        // SAFETY: these are the types of CPython's functions of these names.
        unsafe {
            let write = mem::transmute::<*mut c_void, Write>(write);
            let thread = mem::transmute::<*mut c_void, ThreadState>(thread);
            Some(Interpreter { write, thread })
        }
    }

    /// Whether it is the same one, and not one that was opened later in its place.
    pub(crate) fn is(self, other: Self) -> bool {
        let addresses = |its: Self| (its.write as *const c_void, its.thread as *const c_void);
        addresses(self) == addresses(other)
    }

    /// Writes the frames of this thread into a file, if it has any.
    pub(crate) fn write(self, file: RawFd) {
        // SAFETY: it answers with this thread's state, or null. The thread is here, so its frames do not change meanwhile.
        unsafe {
            let thread = (self.thread)();
            if !thread.is_null() {
                (self.write)(file, thread);
            }
        }
    }
}

/// Whether there is an interpreter that has begun and does not end.
fn runs() -> bool {
    type Ask = unsafe extern "C" fn() -> c_int;
    // SAFETY: this is the type of the three functions, which only answer.
    let yes = |ask: *mut c_void| unsafe { mem::transmute::<*mut c_void, Ask>(ask)() != 0 };
    let is_ending = || symbol(c"Py_IsFinalizing").or_else(|| symbol(c"_Py_IsFinalizing"));
    symbol(c"Py_IsInitialized").is_some_and(yes) && is_ending().is_some_and(|ask| !yes(ask))
}

/// The frames of this thread, the innermost first.
pub(crate) fn frames() -> Vec<Frame> {
    match Interpreter::find().zip(file()) {
        Some((interpreter, file)) => {
            interpreter.write(file.as_raw_fd());
            read(&file)
        }
        None => locked::frames().unwrap_or_default(),
    }
}

/// A file in memory.
pub(crate) fn file() -> Option<File> {
    system::memory_file(c"frames").ok()
}

/// The frames that were written into a file.
pub(crate) fn read(mut file: &File) -> Vec<Frame> {
    let mut text = Vec::new();
    let read = file.seek(SeekFrom::Start(0)).and_then(|_| file.take(LONGEST).read_to_end(&mut text));
    let text = String::from_utf8_lossy(&text);
    let lines = if read.is_ok() { text.lines() } else { "".lines() };
    lines.filter_map(frame).take(MOST).collect()
}

/// `  File "serve.py", line 42 in forward`
fn frame(line: &str) -> Option<Frame> {
    let (file, rest) = line.trim_start().strip_prefix("File \"")?.rsplit_once("\", line ")?;
    let (line, function) = rest.split_once(" in ")?;
    Some(Frame { file: file.to_owned(), line: line.parse().ok()?, function: function.to_owned() })
}

/// The frame of the user: the innermost one that is not of a package, nor of Python's own library.
pub(crate) fn of_user(frames: &[Frame]) -> Option<&Frame> {
    const OTHERS: [&str; 4] = ["/site-packages/", "/dist-packages/", "/lib/python", "<frozen "];
    let is_users = |frame: &&Frame| !OTHERS.iter().any(|other| frame.file.contains(other));
    frames.iter().find(is_users).or(frames.first())
}

/// The functions that were asked for, as long as the files are the same.
#[derive(Default)]
struct Asked {
    files: (u64, u64),
    found: HashMap<&'static CStr, Option<usize>>,
}

/// A function of an interpreter in this process.
fn symbol(name: &'static CStr) -> Option<*mut c_void> {
    static ASKED: Locked<Asked> = Locked::new();
    let files = mapped::counts();
    let mut asked = ASKED.lock();
    if asked.files != files {
        *asked = Asked { files, found: HashMap::new() };
    }
    let find = || symbols::find(name).map(|address| address as usize);
    asked.found.entry(name).or_insert_with(find).map(ptr::with_exposed_provenance_mut)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_python_are_frames() {
        let read = |line: &str| frame(line).map(|frame| (frame.file, frame.line, frame.function));
        let of = |file: &str, line, function: &str| Some((file.to_owned(), line, function.to_owned()));
        assert_eq!(read("  File \"/srv/a.py\", line 42 in forward"), of("/srv/a.py", 42, "forward"));
        assert_eq!(read("  File \"a\", line 1 in b\", line 2 in c"), of("a\", line 1 in b", 2, "c"));
        for other in
            ["Stack (most recent call first):", "  File \"a\", line ??? in c", "  ...", "", "  File \""]
        {
            assert_eq!(read(other), None);
        }
    }

    #[test]
    fn the_users_frame_is_in_no_package() {
        let frame = |file: &str| Frame { file: file.to_owned(), line: 1, function: "f".to_owned() };
        let frames = [
            frame("/v/lib/python3.12/site-packages/torch/nn.py"),
            frame("/srv/serve.py"),
            frame("/srv/main.py"),
        ];
        assert_eq!(of_user(&frames).map(|frame| &*frame.file), Some("/srv/serve.py"));
        assert_eq!(of_user(&frames[..1]), frames.first());
        assert_eq!(of_user(&[]), None);
    }

    #[test]
    fn a_program_without_python_has_no_frames() {
        assert_eq!(frames(), []);
    }
}
