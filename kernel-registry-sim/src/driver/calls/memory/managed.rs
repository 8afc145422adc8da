//! Defines the functions of managed memory. Advice and prefetching are checked, but have no effect.

use super::location::Location;
use crate::driver::calls::device::device;
use crate::driver::handles::Handle;
use crate::driver::memory::blocks::Kind;
use crate::driver::result::{Answer, Code};
use crate::driver::state::State;
use crate::driver::state::simulator::{begin, begin_with};
use crate::driver::stream::queue::Work;

/// `CU_DEVICE_CPU`.
const HOST: i32 = -1;

/// Checks that these bytes are managed memory.
fn check_managed(state: &State, address: usize, bytes: usize) -> Answer {
    let found = state.memory.lock().find(address, bytes);
    let is_managed = found.is_some_and(|(_, block)| block.kind == Kind::Managed);
    if is_managed && bytes != 0 { Ok(()) } else { Err(Code::INVALID_VALUE) }
}

fn advise(
    address: usize,
    bytes: usize,
    advice: u32,
    check_location: impl FnOnce(&State) -> Answer,
) -> Answer {
    let state = begin()?;
    check_managed(&state, address, bytes)?;
    if !(1..=6).contains(&advice) {
        return Err(Code::INVALID_VALUE);
    }
    // `SET_READ_MOSTLY` (1) and `UNSET_READ_MOSTLY` (2) ignore the location.
    if advice <= 2 { Ok(()) } else { check_location(&state) }
}

fn prefetch(
    address: usize,
    bytes: usize,
    stream: Handle,
    check_location: impl FnOnce(&State) -> Answer,
) -> Answer {
    let mut state = begin()?;
    check_managed(&state, address, bytes)?;
    check_location(&state)?;
    let stream = state.stream(stream)?;
    state.submit(stream, Work::Nothing, None).map(drop)
}

/// Checks that the ordinal is `HOST` or that of a device.
fn check_ordinal(state: &State, ordinal: i32) -> Answer {
    if ordinal == HOST { Ok(()) } else { device(state, ordinal).map(drop) }
}

calls! {
    8000 fn cuMemAdvise(address: usize, bytes: usize, advice: u32, ordinal: i32) = {
        advise(address, bytes, advice, |state| check_ordinal(state, ordinal))
    };

    12020 fn cuMemAdvise_v2(address: usize, bytes: usize, advice: u32, location: Location) = {
        advise(address, bytes, advice, |state| location.check(state))
    };

    8000 fn cuMemPrefetchAsync(address: usize, bytes: usize, ordinal: i32, stream: Handle) = {
        prefetch(address, bytes, stream, |state| check_ordinal(state, ordinal))
    };

    12020 fn cuMemPrefetchAsync_v2(address: usize, bytes: usize, location: Location, _flags: u32, stream: Handle) = {
        prefetch(address, bytes, stream, |state| location.check(state))
    };

    6000 fn cuStreamAttachMemAsync(stream: Handle, address: usize, bytes: usize, flags: u32) = {
        let (mut state, stream) = begin_with(stream)?;
        check_managed(&state, address, bytes.max(1))?;
        if !matches!(flags, 1 | 2 | 4) {
            return Err(Code::INVALID_VALUE);
        }
        if state.is_captured(stream)? {
            return Err(Code::STREAM_CAPTURE_UNSUPPORTED);
        }
        state.submit(stream, Work::Nothing, None).map(drop)
    };
}
