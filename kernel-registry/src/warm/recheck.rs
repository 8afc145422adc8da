//! Whether a receipt still holds.

use std::collections::HashSet;
use std::fmt;
use std::time::Duration;

use cudarc::driver::sys::CUresult;

use super::Warm;
use crate::contexts::{KnownContext, Loaded, Warmed};
use crate::driver::{ContextId, Current, Driver, DriverError, DriverUnavailable};
use crate::lock::lock;
use crate::watch::{self, Activity, NoResult, Timeouts, Watch};

/// Another thread that asks the same is done at once; a warm-up can wait for the device for ever.
const MOMENT: Duration = Duration::from_millis(100);

/// Why kernels that were warm are not any more.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RecheckError {
    /// There is no driver to work with any more: the process was forked, for example.
    DriverUnavailable(DriverUnavailable),
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
    /// A question to the driver waits for the device: another thread loads a kernel late, perhaps one of another library.
    Waiting {
        /// How long it has waited.
        timeout: Duration,
    },
    /// The system does not start a thread to ask in.
    NoThread {
        /// What it said.
        reason: String,
    },
    /// The driver refuses to answer.
    Driver(DriverError),
}

pub(super) fn recheck(warm: &Warm) -> Result<(), RecheckError> {
    let driver = Driver::get().map_err(RecheckError::DriverUnavailable)?;
    match ContextId::of(&warm.context) {
        Ok(id) if id == warm.id => {}
        Err(error) if !error.is(CUresult::CUDA_ERROR_CONTEXT_IS_DESTROYED) => return Err(error.into()),
        _ => return Err(RecheckError::Reset),
    }
    let Some(known) = KnownContext::find(warm.id) else { return Err(RecheckError::Reset) };
    let timeout = lock(&known.policy).timeout.unwrap_or(super::TIMEOUT);
    let timeouts = Timeouts { device: timeout, hook: timeout };
    let (context, id) = (warm.context.clone(), warm.id);
    let kernels: Vec<_> = warm.report.kernels.iter().map(|kernel| kernel.path).collect();
    let ask = move |watch: &Watch<()>| {
        let current = Current::new(&context, driver)?;
        // While another thread loads a kernel late, this waits as long as that does.
        watch.call("cuCtxGetLimit", "");
        let limit = current.stack_limit()?;
        let known = KnownContext::find(id).ok_or(RecheckError::Reset)?;
        let loaded = known.lock_within(MOMENT).ok_or(RecheckError::Warming)?;
        are_warm(&current, limit, &loaded, &kernels)
    };
    watch::watched(Activity::new(|| {}), &timeouts, |()| {}, ask).unwrap_or_else(|error| match error {
        NoResult::Overdue(_) => Err(RecheckError::Waiting { timeout }),
        NoResult::NoThread(error) => Err(RecheckError::NoThread { reason: error.to_string() }),
    })
}

/// Compares a context with what a receipt says of it.
fn are_warm(
    current: &Current<'_>,
    limit: u64,
    loaded: &Loaded,
    receipt: &[&'static str],
) -> Result<(), RecheckError> {
    let needed = loaded.largest_stack();
    if limit < needed {
        return Err(RecheckError::StackLowered { limit, needed });
    }
    let mut warm = HashSet::new();
    for Warmed { function, report, .. } in loaded.kernels.values() {
        match current.is_loaded(*function) {
            Ok(Some(true) | None) => _ = warm.insert(report.path),
            // The handle of a module that was unloaded.
            Err(error) if !error.is(CUresult::CUDA_ERROR_INVALID_HANDLE) => return Err(error.into()),
            _ => return Err(RecheckError::NotLoaded { kernel: report.path }),
        }
    }
    match receipt.iter().find(|path| !warm.contains(*path)) {
        Some(kernel) => Err(RecheckError::NotLoaded { kernel }),
        None => Ok(()),
    }
}

impl From<DriverError> for RecheckError {
    fn from(error: DriverError) -> Self {
        RecheckError::Driver(error)
    }
}

impl fmt::Display for RecheckError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RecheckError::DriverUnavailable(error) => write!(f, "{error}"),
            RecheckError::Reset => {
                f.write_str(
                "the context was reset since its kernels were warmed; get the device's context anew, and call `warm_all`",
            )
            }
            RecheckError::StackLowered { limit, needed } => write!(
                f,
                "somebody lowered the stack of each thread to {limit} bytes, and kernels need {needed}; \
                 call `warm_all` again, and leave `CU_LIMIT_STACK_SIZE` alone"
            ),
            RecheckError::NotLoaded { kernel } => {
                write!(f, "kernel `{kernel}` is not loaded any more; call `warm_all` again")
            }
            RecheckError::Warming => f.write_str("a warm-up of this context is not finished; wait for it, and ask again"),
            RecheckError::Waiting { timeout } => write!(
                f,
                "`cuCtxGetLimit` has waited for {:.1} s: another thread loads a kernel late in this context, and waits for the \
                 device",
                timeout.as_secs_f64()
            ),
            RecheckError::NoThread { reason } => write!(f, "no thread could be started to ask the driver in: {reason}"),
            RecheckError::Driver(error) => write!(f, "{error}"),
        }
    }
}

impl std::error::Error for RecheckError {}
