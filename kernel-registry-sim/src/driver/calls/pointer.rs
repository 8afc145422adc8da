//! `cuPointerGetAttribute`: facts about an address.

use super::lacking::say_once;
use crate::driver::abi::Out;
use crate::driver::memory::{Block, Kind};
use crate::driver::process::begin;
use crate::driver::result::{Answer, Code};
use crate::driver::state::State;

/// The value of an attribute.
enum Value {
    Word(u32),
    Long(u64),
}

impl Value {
    fn write(self, to: &Out<u8>) -> Answer {
        match self {
            Value::Word(value) => to.cast().set(value),
            Value::Long(value) => to.cast().set(value),
        }
    }
}

/// `CUpointer_attribute`.
const CONTEXT: u32 = 1;
const MEMORY_TYPE: u32 = 2;
const DEVICE_POINTER: u32 = 3;
const HOST_POINTER: u32 = 4;
const IS_MANAGED: u32 = 8;
const DEVICE: u32 = 9;
const RANGE_START: u32 = 11;
const RANGE_SIZE: u32 = 12;
const POOL: u32 = 17;

/// `CUmemorytype`.
const HOST: u32 = 1;
const ON_DEVICE: u32 = 2;

fn attribute(which: u32, address: usize, (start, block): (usize, Block), state: &State) -> Answer<Value> {
    let is_host = block.kind.is_host();
    let is_both = is_host || block.kind == Kind::Managed;
    Ok(match which {
        CONTEXT => Value::Long(match block.kind {
            Kind::Pooled(_) => 0,
            _ => block.context as u64,
        }),
        MEMORY_TYPE => Value::Word(if is_host { HOST } else { ON_DEVICE }),
        DEVICE_POINTER => Value::Long(address as u64),
        HOST_POINTER if is_both => Value::Long(address as u64),
        HOST_POINTER => return Err(Code::INVALID_VALUE),
        IS_MANAGED => Value::Word((block.kind == Kind::Managed).into()),
        DEVICE => Value::Word(block.device as u32),
        RANGE_START | RANGE_SIZE => {
            let range = state.memory.lock().ranges.reservation(address).unwrap_or((start, block.bytes));
            Value::Long(if which == RANGE_START { range.0 } else { range.1 } as u64)
        }
        POOL => Value::Long(match block.kind {
            Kind::Pooled(pool) => pool as u64,
            _ => 0,
        }),
        _ => {
            say_once("an attribute of an address");
            return Err(Code::NOT_SUPPORTED);
        }
    })
}

calls! {
    4000 fn cuPointerGetAttribute(value: Out<u8>, which: u32, address: usize) {
        let state = begin()?;
        let found = state.memory.lock().find(address, 1).ok_or(Code::INVALID_VALUE)?;
        attribute(which, address, found, &state)?.write(&value)
    }
}
