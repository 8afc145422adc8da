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
/// It keeps the context alive. It cannot prevent other code from lowering the stack limit, unloading modules or resetting
/// the device. [`recheck`](Warm::recheck) detects that: call it before launching a resident kernel. It cannot detect a
/// stack limit that was changed and restored, which also makes the next launch wait: leave `CU_LIMIT_STACK_SIZE` alone.
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

    /// The context.
    pub fn context(&self) -> &Arc<CudaContext> {
        &self.context
    }

    pub(crate) fn id(&self) -> ContextId {
        self.id
    }

    /// What the warm-up found and did.
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

    /// Declares warming over: from now on nothing shall load late.
    ///
    /// Registered kernels that are not warm in the context are not loaded by their launch, which returns
    /// [`LaunchError::NotWarm`](crate::LaunchError::NotWarm): the policy of the context is [`Late::Deny`], until a warm-up sets another one.
    ///
    /// If an audit watches the process (`cargo kernels audit`, or `kernel_audit::install`), the program is also marked as ready, for
    /// all contexts, and for loads that this library knows nothing of: kernels of cudarc, of CUDA's libraries, modules compiled at
    /// run time. They are findings of the audit, which reports or refuses them, or aborts the process, as it was told. A call that is
    /// refused returns `CUDA_ERROR_NOT_PERMITTED`. So seal after all contexts are warm. Without an audit, nobody sees such loads.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let context = kernel_registry::context(0)?;
    /// let warm = kernel_registry::warm_all(&context)?;
    /// // Load what else the program needs ..
    /// warm.seal();
    /// # Ok(())
    /// # }
    /// ```
    pub fn seal(&self) {
        // A context that was reset has no kernels that could be launched.
        if let Some(known) = KnownContext::find(self.id) {
            lock(&known.policy).late = Some(Late::Deny);
        }
        // In a forked child there is no driver.
        if let Ok(driver) = Driver::get() {
            driver.mark_ready();
        }
    }
}
