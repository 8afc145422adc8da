//! Whether a receipt still holds.

use std::fmt;
use std::time::Duration;

use cudarc::driver::sys::CUresult;

use super::state::State;
use crate::driver::{Current, Driver, DriverError, NoDriver, context_id};

/// Another thread that asks the same is done at once; a warm-up can wait for the device for ever.
const PATIENCE: Duration = Duration::from_millis(100);

/// Why kernels that were warm are not any more.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Stale {
    /// There is no driver to work with any more: the process was forked, for example.
    NoDriver(NoDriver),
    /// The device's context was reset.
    Reset,
    /// Somebody lowered the limit of the stack: the next launch waits for the device.
    StackLowered {
        /// What the limit is, in bytes.
        limit: u64,
        /// What the warm kernels need, in bytes.
        needed: u64,
    },
    /// A kernel is not loaded any more.
    NotLoaded {
        /// Its path.
        kernel: &'static str,
    },
    /// A warm-up of this context is at work, or waits for the device, so nobody can tell.
    Warming,
    /// The driver refuses to answer.
    Driver(DriverError),
}

pub(super) fn recheck(warm: &super::Warm) -> Result<(), Stale> {
    let driver = Driver::get().map_err(Stale::NoDriver)?;
    match context_id(&warm.context) {
        Ok(id) if id == warm.id => {}
        Err(error) if !error.is(CUresult::CUDA_ERROR_CONTEXT_IS_DESTROYED) => return Err(error.into()),
        _ => return Err(Stale::Reset),
    }
    let Some(state) = State::find(warm.id) else { return Err(Stale::Reset) };
    let Some(loaded) = state.lock_within(PATIENCE) else { return Err(Stale::Warming) };
    let current = Current::new(&warm.context, driver)?;

    let limit = current.stack_limit()?;
    let needed = loaded.largest_stack();
    if limit < needed {
        return Err(Stale::StackLowered { limit, needed });
    }
    for warmed in loaded.kernels.values() {
        if current.is_loaded(warmed.function)? == Some(false) {
            return Err(Stale::NotLoaded { kernel: warmed.report.path });
        }
    }
    Ok(())
}

impl From<DriverError> for Stale {
    fn from(error: DriverError) -> Self {
        Stale::Driver(error)
    }
}

impl fmt::Display for Stale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Stale::NoDriver(error) => write!(f, "{error}"),
            Stale::Reset => {
                f.write_str(
                "the context was reset since its kernels were warmed; get the device's context anew, and call `warm_all`",
            )
            }
            Stale::StackLowered { limit, needed } => write!(
                f,
                "somebody lowered the stack of each thread to {limit} bytes, and kernels need {needed}; \
                 call `warm_all` again, and leave `CU_LIMIT_STACK_SIZE` alone"
            ),
            Stale::NotLoaded { kernel } => {
                write!(f, "kernel `{kernel}` is not loaded any more; call `warm_all` again")
            }
            Stale::Warming => f.write_str("a warm-up of this context is not finished; wait for it, and ask again"),
            Stale::Driver(error) => write!(f, "{error}"),
        }
    }
}

impl std::error::Error for Stale {}

readable!(Stale);
