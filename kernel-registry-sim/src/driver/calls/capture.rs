//! Defines the functions of stream capture.

use crate::driver::caller::arguments::Out;
use crate::driver::handles::Handle;
use crate::driver::result::Code;
use crate::driver::state::simulator::{begin, begin_with};
use crate::driver::stream::capture::Mode;

/// Values of `CUstreamCaptureStatus`.
const NONE: u32 = 0;
const ACTIVE: u32 = 1;
const INVALIDATED: u32 = 2;

calls! {
    10010 fn cuStreamBeginCapture_v2(stream: Handle, mode: u32) = {
        let mut state = begin()?;
        let mode = Mode::from_number(mode)?;
        let stream = state.stream(stream)?;
        state.begin_capture(stream, mode)
    };

    10000 fn cuStreamEndCapture(stream: Handle, graph: Out<Handle>) = {
        let (mut state, stream) = begin_with(stream)?;
        graph.ready()?;
        graph.set(0)?;
        graph.set(state.end_capture(stream)?)
    };

    10000 fn cuStreamIsCapturing(stream: Handle, status: Out<u32>) = {
        let (state, stream) = begin_with(stream)?;
        // On the default stream, while a blocking stream is captured, the call fails like others, but does not
        // invalidate the capture.
        if state.blocking_capture(stream)?.is_some() {
            return Err(Code::STREAM_CAPTURE_IMPLICIT);
        }
        let Some(part) = &state.streams.get(stream)?.capture else { return status.set(NONE) };
        let capture = state.captures.get(&part.capture).ok_or(Code::ILLEGAL_STATE)?;
        status.set(if capture.is_invalid { INVALIDATED } else { ACTIVE })
    };
}
