//! Streams, and words in memory that they wait for or write.

use super::context::current;
use crate::driver::abi::{HostFunction, Out};
use crate::driver::deadlock::wait_for_device;
use crate::driver::handles::Handle;
use crate::driver::process::{Locked, Simulator};
use crate::driver::result::{Answer, Code};
use crate::driver::state::{Context, State, begin};
use crate::driver::stream::{Because, Function, Order, Seq, Stream, Until, Work};

/// Streams that can be alive at once before the driver has to make room for more: with 34 it had not, and with 36 it had.
const STREAMS: usize = 34;

fn create(made: &Out<Handle>, flags: u32, priority: i32, call: &'static str) -> Answer {
    let mut state = begin()?;
    let context = current()?;
    let device = state.sound(context)?.device;
    made.ready()?;
    if flags > 1 {
        return Err(Code::INVALID_VALUE);
    }
    // With the one that is made, and without two that are the context's own.
    let alive =
        state.streams.iter().filter(|(_, stream)| stream.context == context).count().saturating_sub(1);
    if alive > STREAMS.max(state.sound(context)?.most_streams) {
        state = wait_for_device(state, device, call, Because::Streams)?;
    }
    let most = &mut state.sound(context)?.most_streams;
    *most = alive.max(*most);
    let order = if flags == 1 { Order::NonBlocking } else { Order::Blocking };
    let stream = Stream { priority: priority.clamp(-5, 0), ..Stream::new(context, device, order) };
    made.set(state.streams.insert(stream))
}

/// Waits until a stream has done what was submitted until then.
pub(super) fn wait(mut state: Locked, stream: Handle, seq: Seq) -> Answer<Locked> {
    let context = state.streams.get(stream)?.context;
    while state.streams.get(stream).is_ok_and(|stream| !stream.has_done(seq)) {
        state = Simulator::get().wait(state);
    }
    state.sound(context)?;
    Ok(state)
}

/// What may not be asked for while a stream is captured.
pub(super) fn not_captured(state: &State, stream: Handle) -> Answer {
    if state.streams.get(stream)?.capture.is_some() { Err(Code::STREAM_CAPTURE_UNSUPPORTED) } else { Ok(()) }
}

fn submit_word(stream: Handle, address: usize, wide: bool, work: Answer<Work>) -> Answer {
    let mut state = begin()?;
    let stream = state.stream(stream, current)?;
    let bytes = if wide { 8 } else { 4 };
    if !address.is_multiple_of(bytes) || state.memory.lock().find(address, bytes).is_none() {
        return Err(Code::INVALID_VALUE);
    }
    not_captured(&state, stream)?;
    state.submit(stream, work?, None)?;
    Ok(())
}

fn wait_value(stream: Handle, address: usize, value: u64, flags: u32, wide: bool) -> Answer {
    let until = Until::from_flags(flags).ok_or(Code::INVALID_VALUE);
    submit_word(stream, address, wide, until.map(|until| Work::WaitValue { address, wide, value, until }))
}

