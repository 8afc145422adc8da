//! The receipt of a warm-up.

use std::sync::Arc;

use cudarc::driver::CudaContext;

use super::recheck::{self, RecheckError};
use super::report::Report;
use crate::contexts::{KnownContext, Late};
use crate::driver::{ContextId, Driver};
use crate::lock::lock;

/// The receipt of a warm-up: the kernels in its report were warm in its context.
///
/// The receipt keeps the context alive. It cannot prevent other code from lowering the stack limit, unloading modules or
/// resetting the device. [`recheck`](Warm::recheck) detects these: call it before launching a resident kernel. It cannot
/// detect that the stack limit was changed and restored, which also makes the next launch wait, so leave `CU_LIMIT_STACK_SIZE`
/// alone.
#[derive(Clone, Debug)]
pub struct Warm {
    context: Arc<CudaContext>,
    id: ContextId,
    report: Report,
}

impl Warm {
    pub(super) fn new(context: Arc<CudaContext>, id: ContextId, report: Report) -> Self {
        Warm { context, id, report }
    }

    /// Returns the context in which the kernels were warmed.
    pub fn context(&self) -> &Arc<CudaContext> {
        &self.context
    }

    pub(crate) fn id(&self) -> ContextId {
        self.id
    }

    /// Returns the report: what the warm-up found and did.
    pub fn report(&self) -> &Report {
        &self.report
    }

    /// Asks the driver whether the kernels are still warm.
    ///
    /// # Errors
    ///
    /// [`RecheckError`] says what changed, or why the driver could not be asked.
    pub fn recheck(&self) -> Result<(), RecheckError> {
        recheck::recheck(&self.context, self.id, &self.report)
    }

    /// Declares that warming is over. From now on, no kernel may be loaded late.
    ///
    /// The launch of a registered kernel that is not warm in the context no longer loads the kernel: it returns
    /// [`LaunchError::NotWarm`](crate::LaunchError::NotWarm). The policy of the context is [`Late::Deny`] until a warm-up sets
    /// another policy.
    ///
    /// If an audit watches the process (`cargo kernels audit`, or `kernel_audit::install`), the program is also marked as ready.
    /// The mark holds for all contexts, so seal after all contexts are warm. It also covers loads that this library doesn't
    /// know about: kernels of cudarc and of CUDA's libraries, and modules compiled at run time. Each later load is then a finding
    /// of the audit. Depending on its options, the audit reports the load, refuses it with `CUDA_ERROR_NOT_PERMITTED`, or
    /// aborts the process. Without an audit, such loads go unnoticed.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), kernel_registry::MainError> {
    /// # let context = kernel_registry::context(0)?;
    /// let warm = kernel_registry::warm_all(&context)?;
    /// // Load everything else that the program needs ..
    /// warm.seal();
    /// # Ok(())
    /// # }
    /// ```
    pub fn seal(&self) {
        // A context that was reset isn't found, and has no kernels left to launch.
        if let Some(known) = KnownContext::find(self.id) {
            lock(&known.policy).late = Some(Late::Deny);
        }
        // `Driver::get` fails in a forked child, so nothing is marked there.
        if let Ok(driver) = Driver::get() {
            driver.mark_ready();
        }
    }
}
