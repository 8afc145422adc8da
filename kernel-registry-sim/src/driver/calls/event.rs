//! Events.

use super::context::current;
use super::stream::{not_captured, wait};
use crate::driver::abi::Out;
use crate::driver::handles::Handle;
use crate::driver::result::{Answer, Code};
use crate::driver::state::{Event, begin};
use crate::driver::stream::Work;

const DISABLE_TIMING: u32 = 2;

fn record(event: Handle, stream: Handle) -> Answer {
    let mut state = begin()?;
    let stream = state.stream(stream, current)?;
    let context = state.streams.get(stream)?.context;
    if state.events.get(event)?.context != context {
        return Err(Code::INVALID_HANDLE);
    }
    not_captured(&state, stream)?;
    let seq = state.submit(stream, Work::Record(event), None)?;
    let event = state.events.get_mut(event)?;
    (event.recorded, event.at) = (Some((stream, seq)), None);
    Ok(())
}

/// Milliseconds from one event to another.
fn elapsed(time: &Out<f32>, start: Handle, end: Handle) -> Answer {
    let state = begin()?;
    let (start, end) = (state.events.get(start)?, state.events.get(end)?);
    if !(start.timing && end.timing && start.recorded.is_some() && end.recorded.is_some()) {
        return Err(Code::INVALID_HANDLE);
    }
    let (Some(start), Some(end)) = (start.at, end.at) else { return Err(Code::NOT_READY) };
    time.set(end.saturating_duration_since(start).as_secs_f32() * 1e3)
}

calls! {
    2000 fn cuEventCreate(event: Out<Handle>, flags: u32) {
        let mut state = begin()?;
        let context = current()?;
        state.sound(context)?;
        event.ready()?;
        let timing = flags & DISABLE_TIMING == 0;
        event.set(state.events.insert(Event { context, timing, recorded: None, at: None }))
    }

    2000 fn cuEventRecord(event: Handle, stream: Handle) {
        record(event, stream)
    }

    11010 fn cuEventRecordWithFlags(event: Handle, stream: Handle, _flags: u32) {
        record(event, stream)
    }

    2000 fn cuEventQuery(event: Handle) {
        let state = begin()?;
        let is_done = |(stream, seq)| state.streams.get(stream).map_or(true, |stream| stream.has_done(seq));
        if state.events.get(event)?.recorded.is_none_or(is_done) { Ok(()) } else { Err(Code::NOT_READY) }
    }

    2000 fn cuEventSynchronize(event: Handle) {
        let state = begin()?;
        match state.events.get(event)?.recorded {
            Some((stream, seq)) if state.streams.get(stream).is_ok() => wait(state, stream, seq).map(drop),
            _ => Ok(()),
        }
    }

    4000 fn cuEventDestroy_v2(event: Handle) {
        begin()?.events.remove(event).map(drop)
    }

    2000 fn cuEventElapsedTime(time: Out<f32>, start: Handle, end: Handle) {
        elapsed(&time, start, end)
    }

    12080 fn cuEventElapsedTime_v2(time: Out<f32>, start: Handle, end: Handle) {
        elapsed(&time, start, end)
    }
}
