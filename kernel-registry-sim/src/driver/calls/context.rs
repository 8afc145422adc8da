//! Defines the functions of contexts: primary contexts, the current context, and limits.

use super::device::device;
use crate::driver::caller::arguments::{In, Out};
use crate::driver::handles::Handle;
use crate::driver::result::{Answer, Code};
use crate::driver::state::State;
use crate::driver::state::current::CurrentContext;
use crate::driver::state::deadlock::wait_for_device;
use crate::driver::state::explore::hosts::wait_until;
use crate::driver::state::simulator::{Locked, begin};
use crate::driver::state::worker::after_turn;
use crate::driver::wait::WaitReason;

/// Returns the context that a caller means by this handle. 0 means the current context.
fn resolve(context: Handle) -> Answer<Handle> {
    if context == 0 { CurrentContext::get() } else { Ok(context) }
}

/// Creates a context, and makes it current in this thread.
fn create(context: &Out<Handle>, flags: u32, ordinal: i32) -> Answer {
    let mut state = begin()?;
    let device = device(&state, ordinal)?;
    context.ready()?;
    let handle = state.free_context_handle();
    state.create_context(handle, device, flags)?;
    CurrentContext { context: handle, green: 0 }.push();
    context.set(handle)
}

/// Waits until all work of a context that was submitted before this call is done.
pub(crate) fn synchronize(mut state: Locked, context: Handle) -> Answer<Locked> {
    let last = state.streams.last;
    state = wait_until(state, move |state| {
        state.streams.iter().all(|(_, stream)| stream.context != context || stream.has_done(last))
    });
    state.host_saw_all(|stream| stream.context == context);
    state.sound(context)?;
    Ok(state)
}

/// Destroys the primary context, if there is one. The next primary context has no flags.
fn end_primary(mut state: Locked, device: usize) -> Answer {
    state.devices[device].flags = 0;
    let handle = state.devices[device].primary;
    if state.contexts.get(handle).is_ok() {
        state.destroy_context(handle)?;
        after_turn(state);
    }
    Ok(())
}

/// Counts one more user of the primary context, and creates the context if it does not exist.
pub(crate) fn retain(state: &mut State, device: usize) -> Answer {
    let handle = state.devices[device].primary;
    if state.contexts.get(handle).is_err() {
        let flags = state.devices[device].flags;
        state.create_context(handle, device, flags)?;
    }
    state.devices[device].references += 1;
    Ok(())
}

/// Counts one user fewer of the primary context, and destroys the context if there is no user left.
pub(crate) fn release(mut state: Locked, device: usize) -> Answer {
    let left = state.devices[device].references.checked_sub(1).ok_or(Code::INVALID_CONTEXT)?;
    state.devices[device].references = left;
    if left == 0 { end_primary(state, device) } else { Ok(()) }
}

/// Values of `CUlimit`.
const STACK_SIZE: u32 = 0;
const PRINTF_FIFO_SIZE: u32 = 1;
const MALLOC_HEAP_SIZE: u32 = 2;

