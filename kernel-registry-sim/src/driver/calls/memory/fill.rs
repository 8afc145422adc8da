//! Defines the functions that fill memory.

use super::copy::finish;
use crate::driver::handles::Handle;
use crate::driver::result::{Answer, Code};
use crate::driver::state::simulator::begin_with;
use crate::driver::stream::queue::Work;

/// Submits a fill of `count` elements, each of `width` bytes.
fn fill(to: usize, pattern: u32, width: usize, count: usize, stream: Handle, waits: bool) -> Answer {
    let (mut state, stream) = begin_with(stream)?;
    if count == 0 {
        return Ok(());
    }
    let bytes = count.checked_mul(width).ok_or(Code::INVALID_VALUE)?;
    if !to.is_multiple_of(width) || !state.memory.lock().has(to, bytes) {
        return Err(Code::INVALID_VALUE);
    }
    // After a memset, the next launch no longer counts as the first launch of its context.
    let (context, last) = (state.streams.get(stream)?.context, state.streams.last);
    state.sound(context)?.launched.get_or_insert(last);
    finish(state, stream, Work::Fill { to, pattern, width, count }, waits)
}

calls! {
    3020 fn cuMemsetD8_v2(to: usize, value: u8, count: usize) = fill(to, value.into(), 1, count, 0, true);
    3020 fn cuMemsetD32_v2(to: usize, value: u32, count: usize) = fill(to, value, 4, count, 0, true);

    3020 fn cuMemsetD8Async(to: usize, value: u8, count: usize, stream: Handle) = {
        fill(to, value.into(), 1, count, stream, false)
    };

    3020 fn cuMemsetD32Async(to: usize, value: u32, count: usize, stream: Handle) = fill(to, value, 4, count, stream, false);
}
