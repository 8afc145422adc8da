//! Defines `cuPointerGetAttribute`, which returns attributes of an address.

use crate::driver::caller::arguments::Out;
use crate::driver::memory::blocks::{Block, Kind};
use crate::driver::report::failures::not_simulated;
use crate::driver::result::{Answer, Code};
use crate::driver::state::State;
use crate::driver::state::simulator::begin;

/// Values of `CUpointer_attribute`.
const CONTEXT: u32 = 1;
const MEMORY_TYPE: u32 = 2;
const DEVICE_POINTER: u32 = 3;
const HOST_POINTER: u32 = 4;
const IS_MANAGED: u32 = 8;
const DEVICE: u32 = 9;
const RANGE_START: u32 = 11;
const RANGE_SIZE: u32 = 12;
const POOL: u32 = 17;

/// Values of `CUmemorytype`.
const HOST: u32 = 1;
const ON_DEVICE: u32 = 2;

/// Writes an attribute of an address, which is a number of 32 or 64 bits.
fn attribute(to: &Out<u8>, which: u32, address: usize, state: &State) -> Answer {
    let (start, block) = state.memory.lock().find(address, 1).ok_or(Code::INVALID_VALUE)?;
    let Block { kind, context, device, bytes } = block;
    let word = |value: u32| to.cast().set(value);
    let long = |value: usize| to.cast().set(value as u64);
    match which {
        CONTEXT => long(if matches!(kind, Kind::Pooled(_)) { 0 } else { context }),
        MEMORY_TYPE => word(if kind.is_host() { HOST } else { ON_DEVICE }),
        DEVICE_POINTER => long(address),
        HOST_POINTER if kind.is_host() || kind == Kind::Managed => long(address),
        HOST_POINTER => Err(Code::INVALID_VALUE),
        IS_MANAGED => word((kind == Kind::Managed).into()),
        DEVICE => word(device as u32),
        RANGE_START => long(start),
        RANGE_SIZE => long(bytes),
        POOL => long(if let Kind::Pooled(pool) = kind { pool } else { 0 }),
        _ => not_simulated("an attribute of an address"),
    }
}

calls! {
    4000 fn cuPointerGetAttribute(value: Out<u8>, which: u32, address: usize) = {
        attribute(&value, which, address, &*begin()?)
    };
}
