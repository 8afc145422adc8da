//! Memory: of the device, pinned, and mapped; copies, and filling it.

use super::context::current;
use super::stream::wait;
use crate::driver::abi::Out;
use crate::driver::caller;
use crate::driver::deadlock::wait_for_device;
use crate::driver::handles::Handle;
use crate::driver::memory::{Block, Kind};
use crate::driver::process::Locked;
use crate::driver::result::{Answer, Code};
use crate::driver::schedule::after_turn;
use crate::driver::state::{State, begin};
use crate::driver::stream::{Because, Source, Work};

/// New memory of the current context.
fn allocate(state: &mut State, bytes: usize, kind: Kind) -> Answer<usize> {
    let context = current()?;
    let device = state.sound(context)?.device;
    if kind == Kind::Device && bytes as u64 > state.free_memory(device) {
        return Err(Code::OUT_OF_MEMORY);
    }
    state.memory.lock().allocate(Block { bytes, kind, context, device })
}

fn allocate_to(pointer: &Out<usize>, bytes: usize, kind: Kind) -> Answer {
    let mut state = begin()?;
    pointer.ready()?;
    pointer.set(allocate(&mut state, bytes, kind)?)
}

/// Frees memory of one of these kinds, which waits for the device. Null is no memory, and no error.
fn free(address: usize, kinds: &[Kind], call: &'static str) -> Answer {
    let mut state = begin()?;
    if address == 0 {
        return Ok(());
    }
    let device = state.memory.lock().starting_at(address, kinds)?.device;
    state = wait_for_device(state, device, call, Because::Free)?;
    // Somebody else may have been faster.
    let mut memory = state.memory.lock();
    memory.starting_at(address, kinds)?;
    memory.free(address);
    drop(memory);
    after_turn(state);
    Ok(())
}

/// Where the bytes of a copy are.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    Device,
    Host,
}

/// Which way bytes go.
struct Copy {
    to: (usize, Place),
    from: (usize, Place),
    bytes: usize,
}

impl Copy {
    /// Gives a copy to a stream. Memory of the host that is not pinned is read at once, and written before the call returns,
    /// as is everything if the caller wants to wait.
    fn submit(self, stream: Handle, waits: bool) -> Answer {
        let mut state = begin()?;
        let stream = state.stream(stream, current)?;
        if self.bytes == 0 {
            return Ok(());
        }
        let Copy { to, from, bytes } = self;
        if [to, from].iter().any(|(address, _)| *address == 0) {
            return Err(Code::INVALID_VALUE);
        }
        let is_known = |address| state.memory.lock().find(address, bytes).is_some();
        let begins = |address| state.memory.lock().find(address, 1).is_some();
        let is_wrong = |(address, place)| (place == Place::Device || begins(address)) && !is_known(address);
        if [to, from].into_iter().any(is_wrong) {
            return Err(Code::INVALID_VALUE);
        }
        let pageable = |(address, place)| place == Place::Host && !is_known(address);
        let is_captured = state.streams.get(stream)?.capture.is_some();
        if is_captured && (waits || pageable(to)) {
            return Err(Code::STREAM_CAPTURE_UNSUPPORTED);
        }
        let from = if pageable(from) {
            Source::Bytes(caller::read(from.0, bytes)?)
        } else {
            Source::Address(from.0)
        };
        if !pageable(to) {
            return finish(state, stream, Work::Copy { to: to.0, from, bytes }, waits);
        }
        // By way of memory that is there for sure, so that an address of the caller's which is none concerns nobody else.
        let (context, device) = state.streams.get(stream).map(|stream| (stream.context, stream.device))?;
        let between = state.memory.lock().allocate(Block { bytes, kind: Kind::Host, context, device })?;
        let done = finish(state, stream, Work::Copy { to: between, from, bytes }, true);
        let state = begin()?;
        let mut memory = state.memory.lock();
        let written = done.and_then(|()| memory.copy(to.0, between, bytes).map_err(|_| Code::INVALID_VALUE));
        memory.free(between);
        written
    }
}

fn finish(mut state: Locked, stream: Handle, work: Work, waits: bool) -> Answer {
    let seq = state.submit(stream, work, None)?;
    if waits { wait(state, stream, seq).map(drop) } else { Ok(()) }
}

