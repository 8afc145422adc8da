//! Defines the structures by which a caller names a memory location: a device or the host.

use crate::driver::calls::device::device;
use crate::driver::report::failures::not_simulated;
use crate::driver::result::{Answer, Code};
use crate::driver::state::State;

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

    /// Returns the device of the location. Pools of host memory are not simulated.
    pub(crate) fn device(self, state: &State) -> Answer<usize> {
        match self.kind {
            Self::DEVICE => device(state, self.id),
            2..=4 => not_simulated("a memory pool of the host"),
            _ => Err(Code::INVALID_VALUE),
        }
    }
}

/// The first fields of `CUmemPoolProps`.
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

    /// Returns the device on which the memory is allocated.
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
