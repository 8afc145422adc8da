//! Tracks each context's maximum number of streams. Above a limit, creating more streams than ever before
//! waits for the device.

use std::collections::HashMap;

use crate::watch::process::locked::Locked;

/// The number of streams that a context can have without waiting, as measured: none waited at 34, all at 36.
const MOST: usize = 34;

static STREAMS: Locked<Streams> = Locked::new();

#[derive(Default)]
struct Streams {
    contexts: HashMap<u64, Count>,
    /// The context of each stream.
    stream_contexts: HashMap<u64, u64>,
}

#[derive(Default)]
struct Count {
    /// The current number, including streams that are being created.
    alive: usize,
    most: usize,
}

/// Counts a stream that's about to be created, and returns whether that will wait.
pub(crate) fn begin(context: u64) -> bool {
    let mut streams = STREAMS.lock();
    let count = streams.contexts.entry(context).or_default();
    count.alive += 1;
    count.alive > count.most.max(MOST)
}

/// Completes [`begin`]: `stream` was created, or `None` could be.
pub(crate) fn finish(context: u64, stream: Option<u64>) {
    let mut streams = STREAMS.lock();
    let Some(count) = streams.contexts.get_mut(&context) else { return };
    match stream {
        Some(stream) => {
            count.most = count.most.max(count.alive);
            streams.stream_contexts.insert(stream, context);
        }
        None => count.alive = count.alive.saturating_sub(1),
    }
}

pub(crate) fn forget(stream: u64) {
    let mut streams = STREAMS.lock();
    let Some(context) = streams.stream_contexts.remove(&stream) else { return };
    if let Some(count) = streams.contexts.get_mut(&context) {
        count.alive = count.alive.saturating_sub(1);
    }
}

/// Forgets a destroyed context and its streams.
pub(crate) fn forget_context(context: u64) {
    let mut streams = STREAMS.lock();
    streams.contexts.remove(&context);
    streams.stream_contexts.retain(|_, its| *its != context);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_more_than_ever_are_too_many() {
        let make = |context, stream| {
            let is_more = begin(context);
            finish(context, Some(stream));
            is_more
        };
        assert!(!(0..34).any(|stream| make(7, stream)));
        assert!(begin(7));
        finish(7, None);
        assert!(begin(7), "one that was refused does not count");
        finish(7, Some(34));
        forget(34);
        assert!(!make(7, 35));
        assert!(!make(8, 36), "another context");
        assert!(make(7, 37));
        forget_context(7);
        assert!(!make(7, 38));
    }
}