fn fill(stream: Handle, to: usize, pattern: u32, width: usize, count: usize, waits: bool) -> Answer {
    let mut state = begin()?;
    let stream = state.stream(stream, current)?;
    if count == 0 {
        return Ok(());
    }
    let bytes = count.checked_mul(width).ok_or(Code::INVALID_VALUE)?;
    if !to.is_multiple_of(width) || state.memory.lock().find(to, bytes).is_none() {
        return Err(Code::INVALID_VALUE);
    }
    // A memset is as good as a launch for what the first one of a context waits for.
    let (context, last) = (state.streams.get(stream)?.context, state.last);
    state.sound(context)?.launched.get_or_insert(last);
    finish(state, stream, Work::Fill { to, pattern, width, count }, waits)
}

/// The pool of the first device, behind which are those of the others. Nothing that is free stays in them.
const POOLS: Handle = 10 << 40;

/// Flags of `cuMemHostAlloc` and `cuMemHostRegister`: portable, mapped, write-combined or for devices, read-only.
const HOST_FLAGS: u32 = 0xf;
const READ_ONLY: u32 = 8;

calls! {
    3020 fn cuMemGetInfo_v2(free: Out<usize>, total: Out<usize>) {
        let mut state = begin()?;
        let device = state.sound(current()?)?.device;
        free.set(state.free_memory(device) as usize)?;
        total.set(state.devices[device].kind.memory as usize)
    }

    3020 fn cuMemAlloc_v2(pointer: Out<usize>, bytes: usize) {
        allocate_to(&pointer, bytes, Kind::Device)
    }

    11020 fn cuMemAllocAsync(pointer: Out<usize>, bytes: usize, stream: Handle) {
        begin()?.stream(stream, current)?;
        allocate_to(&pointer, bytes, Kind::Device)
    }

    11020 fn cuDeviceGetDefaultMemPool(pool: Out<Handle>, ordinal: i32) {
        let device = super::device::device(&begin()?, ordinal)?;
        pool.set(POOLS + device)
    }

    11020 fn cuDeviceGetMemPool(pool: Out<Handle>, ordinal: i32) {
        let device = super::device::device(&begin()?, ordinal)?;
        pool.set(POOLS + device)
    }

    11020 fn cuMemPoolTrimTo(pool: Handle, _bytes: usize) {
        let device = pool.checked_sub(POOLS).ok_or(Code::INVALID_VALUE)?;
        super::device::device(&begin()?, i32::try_from(device).map_err(|_| Code::INVALID_VALUE)?)?;
        Ok(())
    }

    6000 fn cuMemAllocManaged(pointer: Out<usize>, bytes: usize, _flags: u32) {
        allocate_to(&pointer, bytes, Kind::Managed)
    }

    3020 fn cuMemFree_v2(pointer: usize) {
        free(pointer, &[Kind::Device, Kind::Managed], "cuMemFree")
    }

    11020 fn cuMemFreeAsync(pointer: usize, stream: Handle) {
        let mut state = begin()?;
        let stream = state.stream(stream, current)?;
        if pointer == 0 {
            return Ok(());
        }
        state.memory.lock().starting_at(pointer, &[Kind::Device])?;
        state.submit(stream, Work::Free(pointer), None)?;
        Ok(())
    }

    3020 fn cuMemAllocHost_v2(pointer: Out<usize>, bytes: usize) {
        allocate_to(&pointer, bytes, Kind::Host)
    }

    2020 fn cuMemHostAlloc(pointer: Out<usize>, bytes: usize, flags: u32) {
        if flags & !HOST_FLAGS != 0 {
            return Err(Code::INVALID_VALUE);
        }
        allocate_to(&pointer, bytes, Kind::Host)
    }

    2000 fn cuMemFreeHost(pointer: usize) {
        free(pointer, &[Kind::Host], "cuMemFreeHost")
    }

    6050 fn cuMemHostRegister_v2(pointer: usize, bytes: usize, flags: u32) {
        let mut state = begin()?;
        let context = current()?;
        let device = state.sound(context)?.device;
        if pointer == 0 || bytes == 0 || flags & !HOST_FLAGS != 0 {
            return Err(Code::INVALID_VALUE);
        }
        let kind = if flags & READ_ONLY == 0 { Kind::Registered } else { Kind::RegisteredToRead };
        state.memory.lock().register(pointer, Block { bytes, kind, context, device })
    }

    4000 fn cuMemHostUnregister(pointer: usize) {
        if pointer == 0 {
            return Err(Code::INVALID_VALUE);
        }
        let is_registered = |_| Code::HOST_MEMORY_NOT_REGISTERED;
        begin()?.memory.lock().starting_at(pointer, &Kind::REGISTERED).map_err(is_registered)?;
        free(pointer, &Kind::REGISTERED, "cuMemHostUnregister")
    }

    3020 fn cuMemHostGetDevicePointer_v2(device: Out<usize>, pointer: usize, _flags: u32) {
        let state = begin()?;
        let found = state.memory.lock().find(pointer, 1).ok_or(Code::INVALID_VALUE)?;
        if found.1.kind == Kind::Device {
            return Err(Code::INVALID_VALUE);
        }
        device.set(pointer)
    }

    3020 fn cuMemGetAddressRange_v2(start: Out<usize>, bytes: Out<usize>, pointer: usize) {
        let state = begin()?;
        let (first, block) = state.memory.lock().find(pointer, 1).ok_or(Code::NOT_FOUND)?;
        start.set_if_wanted(first)?;
        bytes.set_if_wanted(block.bytes)
    }

    3020 fn cuMemcpyHtoD_v2(to: usize, from: usize, bytes: usize) {
        Copy { to: (to, Place::Device), from: (from, Place::Host), bytes }.submit(0, true)
    }

    3020 fn cuMemcpyDtoH_v2(to: usize, from: usize, bytes: usize) {
        Copy { to: (to, Place::Host), from: (from, Place::Device), bytes }.submit(0, true)
    }

    3020 fn cuMemcpyDtoD_v2(to: usize, from: usize, bytes: usize) {
        Copy { to: (to, Place::Device), from: (from, Place::Device), bytes }.submit(0, false)
    }

    4000 fn cuMemcpy(to: usize, from: usize, bytes: usize) {
        Copy { to: (to, Place::Host), from: (from, Place::Host), bytes }.submit(0, true)
    }

    3020 fn cuMemcpyHtoDAsync_v2(to: usize, from: usize, bytes: usize, stream: Handle) {
        Copy { to: (to, Place::Device), from: (from, Place::Host), bytes }.submit(stream, false)
    }

    3020 fn cuMemcpyDtoHAsync_v2(to: usize, from: usize, bytes: usize, stream: Handle) {
        Copy { to: (to, Place::Host), from: (from, Place::Device), bytes }.submit(stream, false)
    }

    3020 fn cuMemcpyDtoDAsync_v2(to: usize, from: usize, bytes: usize, stream: Handle) {
        Copy { to: (to, Place::Device), from: (from, Place::Device), bytes }.submit(stream, false)
    }

    4000 fn cuMemcpyAsync(to: usize, from: usize, bytes: usize, stream: Handle) {
        Copy { to: (to, Place::Host), from: (from, Place::Host), bytes }.submit(stream, false)
    }

    4000 fn cuMemcpyPeerAsync(to: usize, _to_context: Handle, from: usize, _from_context: Handle, bytes: usize, stream: Handle) {
        Copy { to: (to, Place::Device), from: (from, Place::Device), bytes }.submit(stream, false)
    }

    3020 fn cuMemsetD8_v2(to: usize, value: u8, count: usize) {
        fill(0, to, value.into(), 1, count, true)
    }

    3020 fn cuMemsetD16_v2(to: usize, value: u16, count: usize) {
        fill(0, to, value.into(), 2, count, true)
    }

    3020 fn cuMemsetD32_v2(to: usize, value: u32, count: usize) {
        fill(0, to, value, 4, count, true)
    }

    3020 fn cuMemsetD8Async(to: usize, value: u8, count: usize, stream: Handle) {
        fill(stream, to, value.into(), 1, count, false)
    }

    3020 fn cuMemsetD16Async(to: usize, value: u16, count: usize, stream: Handle) {
        fill(stream, to, value.into(), 2, count, false)
    }

    3020 fn cuMemsetD32Async(to: usize, value: u32, count: usize, stream: Handle) {
        fill(stream, to, value, 4, count, false)
    }
}
