//! What an application has said of late launches in a context. Only what is said replaces what was said before.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::KernelInfo;

/// What happens when a kernel is launched that is not warm, in a context in which others are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Late {
    /// It is warmed then and there, after the function of [`Warmup::on_late`](crate::Warmup::on_late) was told.
    #[default]
    Warn,
    /// The launch is an error.
    Deny,
    /// It is warmed then and there.
    Allow,
}

/// A kernel that is about to be loaded late, which waits for all kernels that run in the context, and makes
/// other threads wait that use the context meanwhile.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct LateLoad {
    /// The kernel.
    pub kernel: &'static KernelInfo,
    /// The number of the device.
    pub device: usize,
}

impl fmt::Display for LateLoad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LateLoad { kernel, device } = self;
        write!(
            f,
            "kernel `{}` is loaded late on device {device}, which waits for all that runs there; include it in `warm_all`",
            kernel.path()
        )
    }
}

/// What a late load begins with.
pub(crate) type OnLate = Arc<dyn Fn(&LateLoad) + Send + Sync>;

/// What was said with a warm-up, and holds for late loads, too.
#[derive(Clone, Default)]
pub(crate) struct Policy {
    pub(crate) late: Option<Late>,
    pub(crate) on_late: Option<OnLate>,
    pub(crate) threads: Option<usize>,
    pub(crate) stack_budget: Option<u64>,
    pub(crate) timeout: Option<Duration>,
}

impl Policy {
    /// Takes over what is said in a newer one.
    pub(crate) fn update(&mut self, newer: &Policy) {
        let Policy { late, on_late, threads, stack_budget, timeout } = newer.clone();
        self.late = late.or(self.late);
        self.on_late = on_late.or_else(|| self.on_late.take());
        self.threads = threads.or(self.threads);
        self.stack_budget = stack_budget.or(self.stack_budget);
        self.timeout = timeout.or(self.timeout);
    }

    /// Tells of a late load, where that is wanted.
    pub(crate) fn tell(&self, load: &LateLoad) {
        if self.late.unwrap_or_default() != Late::Warn {
            return;
        }
        #[cfg(feature = "tracing")]
        tracing::warn!(kernel = load.kernel.path(), device = load.device, "{load}");
        match &self.on_late {
            Some(on_late) => on_late(load),
            None => eprintln!("kernel-registry: {load}"),
        }
    }
}
