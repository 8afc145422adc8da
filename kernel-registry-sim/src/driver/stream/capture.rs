//! Defines the modes of stream capture, and the state of captures in streams and events.

use std::cell::Cell;
use std::thread::ThreadId;

use crate::driver::handles::Handle;
use crate::driver::result::{Answer, Code};

/// `CUstreamCaptureMode`: decides which threads may not make unsafe calls while a stream is captured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Mode {
    Global,
    ThreadLocal,
    Relaxed,
}

impl Mode {
    pub(crate) fn from_number(mode: u32) -> Answer<Self> {
        [Mode::Global, Mode::ThreadLocal, Mode::Relaxed]
            .get(mode as usize)
            .copied()
            .ok_or(Code::INVALID_VALUE)
    }
}

thread_local! {
        /// The mode of this thread, set by `cuThreadExchangeStreamCaptureMode`.
    pub(crate) static MODE: Cell<Mode> = const { Cell::new(Mode::Global) };
}

/// A capture that has begun and not ended.
pub(crate) struct Capture {
    pub(crate) graph: Handle,
    /// The stream in which the capture began.
    pub(crate) origin: Handle,
    pub(crate) mode: Mode,
    pub(crate) thread: ThreadId,
    /// Whether an operation that cannot be captured has invalidated the capture.
    pub(crate) is_invalid: bool,
}

/// The position of a stream or an event in a capture.
#[derive(Clone)]
pub(crate) struct Part {
    pub(crate) capture: u64,
    /// The nodes that the next node depends on, by their indices in the graph.
    pub(crate) after: Vec<usize>,
}
