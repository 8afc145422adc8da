//! Streams, and words in memory that they wait for or write.

use super::context::current;
use crate::driver::abi::{HostFunction, In, Out, StreamFunction};
use crate::driver::deadlock::wait_for_device;
use crate::driver::graph::Task;
use crate::driver::handles::Handle;
use crate::driver::process::{Locked, Simulator};
use crate::driver::result::{Answer, Code};
use crate::driver::state::{Context, begin, begin_with};
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
    let streams = state.streams.iter().filter(|(_, stream)| stream.context == context && !stream.closed);
    let alive = streams.count().saturating_sub(1);
    if alive > STREAMS.max(state.sound(context)?.most_streams) {
        state = wait_for_device(state, device, call, Because::Streams)?;
    }
    let most = &mut state.sound(context)?.most_streams;
    *most = alive.max(*most);
    let order = if flags == 1 { Order::NonBlocking } else { Order::Blocking };
    let stream = Stream { priority: priority.clamp(-5, 0), ..Stream::new(context, device, order) };
    made.set(state.streams.insert(stream))
}

/// `CUstreamAttrID`. But for the priority they say how fast something is, and not what it comes to.
const ACCESS_POLICY: u32 = 1;
const SYNCHRONISATION: u32 = 3;
const PRIORITY: u32 = 8;
const DOMAIN_MAP: u32 = 9;
const DOMAIN: u32 = 10;

/// The flag of waits for events, and of records, that are nodes of a graph instead of arrows.
pub(super) const EXTERNAL: u32 = 1;

/// Waits until a stream has done what was submitted until then.
pub(super) fn wait(mut state: Locked, stream: Handle, seq: Seq) -> Answer<Locked> {
    let context = state.streams.get(stream)?.context;
    while !state.has_done(stream, seq) {
        state = Simulator::get().wait(state);
    }
    state.sound(context)?;
    Ok(state)
}

/// `CUstreamBatchMemOpParams`: what to do, and with which word.
#[derive(Clone, Copy)]
#[repr(C)]
struct Operation {
    what: u32,
    address: usize,
    value: u64,
    flags: u32,
    rest: [u64; 2],
}

/// `CUstreamBatchMemOpType`.
const WAIT_32: u32 = 1;
const WRITE_32: u32 = 2;
const FLUSH: u32 = 3;
const WAIT_64: u32 = 4;
const WRITE_64: u32 = 5;
const BARRIER: u32 = 6;

impl Operation {
    fn work(self) -> Answer<Work> {
        let Operation { what, address, value, flags, .. } = self;
        let wide = matches!(what, WAIT_64 | WRITE_64);
        match what {
            WAIT_32 | WAIT_64 => {
                let until = Until::from_flags(flags).ok_or(Code::INVALID_VALUE)?;
                Ok(Work::WaitValue { address, wide, value, until })
            }
            WRITE_32 | WRITE_64 => Ok(Work::WriteValue { address, wide, value }),
            // Flushes and barriers: what was written before is seen already.
            FLUSH | BARRIER => Ok(Work::Nothing),
            _ => Err(Code::INVALID_VALUE),
        }
    }
}

/// Gives a stream all of these operations, or none.
fn give(stream: Handle, operations: impl FnOnce() -> Answer<Vec<Operation>>) -> Answer {
    let (mut state, stream) = begin_with(stream)?;
    let works = operations()?.into_iter().map(Operation::work).collect::<Answer<Vec<_>>>()?;
    for work in &works {
        if let Work::WaitValue { address, wide, .. } | Work::WriteValue { address, wide, .. } = work {
            let bytes = if *wide { 8 } else { 4 };
            if !address.is_multiple_of(bytes) || !state.memory.lock().has(*address, bytes) {
                return Err(Code::INVALID_VALUE);
            }
        }
    }
    if state.is_captured(stream)? {
        let context = state.streams.get(stream)?.context;
        return state.capture(stream, Task::Words(works, context));
    }
    works.into_iter().try_for_each(|work| state.submit(stream, work, None).map(drop))
}

fn word(stream: Handle, what: u32, address: usize, value: u64, flags: u32) -> Answer {
    give(stream, || Ok(vec![Operation { what, address, value, flags, rest: [0; 2] }]))
}

