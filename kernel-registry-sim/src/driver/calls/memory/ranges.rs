//! Functions of virtual memory: address ranges, physical memory, mappings, access.

use crate::driver::caller::arguments::{In, Out};
use crate::driver::calls::device::device;
use crate::driver::handles::Handle;
use crate::driver::memory::ranges::GRANULARITY;
use crate::driver::process::simulator::begin;
use crate::driver::process::state::State;
use crate::driver::report::failures::not_simulated;
use crate::driver::result::{Answer, Code};

/// `CUmemLocation`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Location {
    kind: u32,
    id: i32,
}

impl Location {
    const DEVICE: u32 = 1;

    /// Checks that the location exists: a device, the host, or a NUMA node.
    pub(crate) fn check(self, state: &State) -> Answer {
        if matches!(self.kind, 2..=4) { Ok(()) } else { self.device(state).map(drop) }
    }

    /// The device of the location: virtual memory of the host is not simulated.
    pub(crate) fn device(self, state: &State) -> Answer<usize> {
        match self.kind {
            Self::DEVICE => device(state, self.id),
            2..=4 => not_simulated("memory of the host under addresses that are reserved"),
            _ => Err(Code::INVALID_VALUE),
        }
    }
}

/// The fields with which `CUmemAllocationProp` and `CUmemPoolProps` begin.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Origin {
    kind: u32,
    exported_as: u32,
    location: Location,
    security: usize,
}

impl Origin {
    const PINNED: u32 = 1;

    /// The device whose memory it is.
    pub(crate) fn device(self, state: &State) -> Answer<usize> {
        if self.kind != Self::PINNED {
            return Err(Code::INVALID_VALUE);
        }
        if self.exported_as != 0 {
            return not_simulated("memory that other processes can use");
        }
        self.location.device(state)
    }
}

/// `CUmemAllocationProp`.
#[derive(Clone, Copy)]
#[repr(C)]
struct Properties {
    origin: Origin,
    flags: u64,
}

/// `CUmemAccessDesc`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Access {
    location: Location,
    flags: u32,
}

const READ: u32 = 1;
const READ_WRITE: u32 = 3;

impl Access {
    /// The device, and whether it may read and write.
    pub(crate) fn read(self, state: &State) -> Answer<(usize, bool, bool)> {
        let device = self.location.device(state)?;
        match self.flags {
            0 | READ | READ_WRITE => Ok((device, self.flags != 0, self.flags == READ_WRITE)),
            _ => Err(Code::INVALID_VALUE),
        }
    }
}

calls! {
    10020 fn cuMemGetAllocationGranularity(bytes: Out<usize>, properties: In<Properties>, which: u32) = {
        let state = begin()?;
        properties.get()?.origin.device(&state)?;
        if which > 1 {
            return Err(Code::INVALID_VALUE);
        }
        bytes.set(GRANULARITY)
    };

    10020 fn cuMemAddressReserve(address: Out<usize>, bytes: usize, alignment: usize, _wanted: usize, flags: u64) = {
        let state = begin()?;
        address.ready()?;
        if flags != 0 {
            return Err(Code::INVALID_VALUE);
        }
        address.set(state.memory.lock().reserve(bytes, alignment)?)
    };

    10020 fn cuMemAddressFree(address: usize, bytes: usize) = begin()?.memory.lock().unreserve(address, bytes);

    10020 fn cuMemCreate(memory: Out<Handle>, bytes: usize, properties: In<Properties>, flags: u64) = {
        let state = begin()?;
        let device = properties.get()?.origin.device(&state)?;
        memory.ready()?;
        if flags != 0 || bytes == 0 || !bytes.is_multiple_of(GRANULARITY) {
            return Err(Code::INVALID_VALUE);
        }
        if bytes as u64 > state.free_memory(device) {
            return Err(Code::OUT_OF_MEMORY);
        }
        memory.set(state.memory.lock().ranges.create(bytes, device)?)
    };

    10020 fn cuMemRelease(memory: Handle) = begin()?.memory.lock().ranges.release(memory);

    10020 fn cuMemMap(address: usize, bytes: usize, offset: usize, memory: Handle, flags: u64) = {
        let state = begin()?;
        if flags != 0 {
            return Err(Code::INVALID_VALUE);
        }
        if offset != 0 {
            return Err(Code::NOT_SUPPORTED);
        }
        state.memory.lock().map(address, bytes, memory)
    };

    10020 fn cuMemUnmap(address: usize, bytes: usize) = begin()?.memory.lock().unmap(address, bytes);

    10020 fn cuMemSetAccess(address: usize, bytes: usize, accesses: In<Access>, count: usize) = {
        let state = begin()?;
        let accesses = accesses.all(count)?.into_iter().map(|access| access.read(&state));
        let accesses = accesses.collect::<Answer<Vec<_>>>()?;
        if accesses.is_empty() {
            return Err(Code::INVALID_VALUE);
        }
        for (device, read, write) in accesses {
            state.memory.lock().set_access(address, bytes, device, read, write)?;
        }
        Ok(())
    };
}
