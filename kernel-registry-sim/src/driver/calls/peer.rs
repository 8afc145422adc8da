//! Devices that use each other's memory.

use super::context::current;
use super::device::device;
use crate::driver::abi::Out;
use crate::driver::handles::Handle;
use crate::driver::result::Code;
use crate::driver::state::begin;

calls! {
    4000 fn cuCtxEnablePeerAccess(peer: Handle, flags: u32) {
        let mut state = begin()?;
        let context = current()?;
        let device = state.sound(context)?.device;
        if flags != 0 {
            return Err(Code::INVALID_VALUE);
        }
        if state.context(peer)?.device == device {
            return Err(Code::INVALID_DEVICE);
        }
        let is_new = state.memory.lock().peers.insert((context, peer));
        if is_new { Ok(()) } else { Err(Code::PEER_ACCESS_ALREADY_ENABLED) }
    }

    4000 fn cuCtxDisablePeerAccess(peer: Handle) {
        let mut state = begin()?;
        let context = current()?;
        state.sound(context)?;
        state.context(peer)?;
        let was_there = state.memory.lock().peers.remove(&(context, peer));
        if was_there { Ok(()) } else { Err(Code::PEER_ACCESS_NOT_ENABLED) }
    }

    8000 fn cuDeviceGetP2PAttribute(value: Out<i32>, which: u32, one: i32, other: i32) {
        let state = begin()?;
        if device(&state, one)? == device(&state, other)? {
            return Err(Code::INVALID_DEVICE);
        }
        match which {
            // All are as far from each other.
            1 => value.set(0),
            // Access, atomics, and arrays.
            2..=4 => value.set(1),
            _ => Err(Code::INVALID_VALUE),
        }
    }
}
