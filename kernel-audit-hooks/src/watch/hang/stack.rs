//! Finds the stack of another thread, which hangs. The thread's slot says from where it called the driver. The thread
//! itself copies its Python frames, in the handler of a signal.

use std::ffi::{c_int, c_void};
use std::fs;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::record::Slot;
use crate::watch::asked::{self, Taken};
use crate::watch::caller::{self, Caller};
use crate::watch::python::structures::Structures;
use crate::watch::python::{Frame, Texts, copied};
use crate::watch::record::slots;

/// How long a thread may take to answer.
const MOMENT: Duration = Duration::from_millis(300);

/// Returns the caller of the hook that a thread of this process is in.
pub(crate) fn capture(slot: &Slot, hook: *const c_void) -> Caller {
    let thread = slot.thread.load(Ordering::Relaxed);
    caller::find_from(slots::call_site(slot), hook).in_python(&python_frames(thread).unwrap_or_default())
}

/// Returns the Python frames of a thread, if it has any and takes the signal.
fn python_frames(thread: u32) -> Option<Vec<Frame>> {
    let python = Structures::find();
    Structures::set_current(python);
    python?;
    let signal = signal()?;
    // In a thread that blocks the signal, it would stay pending, and end the program that the process executes next.
    if is_blocked(signal, thread)? {
        return None;
    }
    // SAFETY: the thread has answered, and no other thread is asked at the same time.
    let read = || unsafe { copied::read(&mut Texts::default()) };
    asked::ask(signal, thread, write_down, MOMENT, read).map(|(_, frames)| frames)
}

/// Returns whether a thread of this process blocks a signal, if that can be known.
fn is_blocked(signal: c_int, thread: u32) -> Option<bool> {
    let status = fs::read_to_string(format!("/proc/self/task/{thread}/status")).ok()?;
    let blocked = status.lines().find_map(|line| line.strip_prefix("SigBlk:"))?;
    Some(u64::from_str_radix(blocked.trim(), 16).ok()? >> (signal - 1) & 1 == 1)
}

/// Returns a signal that the program does not use.
fn signal() -> Option<c_int> {
    static TAKEN: Taken = Taken::new();
    asked::take(&TAKEN, (libc::SIGRTMIN() + 8..libc::SIGRTMAX()).rev())
}

fn write_down(_: &libc::ucontext_t) {
    // SAFETY: this thread was asked, and no other thread uses the copy before it is done.
    unsafe { copied::copy() };
}
