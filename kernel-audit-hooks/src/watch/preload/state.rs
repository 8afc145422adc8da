//! The state of preloading: preloaded images, progress by context, and images that threads are loading.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use crate::preload::{How, Origin};
use crate::record::RawEvent;
use crate::watch::known::contexts;
use crate::watch::known::handles::Content;
use crate::watch::process::locked::Locked;
use crate::watch::record::slots;

pub(super) static STATE: Locked<State> = Locked::new();

#[derive(Default)]
pub(super) struct State {
    /// The handles of preloaded images that the program hasn't taken yet.
    pub(super) images: HashMap<(Content, Context), Vec<u64>>,
    /// The events of preloaded images that the program hasn't taken yet, by handle.
    pub(super) unused: HashMap<u64, Vec<&'static RawEvent>>,
    /// The number of images loaded.
    pub(super) loads: u64,
    /// Progress by context id: addresses of contexts can be reused.
    pub(super) contexts: HashMap<u64, Progress>,
    /// The images that are being loaded.
    pub(super) loading: Vec<(Origin, Context)>,
    /// The images that preloading threads use, so that they can't be unloaded.
    pub(super) in_use: Vec<u64>,
    /// The libraries with our own kernels, by the address of their image.
    pub(super) primes: HashMap<usize, u64>,
    /// The number of events that found no room in the record.
    pub(super) unrecorded: u64,
}

impl State {
    /// Records the event of a preloaded image as unused until the program takes the image.
    pub(super) fn expect_use(&mut self, image: u64, event: &'static RawEvent) {
        match self.images.values().flatten().any(|untaken| *untaken == image) {
            true => self.unused.entry(image).or_default().push(event),
            false => event.later.store(1, Ordering::Relaxed),
        }
    }

    /// Forgets the images of a destroyed context. The driver reuses their handles, also for images that the program takes.
    pub(super) fn forget_context(&mut self, context: u64) {
        let State { images, unused, .. } = self;
        images.retain(|(_, (its, _)), handles| {
            let stays = *its != context;
            if !stays {
                handles.iter().for_each(|image| drop(unused.remove(image)));
            }
            stays
        });
    }

    /// Records that the program has taken an image.
    pub(super) fn mark_used(&mut self, image: u64) {
        for event in self.unused.remove(&image).into_iter().flatten() {
            event.later.store(1, Ordering::Relaxed);
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Progress {
    Begun,
    /// The device was busy, so a part was left out. The program can preload again.
    Left,
    Done,
}

/// The address of a context, and its id.
pub(super) type Context = (u64, u64);

pub(super) const ALL: Context = (0, 0);

/// Returns the context that an image belongs to if it's loaded now.
pub(super) fn context_of(how: How) -> Context {
    if how == How::Module { contexts::current_with_id() } else { ALL }
}

pub(super) fn content_of(how: How, code: &'static [u8]) -> Content {
    (how, code.as_ptr().addr())
}

/// The polling interval for other threads.
pub(super) const STEP: Duration = Duration::from_millis(1);

/// How long to wait for a thread that's preloading the same image: it may wait for a kernel that we have to end.
pub(super) const TIMEOUT: Duration = Duration::from_secs(10);

/// Waits for another thread. While that one makes progress, this one doesn't count as hanging.
pub(super) fn wait_a_step() {
    slots::mark_progress(STATE.lock().loads);
    thread::sleep(STEP);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_of_a_destroyed_context_is_not_used_by_the_next_one_with_its_handle() {
        let events: [&'static RawEvent; 2] = [(); 2].map(|()| &*Box::leak(Box::<RawEvent>::default()));
        let (mut state, content, handle) = (State::default(), (How::Module, 1), 0x2000);
        for (context, event) in [(7, 1), (7, 2)].into_iter().zip(events) {
            state.images.insert((content, context), vec![handle]);
            state.expect_use(handle, event);
            if context.1 == 1 {
                state.forget_context(context.0);
            }
        }
        state.mark_used(handle);
        assert_eq!(events.map(|event| event.later.load(Ordering::Relaxed)), [0, 1]);
    }
}
