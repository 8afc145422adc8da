//! Rechecking: asks the driver whether the kernels of a receipt are still warm.

use std::collections::HashSet;
use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use cudarc::driver::CudaContext;
use cudarc::driver::sys::CUresult;

use super::report::Report;
use super::words::NoThread;
use crate::contexts::{KnownContext, Loaded, WarmKernel};
use crate::driver::{ContextId, Current, Driver, DriverCallError, DriverUnavailable};
use crate::lock::lock;
use crate::watch::{self, Activity, NoResult, TIMEOUT, Timeouts, Watch};

/// How long to wait for the context's lock. Another recheck releases the lock at once; a warm-up may hold it forever.
pub(crate) const MOMENT: Duration = Duration::from_millis(100);

/// Why kernels are no longer warm, or could not be rechecked.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RecheckError {
    /// There is no usable driver, for example because the process was forked.
    DriverUnavailable(DriverUnavailable),
    /// The context was reset.
    Reset,
    /// Other code lowered the stack limit, so the next launch waits for the device.
    StackLowered {
        /// The stack limit, in bytes.
        limit: u64,
        /// The stack that the warm kernels need, in bytes.
        needed: u64,
    },
    /// A kernel is no longer loaded.
    NotLoaded {
        /// The kernel's path.
        kernel: &'static str,
    },
    /// A warm-up of this context is running, so the state of the context is not known.
    Warming,
    /// A driver call waits for the device: another thread loads a kernel late, perhaps one of another library.
    Waiting {
        /// How long the call has waited.
        timeout: Duration,
    },
    /// The operating system could not start a thread.
    NoThread {
        /// The operating system's reason.
        reason: String,
    },
    /// Another driver call failed.
    Driver(DriverCallError),
}

pub(super) fn recheck(
    context: &Arc<CudaContext>,
    id: ContextId,
    report: &Report,
) -> Result<(), RecheckError> {
    let driver = Driver::get().map_err(RecheckError::DriverUnavailable)?;
    match ContextId::query(context) {
        Ok(now) if now == id => {}
        Err(error) if !error.is(CUresult::CUDA_ERROR_CONTEXT_IS_DESTROYED) => return Err(error.into()),
        _ => return Err(RecheckError::Reset),
    }
    let Some(known) = KnownContext::find(id) else { return Err(RecheckError::Reset) };
    let timeout = lock(&known.policy).timeout.unwrap_or(TIMEOUT);
    let timeouts = Timeouts { device: timeout, hook: timeout };
    let context = context.clone();
    let kernels: Vec<_> = report.kernels.iter().map(|kernel| kernel.path).collect();
    let ask = move |watch: &Watch<()>| {
        let current = Current::new(&context, driver)?;
        // While another thread loads a kernel late, `cuCtxGetLimit` waits for that load. So it is called first, without
        // the lock.
        watch.call("cuCtxGetLimit", "");
        current.stack_limit()?;
        let known = KnownContext::find(id).ok_or(RecheckError::Reset)?;
        watch.computes();
        let loaded = known.lock_within(MOMENT).ok_or(RecheckError::Warming)?;
        watch.call("cuCtxGetLimit", "");
        check(&current, &loaded, &kernels)
    };
    watch::watched(Activity::new(|| {}), &timeouts, |()| {}, ask).unwrap_or_else(|error| match error {
        NoResult::Overdue(_) => Err(RecheckError::Waiting { timeout }),
        NoResult::NoThread(error) => Err(RecheckError::NoThread { reason: error.to_string() }),
    })
}

/// Checks that the receipt's kernels, and all other warm kernels of the context, are still loaded and have their stack.
fn check(current: &Current<'_>, loaded: &Loaded, receipt: &[&'static str]) -> Result<(), RecheckError> {
    let (limit, needed) = (current.stack_limit()?, loaded.largest_stack());
    if limit < needed {
        return Err(RecheckError::StackLowered { limit, needed });
    }
    let mut warm = HashSet::new();
    for WarmKernel { function, report, .. } in loaded.kernels.values() {
        match current.is_loaded(*function) {
            Ok(Some(true) | None) => _ = warm.insert(report.path),
            // Every error is passed on, except that of a handle whose module was unloaded.
            Err(error) if !error.is(CUresult::CUDA_ERROR_INVALID_HANDLE) => return Err(error.into()),
            _ => return Err(RecheckError::NotLoaded { kernel: report.path }),
        }
    }
    match receipt.iter().find(|path| !warm.contains(*path)) {
        Some(kernel) => Err(RecheckError::NotLoaded { kernel }),
        None => Ok(()),
    }
}

impl From<DriverCallError> for RecheckError {
    fn from(error: DriverCallError) -> Self {
        RecheckError::Driver(error)
    }
}

impl fmt::Display for RecheckError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RecheckError::DriverUnavailable(error) => write!(f, "{error}"),
            RecheckError::Reset => {
                f.write_str(
                "the context was reset after its kernels were warmed; get the device's context again, and call `warm_all`",
            )
            }
            RecheckError::StackLowered { limit, needed } => write!(
                f,
                "the stack limit was lowered to {limit} bytes, and kernels need {needed}; \
                 call `warm_all` again, and leave `CU_LIMIT_STACK_SIZE` alone"
            ),
            RecheckError::NotLoaded { kernel } => {
                write!(f, "kernel `{kernel}` is no longer loaded; call `warm_all` again")
            }
            RecheckError::Warming => f.write_str("a warm-up of this context is running; wait for it, then try again"),
            RecheckError::Waiting { timeout } => write!(
                f,
                "`cuCtxGetLimit` has waited for {:.1} s: another thread is loading a kernel late in this context, and waits \
                 for the device; warm that kernel before",
                timeout.as_secs_f64()
            ),
            RecheckError::NoThread { reason } => write!(f, "{}", NoThread(reason)),
            RecheckError::Driver(error) => {
                write!(f, "the kernels could not be checked, because {}", error.in_short())
            }
        }
    }
}

/// A variant that only wraps another error has that error's text and source.
impl Error for RecheckError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            RecheckError::DriverUnavailable(error) => error.source(),
            RecheckError::Driver(error) => Some(error),
            _ => None,
        }
    }
}
