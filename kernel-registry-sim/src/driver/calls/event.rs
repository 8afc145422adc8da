//! Defines the functions of events.

use super::stream::wait;
use crate::driver::caller::arguments::Out;
use crate::driver::handles::Handle;
use crate::driver::result::{Answer, Code};
use crate::driver::state::current::CurrentContext;
use crate::driver::state::simulator::{begin, begin_with};
use crate::driver::state::{Event, State};
use crate::driver::stream::queue::Work;
use crate::driver::wait::Seq;

const DISABLE_TIMING: u32 = 2;

/// Returns the stream and the position at which an event was recorded, or `None` if it never was. If the event was
/// recorded in a capture, the result is an error.
fn find_recorded(state: &mut State, event: Handle) -> Answer<Option<(Handle, Seq)>> {
    let context = state.events.get(event)?.context;
    state.sound(context)?;
    let found = state.events.get(event)?;
    let recorded = found.recorded;
    if let Some(part) = &found.captured {
        let capture = part.capture;
        let wrong = state.captured_event(capture);
        state.invalidate(capture);
        return Err(wrong);
    }
    state.may_disturb()?;
    Ok(recorded)
}

/// Writes the milliseconds from one event to another.
fn elapsed(time: &Out<f32>, start: Handle, end: Handle) -> Answer {
    let mut state = begin()?;
    let (start, end) = (state.events.get(start)?, state.events.get(end)?);
    if let Some(part) = start.captured.as_ref().or(end.captured.as_ref()) {
        return Err(state.captured_event(part.capture));
    }
    if !(start.timing && end.timing && start.recorded.is_some() && end.recorded.is_some()) {
        return Err(Code::INVALID_HANDLE);
    }
    let (Some(begun), Some(ended)) = (start.at, end.at) else { return Err(Code::NOT_READY) };
    for (stream, seq) in [start.recorded, end.recorded].into_iter().flatten() {
        state.host_saw(stream, seq);
    }
    time.set(ended.saturating_duration_since(begun).as_secs_f32() * 1e3)
}

calls! {
    2000 fn cuEventCreate(event: Out<Handle>, flags: u32) = {
        let mut state = begin()?;
        let context = CurrentContext::get()?;
        state.sound(context)?;
        event.ready()?;
        let timing = flags & DISABLE_TIMING == 0;
        event.set(state.events.insert(Event { context, timing, recorded: None, captured: None, at: None }))
    };

    2000 fn cuEventRecord(event: Handle, stream: Handle) = {
        let (mut state, stream) = begin_with(stream)?;
        let context = state.streams.get(stream)?.context;
        if state.events.get(event)?.context != context {
            return Err(Code::INVALID_HANDLE);
        }
        if state.is_captured(stream)? {
            let part = state.streams.get(stream)?.capture.clone();
            state.events.get_mut(event)?.captured = part;
            return Ok(());
        }
        let seq = state.submit(stream, Work::Record(event), None)?;
        let event = state.events.get_mut(event)?;
        (event.recorded, event.captured, event.at) = (Some((stream, seq)), None, None);
        Ok(())
    };

    2000 fn cuEventQuery(event: Handle) = {
        let mut state = begin()?;
        let recorded = find_recorded(&mut state, event)?;
        let Some((stream, seq)) = recorded else { return Ok(()) };
        if !state.streams.has_done(stream, seq) {
            return Err(Code::NOT_READY);
        }
        state.host_saw(stream, seq);
        Ok(())
    };

    2000 fn cuEventSynchronize(event: Handle) = {
        let mut state = begin()?;
        match find_recorded(&mut state, event)? {
            Some((stream, seq)) if state.streams.get(stream).is_ok() => wait(state, stream, seq).map(drop),
            _ => Ok(()),
        }
    };

    4000 fn cuEventDestroy_v2(event: Handle) = {
        let mut state = begin()?;
        let context = state.events.get(event)?.context;
        state.sound(context)?;
        state.events.remove(event).map(drop)
    };

    2000 fn cuEventElapsedTime(time: Out<f32>, start: Handle, end: Handle) = elapsed(&time, start, end);
    12080 fn cuEventElapsedTime_v2(time: Out<f32>, start: Handle, end: Handle) = elapsed(&time, start, end);
}