fn batch(stream: Handle, count: u32, operations: &In<Operation>, flags: u32) -> Answer {
    give(stream, || match operations.all(count as usize)? {
        operations if flags == 0 && !operations.is_empty() => Ok(operations),
        _ => Err(Code::INVALID_VALUE),
    })
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
    }

    5000 fn cuStreamAddCallback(stream: Handle, function: StreamFunction, data: usize, flags: u32) {
        let given = stream;
        let (mut state, stream) = begin_with(stream)?;
        if !function.is_there() || flags != 0 {
            return Err(Code::INVALID_VALUE);
        }
        state.not_captured(stream)?;
        let function = Function::OfStream(function, given);
        state.submit(stream, Work::Call { function, data }, None).map(drop)
    }

    2000 fn cuStreamSynchronize(stream: Handle) {
        let (mut state, stream) = begin_with(stream)?;
        state.not_captured(stream)?;
        let last = state.last;
        // The default stream is done when blocking streams are, and they when it is.
        wait(state, stream, last).map(drop)
    }

    2000 fn cuStreamQuery(stream: Handle) {
        let (mut state, stream) = begin_with(stream)?;
        state.not_captured(stream)?;
        if state.streams.get(stream)?.queue.is_empty() { Ok(()) } else { Err(Code::NOT_READY) }
    }

    5050 fn cuStreamGetFlags(stream: Handle, flags: Out<u32>) {
        let (state, stream) = begin_with(stream)?;
        flags.set(state.streams.get(stream)?.flags)
    }

    5050 fn cuStreamGetPriority(stream: Handle, priority: Out<i32>) {
        let (state, stream) = begin_with(stream)?;
        priority.set(state.streams.get(stream)?.priority)
    }

    9020 fn cuStreamGetCtx(stream: Handle, context: Out<Handle>) {
        let (state, stream) = begin_with(stream)?;
        context.set(state.streams.get(stream)?.context)
    }

    12080 fn cuStreamGetDevice(stream: Handle, ordinal: Out<i32>) {
        let (state, stream) = begin_with(stream)?;
        ordinal.set(state.streams.get(stream)?.device as i32)
    }

    11000 fn cuStreamSetAttribute(stream: Handle, which: u32, value: In<[u64; 8]>) {
        let (mut state, stream) = begin_with(stream)?;
        let value = value.get()?;
        let found = state.streams.get_mut(stream)?;
        match which {
            PRIORITY => found.priority = (value[0] as i32).clamp(-5, 0),
            ACCESS_POLICY | SYNCHRONISATION | DOMAIN_MAP | DOMAIN => _ = found.attributes.insert(which, value),
            _ => return Err(Code::INVALID_VALUE),
        }
        Ok(())
    }

    11000 fn cuStreamGetAttribute(stream: Handle, which: u32, value: Out<[u64; 8]>) {
        let (state, stream) = begin_with(stream)?;
        let found = state.streams.get(stream)?;
        value.set(match which {
            PRIORITY => [found.priority.cast_unsigned().into(), 0, 0, 0, 0, 0, 0, 0],
            ACCESS_POLICY | SYNCHRONISATION | DOMAIN_MAP | DOMAIN => {
                found.attributes.get(&which).copied().unwrap_or_default()
            }
            _ => return Err(Code::INVALID_VALUE),
        })
    }

    11000 fn cuStreamCopyAttributes(to: Handle, from: Handle) {
        let mut state = begin()?;
        let (to, from) = (state.stream(to)?, state.stream(from)?);
        let found = state.streams.get(from)?;
        let (priority, attributes) = (found.priority, found.attributes.clone());
        let to = state.streams.get_mut(to)?;
        (to.priority, to.attributes) = (priority, attributes);
        Ok(())
    }

    12000 fn cuStreamGetId(stream: Handle, id: Out<u64>) {
        id.set(begin()?.stream(stream)? as u64)
    }

    3020 fn cuStreamWaitEvent(stream: Handle, event: Handle, flags: u32) {
        let (mut state, stream) = begin_with(stream)?;
        let found = state.events.get(event)?;
        let (recorded, captured) = (found.recorded, found.captured.clone());
        let is_captured = state.is_captured(stream)?;
        if is_captured && flags & EXTERNAL != 0 {
            return state.capture(stream, Task::Wait(event));
        }
        if let Some(part) = captured {
            return state.join(stream, &part);
        }
        let Some((recorded, seq)) = recorded else { return Ok(()) };
        if is_captured {
            return state.isolated(stream);
        }
        if !state.has_done(recorded, seq) {
            state.submit(stream, Work::WaitFor { stream: recorded, seq }, None)?;
        }
        Ok(())
    }

    8000 fn cuStreamWaitValue32(stream: Handle, address: usize, value: u32, flags: u32) {
        word(stream, WAIT_32, address, value.into(), flags)
    }

    11070 fn cuStreamWaitValue32_v2(stream: Handle, address: usize, value: u32, flags: u32) {
        word(stream, WAIT_32, address, value.into(), flags)
    }

    9000 fn cuStreamWaitValue64(stream: Handle, address: usize, value: u64, flags: u32) {
        word(stream, WAIT_64, address, value, flags)
    }

    11070 fn cuStreamWaitValue64_v2(stream: Handle, address: usize, value: u64, flags: u32) {
        word(stream, WAIT_64, address, value, flags)
    }

    8000 fn cuStreamWriteValue32(stream: Handle, address: usize, value: u32, _flags: u32) {
        word(stream, WRITE_32, address, value.into(), 0)
    }

    11070 fn cuStreamWriteValue32_v2(stream: Handle, address: usize, value: u32, _flags: u32) {
        word(stream, WRITE_32, address, value.into(), 0)
    }

    9000 fn cuStreamWriteValue64(stream: Handle, address: usize, value: u64, _flags: u32) {
        word(stream, WRITE_64, address, value, 0)
    }

    11070 fn cuStreamWriteValue64_v2(stream: Handle, address: usize, value: u64, _flags: u32) {
        word(stream, WRITE_64, address, value, 0)
    }

    8000 fn cuStreamBatchMemOp(stream: Handle, count: u32, operations: In<Operation>, flags: u32) {
        batch(stream, count, &operations, flags)
    }

    11070 fn cuStreamBatchMemOp_v2(stream: Handle, count: u32, operations: In<Operation>, flags: u32) {
        batch(stream, count, &operations, flags)
    }

    10000 fn cuLaunchHostFunc(stream: Handle, function: HostFunction, data: usize) {
        let (mut state, stream) = begin_with(stream)?;
        if !function.is_there() {
            return Err(Code::INVALID_VALUE);
        }
        state.submit(stream, Work::Call { function: Function::Plain(function), data }, None)?;
        Ok(())
    }
}
