//! Reads the Python frames of a thread. CPython 3.11 to 3.15 are read as they lie in memory, in any thread and without
//! the interpreter's lock. For other versions, and for interpreters without a lock, `locked` asks for the frames of a
//! thread that may run Python.

mod code;
pub(crate) mod copied;
mod interpreter;
mod layout;
mod locked;
mod pages;
pub(crate) mod structures;

use std::process;

use crate::watch::process::locked::Locked;
use crate::watch::process::system::{processor_time, thread_number};
pub(crate) use interpreter::{Frame, Texts, is_ending};
use structures::Structures;

/// The Python state of the main thread, or 0, since its frames were last read.
static MAIN_THREAD: Locked<u64> = Locked::new();

/// Returns the frames of this thread, the innermost first.
pub(crate) fn frames() -> Vec<Frame> {
    match Structures::find() {
        Some(python) => {
            let state = python.state();
            if thread_number() == process::id() {
                *MAIN_THREAD.lock() = state;
            }
            python.frames(state, &mut Texts::default())
        }
        None => locked::frames().unwrap_or_default(),
    }
}

/// Returns the frames of the main thread, the innermost first, if it stands still and its frames were read before.
pub(crate) fn frames_of_main_thread() -> Option<Vec<Frame>> {
    let python = Structures::find()?;
    let state = *MAIN_THREAD.lock();
    while_it_stands_still(process::id(), || python.frames(state, &mut Texts::default()))
        .filter(|frames| !frames.is_empty())
}

/// Returns what `read` reads of a thread. Returns `None` if the thread has run in between: it may have freed what was read.
pub(crate) fn while_it_stands_still<T>(thread: u32, read: impl FnOnce() -> T) -> Option<T> {
    let times = || (processor_time(thread), processor_time(thread_number()));
    let (before, own_before) = times();
    let its = read();
    let (after, own_after) = times();
    // This thread has run, so its own time tells whether the clock is fine enough to see that.
    (before.is_some() && after == before && own_after > own_before).then_some(its)
}

/// Finds the frame of the user: the innermost frame that is neither of a package nor of Python's own library; or else
/// the innermost frame.
pub(crate) fn find_users_frame(frames: &[Frame]) -> Option<&Frame> {
    const OTHERS: [&str; 4] = ["/site-packages/", "/dist-packages/", "/lib/python", "<frozen "];
    let is_users = |frame: &&Frame| !OTHERS.iter().any(|other| frame.file.contains(other));
    frames.iter().find(is_users).or(frames.first())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_users_frame_is_in_no_package() {
        let frame = |file: &str| Frame { file: file.into(), function: "f".into(), line: 1 };
        let frames = [
            frame("/v/lib/python3.12/site-packages/torch/nn.py"),
            frame("/srv/serve.py"),
            frame("/srv/main.py"),
        ];
        assert_eq!(find_users_frame(&frames).map(|frame| &*frame.file), Some("/srv/serve.py"));
        assert_eq!(find_users_frame(&frames[..1]), frames.first());
        assert_eq!(find_users_frame(&[]), None);
    }

    #[test]
    fn a_program_without_python_has_no_frames() {
        assert_eq!(frames(), []);
    }
}
