//! Defines the functions that copy memory.

use Place::{Device, Host};

use crate::driver::caller;
use crate::driver::calls::stream::wait;
use crate::driver::handles::Handle;
use crate::driver::memory::blocks::{Block, Kind};
use crate::driver::result::{Answer, Code};
use crate::driver::state::simulator::{Locked, begin, begin_with};
use crate::driver::stream::queue::{Source, Work};

/// Whether an address of a copy is in device or in host memory.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    Device,
    Host,
}

/// Submits a copy. Pageable host memory is read by this call, or written before the call returns.
fn copy(to: (usize, Place), from: (usize, Place), bytes: usize, stream: Handle, waits: bool) -> Answer {
    let (state, stream) = begin_with(stream)?;
    let is_captured = state.is_captured(stream)?;
    if bytes == 0 {
        return Ok(());
    }
    if [to, from].iter().any(|(address, _)| *address == 0) {
        return Err(Code::INVALID_VALUE);
    }
    // Returns whether the driver knows the memory. Unknown memory on a device is an error.
    let is_known = |(address, place)| {
        let memory = state.memory.lock();
        let is_known = memory.has(address, bytes);
        let must_be = place == Device || memory.find(address, 1).is_some();
        if must_be && !is_known { Err(Code::INVALID_VALUE) } else { Ok(is_known) }
    };
    let (to_known, from_known) = (is_known(to)?, is_known(from)?);
    let from = if from_known || is_captured {
        Source::Address(from.0)
    } else {
        Source::Bytes(caller::read(from.0, bytes)?)
    };
    if to_known || is_captured {
        return finish(state, stream, Work::Copy { to: to.0, from, bytes }, waits);
    }
    // The bytes go through a buffer of the driver, so that a wrong address of the caller makes this call fail.
    let (context, device) = state.streams.get(stream).map(|stream| (stream.context, stream.device))?;
    let between = state.memory.lock().allocate(Block { bytes, kind: Kind::Host, context, device })?;
    let done = finish(state, stream, Work::Copy { to: between, from, bytes }, true);
    let state = begin()?;
    let mut memory = state.memory.lock();
    let written = done.and_then(|()| memory.copy(to.0, between, bytes).map_err(|_| Code::INVALID_VALUE));
    memory.free(between);
    written
}

/// Submits work, and waits for it if asked to.
pub(crate) fn finish(mut state: Locked, stream: Handle, work: Work, waits: bool) -> Answer {
    let seq = state.submit(stream, work, None)?;
    if waits { wait(state, stream, seq).map(drop) } else { Ok(()) }
}

calls! {
    3020 fn cuMemcpyHtoD_v2(to: usize, from: usize, bytes: usize) = copy((to, Device), (from, Host), bytes, 0, true);
    3020 fn cuMemcpyDtoH_v2(to: usize, from: usize, bytes: usize) = copy((to, Host), (from, Device), bytes, 0, true);
    3020 fn cuMemcpyDtoD_v2(to: usize, from: usize, bytes: usize) = copy((to, Device), (from, Device), bytes, 0, false);

    4000 fn cuMemcpyPeer(to: usize, _to_context: Handle, from: usize, _from_context: Handle, bytes: usize) = {
        copy((to, Device), (from, Device), bytes, 0, true)
    };

    3020 fn cuMemcpyHtoDAsync_v2(to: usize, from: usize, bytes: usize, stream: Handle) = {
        copy((to, Device), (from, Host), bytes, stream, false)
    };

    3020 fn cuMemcpyDtoHAsync_v2(to: usize, from: usize, bytes: usize, stream: Handle) = {
        copy((to, Host), (from, Device), bytes, stream, false)
    };

    3020 fn cuMemcpyDtoDAsync_v2(to: usize, from: usize, bytes: usize, stream: Handle) = {
        copy((to, Device), (from, Device), bytes, stream, false)
    };

    4000 fn cuMemcpyPeerAsync(
        to: usize, _to_context: Handle, from: usize, _from_context: Handle, bytes: usize, stream: Handle,
    ) = {
        copy((to, Device), (from, Device), bytes, stream, false)
    };
}
