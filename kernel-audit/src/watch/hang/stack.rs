//! Finds the stack of another thread, which hangs. The thread's slot says from where it called the driver. The thread
//! writes down its Python frames itself, in the handler of a signal.

use std::ffi::{c_int, c_void};
use std::fs::{self, File};
use std::io::{Seek, SeekFrom};
use std::os::fd::AsRawFd;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::time::Duration;

use crate::record::Slot;
use crate::watch::asked::{self, Taken};
use crate::watch::caller::{self, Caller};
use crate::watch::process::system;
use crate::watch::python::{self, Frame, Interpreter};
use crate::watch::record::slots;

/// How long a thread may take to write down its frames.
const MOMENT: Duration = Duration::from_millis(300);

/// Returns the caller of the hook that a thread of this process is in.
pub(crate) fn capture(slot: &Slot, hook: *const c_void) -> Caller {
    let thread = slot.thread.load(Ordering::Relaxed);
    caller::find_from(slots::call_site(slot), hook).in_python(&python_frames(thread).unwrap_or_default())
}

/// Returns the Python frames of a thread, if it has any and takes the signal.
fn python_frames(thread: u32) -> Option<Vec<Frame>> {
    let file = ask_for_python()?;
    let signal = signal()?;
    // In a thread that blocks the signal, it would stay pending, and end the program that the process executes next.
    if is_blocked(signal, thread)? {
        return None;
    }
    asked::ask(signal, thread, write_down, MOMENT, || python::read(file))
}

/// Returns whether a thread of this process blocks a signal, if that can be known.
fn is_blocked(signal: c_int, thread: u32) -> Option<bool> {
    let status = fs::read_to_string(format!("/proc/self/task/{thread}/status")).ok()?;
    let blocked = status.lines().find_map(|line| line.strip_prefix("SigBlk:"))?;
    Some(u64::from_str_radix(blocked.trim(), 16).ok()? >> (signal - 1) & 1 == 1)
}

/// The interpreter, and the file to which the asked thread writes its Python frames; or null. A thread may answer late,
/// so both are never freed.
static PYTHON: AtomicPtr<(Interpreter, Memory)> = AtomicPtr::new(ptr::null_mut());

/// Prepares what a thread needs to write down its Python frames. Returns the file for the frames, or `None` if there is
/// no interpreter.
fn ask_for_python() -> Option<&'static File> {
    let interpreter = Interpreter::find()?;
    let is_usable = |(its, file): &&(Interpreter, Memory)| its.is(interpreter) && file.is_ours();
    // SAFETY: the pointer is null, or came from a box that is never freed.
    let before = unsafe { PYTHON.load(Ordering::Relaxed).as_ref() };
    let (_, memory) = match before.filter(is_usable) {
        Some(before) => before,
        None => {
            let new = Box::leak(Box::new((interpreter, Memory::new()?)));
            PYTHON.store(new, Ordering::Release);
            new
        }
    };
    memory.file.set_len(0).ok()?;
    let mut start = &memory.file;
    start.seek(SeekFrom::Start(0)).ok()?;
    Some(&memory.file)
}

/// A file in memory. A program can close all descriptors and open files of its own, and a forked child shares the file
/// with its parent, so each use checks what the descriptor is.
struct Memory {
    file: File,
    process: libc::pid_t,
    /// The file's device and inode.
    is: (libc::dev_t, libc::ino_t),
}

impl Memory {
    fn new() -> Option<Self> {
        let file = python::file()?;
        // SAFETY: the call returns a number.
        let process = unsafe { libc::getpid() };
        let is = Self::ask(file.as_raw_fd())?;
        Some(Memory { file, process, is })
    }

    /// Returns whether the descriptor is still that of the file, in the process that made the file. May be called in
    /// the handler of a signal.
    fn is_ours(&self) -> bool {
        // SAFETY: the call returns a number.
        self.process == unsafe { libc::getpid() } && Self::ask(self.file.as_raw_fd()) == Some(self.is)
    }

    fn ask(file: c_int) -> Option<(libc::dev_t, libc::ino_t)> {
        system::status(file).map(|its| (its.st_dev, its.st_ino))
    }
}

/// Returns a signal that the program does not use.
fn signal() -> Option<c_int> {
    static TAKEN: Taken = Taken::new();
    asked::take(&TAKEN, (libc::SIGRTMIN() + 8..libc::SIGRTMAX()).rev())
}

fn write_down(_: &libc::ucontext_t) {
    // SAFETY: the pointer is null, or came from a box that is never freed.
    if let Some((interpreter, memory)) = unsafe { PYTHON.load(Ordering::Acquire).as_ref() }
        && memory.is_ours()
    {
        interpreter.write(memory.file.as_raw_fd());
    }
}