calls! {
    7000 fn cuDevicePrimaryCtxRetain(context: Out<Handle>, ordinal: i32) = {
        let mut state = begin()?;
        let device = device(&state, ordinal)?;
        context.set(state.devices[device].primary)?;
        retain(&mut state, device)
    };

    11000 fn cuDevicePrimaryCtxRelease_v2(ordinal: i32) = {
        let state = begin()?;
        let device = device(&state, ordinal)?;
        release(state, device)
    };

    11000 fn cuDevicePrimaryCtxReset_v2(ordinal: i32) = {
        let state = begin()?;
        let device = device(&state, ordinal)?;
        if state.greens.iter().any(|(_, green)| green.device == device) {
            return Err(Code::NOT_PERMITTED);
        }
        end_primary(state, device)
    };

    7000 fn cuDevicePrimaryCtxGetState(ordinal: i32, flags: Out<u32>, active: Out<i32>) = {
        let state = begin()?;
        let device = device(&state, ordinal)?;
        let context = state.contexts.get(state.devices[device].primary);
        flags.set(context.map_or(state.devices[device].flags, |context| context.flags))?;
        active.set(context.is_ok().into())
    };

    11000 fn cuDevicePrimaryCtxSetFlags_v2(ordinal: i32, flags: u32) = {
        let mut state = begin()?;
        let device = device(&state, ordinal)?;
        let handle = state.devices[device].primary;
        match state.contexts.get_mut(handle) {
            Ok(context) => context.flags = flags,
            Err(_) => state.devices[device].flags = flags,
        }
        Ok(())
    };

    3020 fn cuCtxCreate_v2(context: Out<Handle>, flags: u32, ordinal: i32) = create(&context, flags, ordinal);

    12050 fn cuCtxCreate_v4(context: Out<Handle>, parameters: In<[usize; 3]>, flags: u32, ordinal: i32) = {
                // Execution affinity and contexts for graphics are not simulated.
        if parameters.get().is_ok_and(|parameters| parameters[0] != 0 || parameters[2] != 0) {
            return Err(Code::NOT_SUPPORTED);
        }
        create(&context, flags, ordinal)
    };

    4000 fn cuCtxDestroy_v2(context: Handle) = {
        let mut state = begin()?;
        if state.devices.iter().any(|device| device.primary == context) {
            return Err(Code::INVALID_CONTEXT);
        }
        let id = state.context(context)?.id;
        if CurrentContext::peek().is_some_and(|current| current.handle() == context) {
            CurrentContext::pop()?;
        }
        // A context with a sticky error is destroyed too.
        state = match synchronize(state, context) {
            Ok(state) => state,
            Err(_) => begin()?,
        };
        let device = state.context(context)?.device;
        state = wait_for_device(state, device, "cuCtxDestroy", WaitReason::Destroy)?;
                // Another thread may have destroyed the context by now, and a new context may have the same handle.
        if state.context(context)?.id != id {
            return Err(Code::CONTEXT_IS_DESTROYED);
        }
        state.destroy_context(context)?;
        after_turn(state);
        Ok(())
    };

    4000 fn cuCtxGetCurrent(context: Out<Handle>) = {
        drop(begin()?);
        context.set(CurrentContext::peek().map_or(0, CurrentContext::handle))
    };

    4000 fn cuCtxSetCurrent(context: Handle) = {
        let mut state = begin()?;
        if context != 0 {
            state.for_threads(context)?.set();
        } else if CurrentContext::peek().is_some() {
            CurrentContext::pop()?;
        }
        Ok(())
    };

    4000 fn cuCtxPushCurrent_v2(context: Handle) = {
        begin()?.for_threads(context)?.push();
        Ok(())
    };

    4000 fn cuCtxPopCurrent_v2(context: Out<Handle>) = {
        drop(begin()?);
        context.set_if_wanted(CurrentContext::pop()?)
    };

    2000 fn cuCtxGetDevice(ordinal: Out<i32>) = ordinal.set(begin()?.context(CurrentContext::get()?)?.device as i32);

    12000 fn cuCtxGetId(context: Handle, id: Out<u64>) = {
        let mut state = begin()?;
        match state.green(context) {
            Ok(green) => id.set(green.id),
            Err(_) => id.set(state.context(resolve(context)?)?.id),
        }
    };

    3020 fn cuCtxGetApiVersion(context: Handle, version: Out<u32>) = {
        begin()?.context(resolve(context)?)?;
        version.set(3020)
    };

    7000 fn cuCtxGetFlags(flags: Out<u32>) = {
                // `CU_CTX_MAP_HOST` is always set.
        const MAPS_HOST: u32 = 8;
        flags.set(begin()?.context(CurrentContext::get()?)?.flags | MAPS_HOST)
    };

    12010 fn cuCtxSetFlags(flags: u32) = {
        begin()?.context(CurrentContext::get()?)?.flags = flags;
        Ok(())
    };

    2000 fn cuCtxSynchronize() = {
        let mut state = begin()?;
        let context = CurrentContext::get()?;
        state.sound(context)?;
        state.none_captured(context)?;
        synchronize(state, context).map(drop)
    };

    3010 fn cuCtxGetLimit(value: Out<usize>, limit: u32) = {
        let mut state = begin()?;
        let context = state.sound(CurrentContext::get()?)?;
        value.set(match limit {
            STACK_SIZE => context.stack as usize,
            _ => *context.limits.get(&limit).ok_or(Code::UNSUPPORTED_LIMIT)?,
        })
    };

    3010 fn cuCtxSetLimit(limit: u32, value: usize) = {
        let mut state = begin()?;
        let current = CurrentContext::get()?;
        let context = state.sound(current)?;
        if limit != STACK_SIZE {
            let depends = match limit {
                PRINTF_FIFO_SIZE => context.printed,
                MALLOC_HEAP_SIZE => context.allocated,
                _ => None,
            };
            let found = context.limits.get_mut(&limit).ok_or(Code::UNSUPPORTED_LIMIT)?;
            // A limit is fixed once a kernel was launched that prints or allocates, because the driver then allocates
            // the memory.
            if depends.is_some() {
                return Err(Code::INVALID_VALUE);
            }
            *found = value;
            return Ok(());
        }
        let device = context.device;
        state = wait_for_device(state, device, "cuCtxSetLimit", WaitReason::SetStack)?;
        let value = (value as u64).checked_next_multiple_of(16).ok_or(Code::INVALID_VALUE)?;
        let (threads, free) = (state.devices[device].kind.threads(), state.free_memory(device));
        let context = state.sound(current)?;
        if value.saturating_sub(context.stack.max(1024)).saturating_mul(threads) > free {
            return Err(Code::OUT_OF_MEMORY);
        }
        let is_other = value != context.stack;
        context.stack = value;
        // If a kernel can launch kernels, this call grows the stacks at once, and the next launch has nothing left to
        // do.
        if is_other && !state.has_kernel(current, |kernel| kernel.needs.device_launch) {
            state.context(current)?.stack_changed = true;
        }
        Ok(())
    };

    3020 fn cuCtxGetCacheConfig(config: Out<u32>) = config.set(begin()?.sound(CurrentContext::get()?)?.cache_config);

    3020 fn cuCtxSetCacheConfig(config: u32) = {
        begin()?.sound(CurrentContext::get()?)?.cache_config = config;
        Ok(())
    };

    4000 fn cuProfilerStart() = begin()?.sound(CurrentContext::get()?).map(drop);
    4000 fn cuProfilerStop() = begin()?.sound(CurrentContext::get()?).map(drop);

    5050 fn cuCtxGetStreamPriorityRange(least: Out<i32>, greatest: Out<i32>) = {
        begin()?.sound(CurrentContext::get()?)?;
        least.set_if_wanted(0)?;
        greatest.set_if_wanted(-5)
    };
}
