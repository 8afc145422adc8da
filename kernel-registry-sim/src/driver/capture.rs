//! Stream capture: its modes, and the state that streams and events keep of it.

use std::cell::Cell;
use std::thread::ThreadId;

use super::handles::Handle;
use super::result::{Answer, Code};

/// `CUstreamCaptureMode`: which threads may not make unsafe calls while a stream is captured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Mode {
    Global,
    ThreadLocal,
    Relaxed,
}

impl Mode {
    pub(super) fn from_number(mode: u32) -> Answer<Self> {
        [Mode::Global, Mode::ThreadLocal, Mode::Relaxed]
            .get(mode as usize)
            .copied()
            .ok_or(Code::INVALID_VALUE)
    }
}

thread_local! {
    /// The mode of this thread, by `cuThreadExchangeStreamCaptureMode`.
    pub(super) static MODE: Cell<Mode> = const { Cell::new(Mode::Global) };
}

/// A capture that has begun and not ended.
pub(super) struct Capture {
    pub(super) graph: Handle,
    /// The stream in which it began.
    pub(super) origin: Handle,
    pub(super) mode: Mode,
    pub(super) thread: ThreadId,
    /// An operation that cannot be captured has invalidated it.
    pub(super) is_invalid: bool,
}

/// The place of a stream or an event in a capture.
#[derive(Clone)]
pub(super) struct Part {
    pub(super) capture: u64,
    /// The nodes that the next one comes after.
    pub(super) after: Vec<Handle>,
}