calls! {
    2000 fn cuStreamCreate(stream: Out<Handle>, flags: u32) {
        create(&stream, flags, 0, "cuStreamCreate")
    }

    5050 fn cuStreamCreateWithPriority(stream: Out<Handle>, flags: u32, priority: i32) {
        create(&stream, flags, priority, "cuStreamCreateWithPriority")
    }

    4000 fn cuStreamDestroy_v2(stream: Handle) {
        let mut state = begin()?;
        if stream <= 2 {
            return Err(Code::INVALID_HANDLE);
        }
        let context = state.streams.get(stream)?.context;
        let Context { legacy, per_thread, .. } = state.context(context)?;
        let is_its_own = [*legacy, *per_thread].contains(&stream);
        let found = state.streams.get_mut(stream)?;
        if found.closed || is_its_own {
            return Err(Code::INVALID_HANDLE);
        }
        found.closed = true;
        if found.queue.is_empty() {
            state.streams.remove(stream)?;
        }
        Ok(())
    }

    2000 fn cuStreamSynchronize(stream: Handle) {
        let mut state = begin()?;
        let stream = state.stream(stream, current)?;
        not_captured(&state, stream)?;
        let last = state.last;
        // The default stream is done when blocking streams are, and they when it is.
        wait(state, stream, last).map(drop)
    }

    2000 fn cuStreamQuery(stream: Handle) {
        let mut state = begin()?;
        let stream = state.stream(stream, current)?;
        not_captured(&state, stream)?;
        if state.streams.get(stream)?.queue.is_empty() { Ok(()) } else { Err(Code::NOT_READY) }
    }

    5050 fn cuStreamGetFlags(stream: Handle, flags: Out<u32>) {
        let mut state = begin()?;
        let stream = state.stream(stream, current)?;
        flags.set(state.streams.get(stream)?.flags)
    }

    5050 fn cuStreamGetPriority(stream: Handle, priority: Out<i32>) {
        let mut state = begin()?;
        let stream = state.stream(stream, current)?;
        priority.set(state.streams.get(stream)?.priority)
    }

    9020 fn cuStreamGetCtx(stream: Handle, context: Out<Handle>) {
        let mut state = begin()?;
        let stream = state.stream(stream, current)?;
        context.set(state.streams.get(stream)?.context)
    }

    12000 fn cuStreamGetId(stream: Handle, id: Out<u64>) {
        id.set(begin()?.stream(stream, current)? as u64)
    }

    3020 fn cuStreamWaitEvent(stream: Handle, event: Handle, _flags: u32) {
        let mut state = begin()?;
        let stream = state.stream(stream, current)?;
        if let Some((recorded, seq)) = state.events.get(event)?.recorded {
            not_captured(&state, stream)?;
            if !state.streams.get(recorded).is_ok_and(|stream| stream.has_done(seq)) {
                state.submit(stream, Work::WaitFor { stream: recorded, seq }, None)?;
            }
        }
        Ok(())
    }

    8000 fn cuStreamWaitValue32(stream: Handle, address: usize, value: u32, flags: u32) {
        wait_value(stream, address, value.into(), flags, false)
    }

    11070 fn cuStreamWaitValue32_v2(stream: Handle, address: usize, value: u32, flags: u32) {
        wait_value(stream, address, value.into(), flags, false)
    }

    9000 fn cuStreamWaitValue64(stream: Handle, address: usize, value: u64, flags: u32) {
        wait_value(stream, address, value, flags, true)
    }

    11070 fn cuStreamWaitValue64_v2(stream: Handle, address: usize, value: u64, flags: u32) {
        wait_value(stream, address, value, flags, true)
    }

    8000 fn cuStreamWriteValue32(stream: Handle, address: usize, value: u32, _flags: u32) {
        submit_word(stream, address, false, Ok(Work::WriteValue { address, wide: false, value: value.into() }))
    }

    11070 fn cuStreamWriteValue32_v2(stream: Handle, address: usize, value: u32, _flags: u32) {
        submit_word(stream, address, false, Ok(Work::WriteValue { address, wide: false, value: value.into() }))
    }

    9000 fn cuStreamWriteValue64(stream: Handle, address: usize, value: u64, _flags: u32) {
        submit_word(stream, address, true, Ok(Work::WriteValue { address, wide: true, value }))
    }

    11070 fn cuStreamWriteValue64_v2(stream: Handle, address: usize, value: u64, _flags: u32) {
        submit_word(stream, address, true, Ok(Work::WriteValue { address, wide: true, value }))
    }

    10000 fn cuLaunchHostFunc(stream: Handle, function: HostFunction, data: usize) {
        let mut state = begin()?;
        let stream = state.stream(stream, current)?;
        if !function.is_there() {
            return Err(Code::INVALID_VALUE);
        }
        not_captured(&state, stream)?;
        state.submit(stream, Work::Call { function: Function(function), data }, None)?;
        Ok(())
    }
}
