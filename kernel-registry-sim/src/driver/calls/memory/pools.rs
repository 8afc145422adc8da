//! Defines the functions of memory pools. A pool keeps no freed memory: memory that is freed to a pool is free for all
//! at once.

use super::allocate::allocate;
use super::location::Origin;
use crate::driver::caller::arguments::{In, Out};
use crate::driver::calls::device::device;
use crate::driver::handles::Handle;
use crate::driver::memory::blocks::{Block, Kind};
use crate::driver::report::failures::not_simulated;
use crate::driver::result::{Answer, Code};
use crate::driver::state::simulator::{begin, begin_with};
use crate::driver::stream::queue::{Stream, Work};

/// A `CUmemPoolProps`, the driver's description of a memory pool.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Properties {
    pub(crate) origin: Origin,
    most_bytes: usize,
    usage: u16,
    reserved: [u8; 54],
}

fn allocate_from(pointer: &Out<usize>, bytes: usize, pool: Option<Handle>, stream: Handle) -> Answer {
    let (mut state, stream) = begin_with(stream)?;
    let Stream { context, device, .. } = *state.streams.get(stream)?;
    pointer.ready()?;
    if bytes == 0 {
        // The address is null, which `cuMemFreeAsync` ignores.
        return pointer.set(0);
    }
    if state.is_captured(stream)? {
        if bytes as u64 > state.free_memory(device) {
            return Err(Code::OUT_OF_MEMORY);
        }
        let allocation = state.memory.lock().allocate_for_graph(bytes, context, device)?;
        pointer.set(allocation.address())?;
        return state.capture(stream, Work::Appear(allocation, true));
    }
    let pool = pool.unwrap_or_else(|| state.pools.chosen_for(device));
    let device = state.pools.get(pool)?.device;
    let used = state.memory.lock().used_of_pool(pool);
    let address = allocate(&state, Block { bytes, kind: Kind::Pooled(pool), context, device })?;
    let pool = state.pools.get_mut(pool)?;
    pool.most_used = pool.most_used.max(used + bytes as u64);
    pointer.set(address)
}

calls! {
    11020 fn cuMemAllocAsync(pointer: Out<usize>, bytes: usize, stream: Handle) = allocate_from(&pointer, bytes, None, stream);

    11020 fn cuMemAllocFromPoolAsync(pointer: Out<usize>, bytes: usize, pool: Handle, stream: Handle) = {
        allocate_from(&pointer, bytes, Some(pool), stream)
    };

    11020 fn cuMemFreeAsync(pointer: usize, stream: Handle) = {
        let (mut state, stream) = begin_with(stream)?;
        if pointer == 0 {
            return Ok(());
        }
        if state.is_captured(stream)? {
            let allocation = state.memory.lock().of_graph(pointer)?;
            return state.capture(stream, Work::Appear(allocation, false));
        }
        let is_kind = |kind| matches!(kind, Kind::Device | Kind::Pooled(_) | Kind::Graph { .. });
        let mut memory = state.memory.lock();
        if memory.starting_at(pointer, |kind| kind == Kind::Managed).is_ok() {
            return Err(Code::NOT_SUPPORTED);
        }
        memory.starting_at(pointer, is_kind)?;
        memory.may_free(pointer)?;
        memory.set_allocated_after_pending_work(pointer, false);
        drop(memory);
        state.submit(stream, Work::Free(pointer), None)?;
        Ok(())
    };

    11020 fn cuDeviceGetDefaultMemPool(pool: Out<Handle>, ordinal: i32) = {
        let mut state = begin()?;
        let device = device(&state, ordinal)?;
        pool.set(state.pools.default_of(device))
    };

    11020 fn cuDeviceGetMemPool(pool: Out<Handle>, ordinal: i32) = {
        let mut state = begin()?;
        let device = device(&state, ordinal)?;
        pool.set(state.pools.chosen_for(device))
    };

    11020 fn cuDeviceSetMemPool(ordinal: i32, pool: Handle) = {
        let mut state = begin()?;
        let device = device(&state, ordinal)?;
        state.pools.choose(device, pool)
    };

    11020 fn cuMemPoolCreate(pool: Out<Handle>, properties: In<Properties>) = {
        let mut state = begin()?;
        let properties = properties.get()?;
        let device = properties.origin.device(&state)?;
        pool.ready()?;
        if properties.most_bytes != 0 {
            return not_simulated("a pool with a limit");
        }
        pool.set(state.pools.create(device))
    };

    11020 fn cuMemPoolDestroy(pool: Handle) = begin()?.pools.destroy(pool);
    11020 fn cuMemPoolTrimTo(pool: Handle, _bytes: usize) = begin()?.pools.get(pool).map(drop);

    11020 fn cuMemPoolSetAttribute(pool: Handle, which: u32, value: Out<u64>) = {
        begin()?.pools.get_mut(pool)?.set_attribute(which, value.get()?)
    };

    11020 fn cuMemPoolGetAttribute(pool: Handle, which: u32, value: Out<u64>) = {
        let state = begin()?;
        let used = state.memory.lock().used_of_pool(pool);
        value.set(state.pools.get(pool)?.attribute(which, used)?)
    };

    11040 fn cuDeviceGraphMemTrim(ordinal: i32) = {
        // Memory that no graph refers to is freed anyway.
        device(&*begin()?, ordinal).map(drop)
    };
}
