//! Reads Python frames. For CPython 3.11 to 3.15, they're read from memory, for any thread and without the
//! GIL. Otherwise `locked` uses the C API, only for the current thread and only if it's attached.

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
pub(crate) use interpreter::{Frame, Texts, is_finalizing};
use structures::Structures;

/// The main thread's Python state, or 0, from when its frames were last read.
static MAIN_THREAD: Locked<u64> = Locked::new();

/// Returns this thread's frames, the innermost first.
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

/// Returns the main thread's frames, the innermost first, if it isn't running and has been read before.
pub(crate) fn frames_of_main_thread() -> Option<Vec<Frame>> {
    let python = Structures::find()?;
    let state = *MAIN_THREAD.lock();
    while_stopped(process::id(), || python.frames(state, &mut Texts::default()))
        .filter(|frames| !frames.is_empty())
}

/// Returns the result of `read`, or `None` if the thread ran during it, and may have freed what was read.
pub(crate) fn while_stopped<T>(thread: u32, read: impl FnOnce() -> T) -> Option<T> {
    let times = || (processor_time(thread), processor_time(thread_number()));
    let (before, own_before) = times();
    let its = read();
    let (after, own_after) = times();
    // Our own time must have advanced: that shows that the clock's resolution is sufficient.
    (before.is_some() && after == before && own_after > own_before).then_some(its)
}

/// Returns the innermost frame outside of packages and the standard library, or else the innermost frame.
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
