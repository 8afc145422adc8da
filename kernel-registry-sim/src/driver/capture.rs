//! What is captured: streams that make a graph of what they are given, and what may not be done meanwhile.

use std::cell::Cell;
use std::thread::ThreadId;

use super::handles::Handle;
use super::result::{Answer, Code};

/// `CUstreamCaptureMode`: who is kept from calls that could disturb what is captured.
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
    /// How this thread is treated while streams are captured.
    pub(super) static MODE: Cell<Mode> = const { Cell::new(Mode::Global) };
}

/// A graph that is being captured.
#[derive(Debug)]
pub(super) struct Capture {
    pub(super) graph: Handle,
    /// The stream that it began in.
    pub(super) origin: Handle,
    pub(super) mode: Mode,
    pub(super) thread: ThreadId,
    /// Something was done that cannot be captured.
    pub(super) is_invalid: bool,
}

/// What a stream or an event has of a graph that is being captured.
#[derive(Clone, Debug)]
pub(super) struct Part {
    pub(super) capture: u64,
    /// What comes next is after these nodes.
    pub(super) after: Vec<Handle>,
}
