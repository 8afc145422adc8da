//! Sections: the time in which a resident kernel is on a device. Calls of this library that would wait for it are refused, and its
//! frees are delayed.

mod frees;
mod guard;
mod processors;
mod state;
mod streams;

use std::fmt;

use cudarc::driver::CudaContext;

use crate::driver::ContextId;

pub(crate) use frees::free;
pub(crate) use guard::{Guard, Loading, NotBegun, loading, refuse};
pub(crate) use processors::{PartId, Processors, ResidentGrid};
pub(crate) use state::residents;
pub(crate) use streams::check as check_stream;

/// A call that would wait for a resident kernel, and was not made.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WouldWait {
    /// The driver's function.
    pub call: &'static str,
    /// When it waits.
    pub because: &'static str,
    /// What prevents that.
    pub remedy: &'static str,
    /// The path of the resident kernel.
    pub resident: &'static str,
}

impl fmt::Display for WouldWait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let WouldWait { call, because, remedy, resident } = self;
        write!(f, "`{call}` would wait for `{resident}`, which is still on the device: {because}; {remedy}")
    }
}

impl std::error::Error for WouldWait {}

/// Contexts in which loading and freeing wait for each other's kernels: the primary context of a device with its parts, or any other context
/// alone. Loading, freeing, setting the stack limit and synchronizing in one do not wait for kernels of another (H200, driver
/// 580.159).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    /// Of the device with this number.
    Primary(usize),
    Other(ContextId),
}

impl Family {
    pub(crate) fn of(context: &CudaContext, id: ContextId) -> Self {
        if context.is_primary() { Family::Primary(context.ordinal()) } else { Family::Other(id) }
    }
}
