//! Keeps what was preloaded, and what threads are preloading.

use std::collections::HashMap;
use std::thread;
use std::time::Duration;

use crate::preload::{How, Origin};
use crate::watch::known::contexts;
use crate::watch::known::handles::Content;
use crate::watch::process::locked::Locked;
use crate::watch::record::slots;

/// What was preloaded in this process.
pub(super) static STATE: Locked<State> = Locked::new();

#[derive(Default)]
pub(super) struct State {
    /// The handles of preloaded images that the program has not taken.
    pub(super) images: HashMap<(Content, Context), Vec<u64>>,
    /// The number of images that were loaded.
    pub(super) loads: u64,
    /// The contexts that were preloaded or are being preloaded, by their ids: a new context can have the address of one
    /// that is gone.
    pub(super) contexts: HashMap<u64, Progress>,
    /// The images that are being loaded.
    pub(super) loading: Vec<(Origin, Context)>,
    /// The images that preloading threads use now, and that another thread may want to unload.
    pub(super) in_use: Vec<u64>,
    /// The libraries of our own kernels, by their images.
    pub(super) primes: HashMap<usize, u64>,
    /// The number of events that found no room in the record.
    pub(super) unrecorded: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Progress {
    Begun,
    /// Something ran on the device, so a part was left out. The program can preload again.
    Left,
    Done,
}

/// The address of a context, and its id.
pub(super) type Context = (u64, u64);

pub(super) const ALL: Context = (0, 0);

/// Returns the context that an image belongs to if it is loaded now.
pub(super) fn context_of(how: How) -> Context {
    if how == How::Module { contexts::current_with_id() } else { ALL }
}

/// Returns the content of an image that was read from a file.
pub(super) fn content_of(how: How, code: &'static [u8]) -> Content {
    (how, code.as_ptr().addr())
}

/// How often a thread checks whether another thread is ready.
pub(super) const STEP: Duration = Duration::from_millis(1);

/// How long a thread waits for another thread that preloads the same image. That thread may wait for a kernel that this
/// thread ends.
pub(super) const TIMEOUT: Duration = Duration::from_secs(10);

/// Waits a moment for another thread. As long as that thread makes progress, this thread does not count as hanging.
pub(super) fn wait_a_step() {
    slots::mark_progress(STATE.lock().loads);
    thread::sleep(STEP);
}
