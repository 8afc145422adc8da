//! Defines the functions that allocate, free and register memory.

use crate::driver::caller;
use crate::driver::caller::arguments::Out;
use crate::driver::memory::blocks::{Block, Kind};
use crate::driver::report::failures::not_simulated;
use crate::driver::result::{Answer, Code};
use crate::driver::state::State;
use crate::driver::state::current::CurrentContext;
use crate::driver::state::deadlock::wait_for_device;
use crate::driver::state::simulator::begin;
use crate::driver::state::worker::after_turn;
use crate::driver::wait::WaitReason;

/// Allocates memory if there is room: on the device, or for host and managed memory in this machine.
pub(crate) fn allocate(state: &State, block: Block) -> Answer<usize> {
    let room = match block.kind {
        Kind::Device | Kind::Pooled(_) => state.free_memory(block.device),
        Kind::Host | Kind::Managed => caller::memory().saturating_sub(state.memory.lock().used_of_host()),
        _ => u64::MAX,
    };
    if block.bytes as u64 > room {
        return Err(Code::OUT_OF_MEMORY);
    }
    state.memory.lock().allocate(block)
}

/// Allocates memory for the current context.
fn allocate_to(pointer: &Out<usize>, bytes: usize, kind: Kind) -> Answer {
    let mut state = begin()?;
    pointer.ready()?;
    state.may_disturb()?;
    let context = CurrentContext::get()?;
    let device = state.sound(context)?.device;
    pointer.set(allocate(&state, Block { bytes, kind, context, device })?)
}

/// Frees memory. Waits for the device, unless the memory is from a pool. A null pointer is ignored.
fn free(address: usize, is_kind: fn(Kind) -> bool, call: &'static str) -> Answer {
    let mut state = begin()?;
    if address == 0 {
        return Ok(());
    }
    let Block { context, device, kind, .. } = state.memory.lock().starting_at(address, is_kind)?;
    state.sound(context)?;
    state.may_disturb()?;
    state.memory.lock().may_free(address)?;
    if !matches!(kind, Kind::Pooled(_)) {
        state = wait_for_device(state, device, call, WaitReason::Free)?;
    }
    // Another thread may have freed the memory meanwhile.
    let mut memory = state.memory.lock();
    memory.starting_at(address, is_kind)?;
    memory.may_free(address)?;
    memory.set_allocated_after_pending_work(address, false);
    memory.free(address);
    drop(memory);
    after_turn(state);
    Ok(())
}

/// Returns whether `cuMemFree` frees memory of this kind.
fn is_device(kind: Kind) -> bool {
    matches!(kind, Kind::Device | Kind::Managed | Kind::Pooled(_) | Kind::Graph { .. })
}

/// Flags of `cuMemHostAlloc` and `cuMemHostRegister`: portable, mapped, and write-combined or I/O memory.
const HOST_FLAGS: u32 = 7;
const READ_ONLY: u32 = 8;

calls! {
    3020 fn cuMemGetInfo_v2(free: Out<usize>, total: Out<usize>) = {
        let mut state = begin()?;
        let device = state.sound(CurrentContext::get()?)?.device;
        free.set(state.free_memory(device) as usize)?;
        total.set(state.devices[device].kind.memory as usize)
    };

    3020 fn cuMemAlloc_v2(pointer: Out<usize>, bytes: usize) = allocate_to(&pointer, bytes, Kind::Device);
    6000 fn cuMemAllocManaged(pointer: Out<usize>, bytes: usize, _flags: u32) = allocate_to(&pointer, bytes, Kind::Managed);
    3020 fn cuMemFree_v2(pointer: usize) = free(pointer, is_device, "cuMemFree");
    3020 fn cuMemAllocHost_v2(pointer: Out<usize>, bytes: usize) = allocate_to(&pointer, bytes, Kind::Host);

    2020 fn cuMemHostAlloc(pointer: Out<usize>, bytes: usize, flags: u32) = {
        if flags & !HOST_FLAGS != 0 {
            return Err(Code::INVALID_VALUE);
        }
        allocate_to(&pointer, bytes, Kind::Host)
    };

    2000 fn cuMemFreeHost(pointer: usize) = free(pointer, |kind| kind == Kind::Host, "cuMemFreeHost");

    6050 fn cuMemHostRegister_v2(pointer: usize, bytes: usize, flags: u32) = {
        let mut state = begin()?;
        let context = CurrentContext::get()?;
        let device = state.sound(context)?.device;
        if flags & READ_ONLY != 0 {
            return not_simulated("memory of the host that kernels may only read");
        }
        if pointer == 0 || bytes == 0 || flags & !HOST_FLAGS != 0 {
            return Err(Code::INVALID_VALUE);
        }
        let block = Block { bytes, kind: Kind::Registered, context, device };
        state.memory.lock().register(pointer, block)
    };

    4000 fn cuMemHostUnregister(pointer: usize) = {
        if pointer == 0 {
            return Err(Code::INVALID_VALUE);
        }
        let is_registered = |kind| kind == Kind::Registered;
        let memory = begin()?.memory.clone();
        memory.lock().starting_at(pointer, is_registered).map_err(|_| Code::HOST_MEMORY_NOT_REGISTERED)?;
        free(pointer, is_registered, "cuMemHostUnregister")
    };

    3020 fn cuMemHostGetDevicePointer_v2(device: Out<usize>, pointer: usize, _flags: u32) = {
        let state = begin()?;
        let found = state.memory.lock().find(pointer, 1).ok_or(Code::INVALID_VALUE)?;
        let is_known = found.1.kind.is_host() || found.1.kind == Kind::Managed;
        if is_known { device.set(pointer) } else { Err(Code::INVALID_VALUE) }
    };
}
