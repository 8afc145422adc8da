//! Defines the functions of streams, including stream memory operations, which write a word in memory or wait for it.

use crate::driver::caller::arguments::{HostFunction, Out};
use crate::driver::handles::Handle;
use crate::driver::report::failures::not_simulated;
use crate::driver::result::{Answer, Code};
use crate::driver::state::Context;
use crate::driver::state::current::CurrentContext;
use crate::driver::state::deadlock::wait_for_device;
use crate::driver::state::explore::hosts::wait_until;
use crate::driver::state::simulator::{Locked, begin, begin_with};
use crate::driver::stream::queue::{Order, Stream, Until, Work};
use crate::driver::wait::{Seq, WaitReason};

/// The most streams of a context that are created without waiting for the device. With 34 streams, creating another
/// stream did not wait. With 36 streams it did.
const STREAMS: usize = 34;

fn create(made: &Out<Handle>, flags: u32, priority: i32, call: &'static str) -> Answer {
    let mut state = begin()?;
    let CurrentContext { context, green } = CurrentContext::peek().ok_or(Code::INVALID_CONTEXT)?;
    let device = state.sound(context)?.device;
    let part = if green == 0 { None } else { Some((green, state.green(green)?.span)) };
    made.ready()?;
    if flags > 1 {
        return Err(Code::INVALID_VALUE);
    }
    // Counts the new stream, but not the context's own two streams.
    let streams = state.streams.iter().filter(|(_, stream)| stream.context == context && !stream.closed);
    let count = streams.count().saturating_sub(1);
    if count > STREAMS.max(state.sound(context)?.most_streams) {
        state = wait_for_device(state, device, call, WaitReason::Streams)?;
    }
    let most = &mut state.sound(context)?.most_streams;
    *most = count.max(*most);
    let order = if flags == 1 { Order::NonBlocking } else { Order::Blocking };
    let stream = Stream { priority: priority.clamp(-5, 0), part, ..Stream::new(context, device, order) };
    made.set(state.streams.insert(stream))
}

/// `CU_EVENT_WAIT_EXTERNAL`: in a capture, the wait becomes a node of the graph.
const EXTERNAL: u32 = 1;

/// Waits until a stream has done all work up to the position `seq`.
pub(crate) fn wait(mut state: Locked, stream: Handle, seq: Seq) -> Answer<Locked> {
    let context = state.streams.get(stream)?.context;
    state = wait_until(state, move |state| state.streams.has_done(stream, seq));
    state.host_saw(stream, seq);
    state.sound(context)?;
    Ok(state)
}

/// Submits work that reads or writes a word in memory.
fn submit_word(stream: Handle, address: usize, work: Work) -> Answer {
    let (mut state, stream) = begin_with(stream)?;
    if !address.is_multiple_of(4) || !state.memory.lock().has(address, 4) {
        return Err(Code::INVALID_VALUE);
    }
    state.submit(stream, work, None).map(drop)
}

calls! {
    2000 fn cuStreamCreate(stream: Out<Handle>, flags: u32) = create(&stream, flags, 0, "cuStreamCreate");

    5050 fn cuStreamCreateWithPriority(stream: Out<Handle>, flags: u32, priority: i32) = {
        create(&stream, flags, priority, "cuStreamCreateWithPriority")
    };

    4000 fn cuStreamDestroy_v2(stream: Handle) = {
        let mut state = begin()?;
        if stream <= 2 {
            return Err(Code::INVALID_HANDLE);
        }
        let context = state.streams.get(stream)?.context;
        let Context { legacy, per_thread, .. } = state.sound(context)?;
        let is_its_own = [*legacy, *per_thread].contains(&stream);
        let found = state.streams.get_mut(stream)?;
        if found.closed || is_its_own {
            return Err(Code::INVALID_HANDLE);
        }
        found.closed = true;
        let is_done = found.queue.is_empty();
        state.abandon_capture(stream);
        if is_done {
            state.streams.remove(stream)?;
        }
        Ok(())
    };

    2000 fn cuStreamSynchronize(stream: Handle) = {
        let (mut state, stream) = begin_with(stream)?;
        state.not_captured(stream)?;
        let last = state.streams.last;
        // Work in the default stream waits for the blocking streams, and their work waits for the default stream.
        wait(state, stream, last).map(drop)
    };

    2000 fn cuStreamQuery(stream: Handle) = {
        let (mut state, stream) = begin_with(stream)?;
        state.not_captured(stream)?;
        if !state.streams.get(stream)?.queue.is_empty() {
            return Err(Code::NOT_READY);
        }
        let last = state.streams.last;
        state.host_saw(stream, last);
        Ok(())
    };

    5050 fn cuStreamGetPriority(stream: Handle, priority: Out<i32>) = {
        let (state, stream) = begin_with(stream)?;
        priority.set(state.streams.get(stream)?.priority)
    };

    5050 fn cuStreamGetFlags(stream: Handle, flags: Out<u32>) = {
        let (state, stream) = begin_with(stream)?;
        flags.set((state.streams.get(stream)?.order == Order::NonBlocking).into())
    };

    9020 fn cuStreamGetCtx(stream: Handle, context: Out<Handle>) = {
        let (state, stream) = begin_with(stream)?;
        let found = state.streams.get(stream)?;
        context.set(found.part.map_or(found.context, |(green, _)| green))
    };

    3020 fn cuStreamWaitEvent(stream: Handle, event: Handle, flags: u32) = {
        let (mut state, stream) = begin_with(stream)?;
        let found = state.events.get(event)?;
        let (recorded, captured) = (found.recorded, found.captured.clone());
        let is_captured = state.is_captured(stream)?;
        if is_captured && flags & EXTERNAL != 0 {
            return not_simulated("waiting for an event as a node of a graph");
        }
        if let Some(part) = captured {
            return state.join(stream, &part);
        }
        let Some((recorded, seq)) = recorded else { return Ok(()) };
        if is_captured {
            return state.isolated(stream);
        }
        // Who looks for races has to know of the wait even if it's over.
        if !state.streams.has_done(recorded, seq) || state.watched.is_some() {
            state.submit(stream, Work::WaitFor { stream: recorded, seq }, None)?;
        }
        Ok(())
    };

    11070 fn cuStreamWaitValue32_v2(stream: Handle, address: usize, value: u32, flags: u32) = {
        let until = Until::from_flags(flags).ok_or(Code::INVALID_VALUE)?;
        submit_word(stream, address, Work::WaitValue { address, value, until })
    };

    11070 fn cuStreamWriteValue32_v2(stream: Handle, address: usize, value: u32, _flags: u32) = {
        submit_word(stream, address, Work::WriteValue { address, value })
    };

    10000 fn cuLaunchHostFunc(stream: Handle, function: HostFunction, data: usize) = {
        let (mut state, stream) = begin_with(stream)?;
        if !function.is_there() {
            return Err(Code::INVALID_VALUE);
        }
        state.submit(stream, Work::Call { function, data }, None)?;
        Ok(())
    };
}
