//! The policy of a context: what happens when a kernel that is not warm is launched in it.

use std::fmt;
use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use crate::KernelInfo;

/// What a launch of a kernel that is not warm does, in a context in which others are warm.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Late {
    /// It calls the function of [`Warmup::on_late`](crate::Warmup::on_late), and then warms the kernel.
    #[default]
    Warn,
    /// It fails.
    Deny,
    /// It warms the kernel.
    Allow,
}

/// A late load that is about to begin. It waits for all kernels that run in the context, and makes other threads that use
/// the context wait.
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
            "kernel `{}` is loaded late on device {device}, which waits for everything that runs there; include it in `warm_all`",
            kernel.path()
        )
    }
}

/// A function to call before each late load.
pub(crate) type OnLate = Arc<dyn Fn(&LateLoad) + Send + Sync>;

/// Options of warm-ups that also apply to late loads. `None` where no warm-up of the context has set the option.
#[derive(Clone, Default)]
pub(crate) struct Policy {
    pub(crate) late: Option<Late>,
    pub(crate) on_late: Option<OnLate>,
    pub(crate) threads: Option<usize>,
    pub(crate) stack_budget: Option<u64>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) whole_images: bool,
}

impl Policy {
    /// Takes over the options that a newer policy sets.
    pub(crate) fn update(&mut self, newer: &Policy) {
        let Policy { late, on_late, threads, stack_budget, timeout, whole_images } = newer.clone();
        self.late = late.or(self.late);
        self.on_late = on_late.or_else(|| self.on_late.take());
        self.threads = threads.or(self.threads);
        self.stack_budget = stack_budget.or(self.stack_budget);
        self.timeout = timeout.or(self.timeout);
        self.whole_images |= whole_images;
    }

    /// Reports a late load, if the policy is to warn.
    pub(crate) fn report(&self, load: &LateLoad) {
        if self.late.unwrap_or_default() != Late::Warn {
            return;
        }
        #[cfg(feature = "tracing")]
        tracing::warn!(kernel = load.kernel.path(), device = load.device, "{load}");
        match &self.on_late {
            Some(on_late) => on_late(load),
            // Standard error may be closed.
            None => _ = writeln!(io::stderr(), "kernel-registry: {load}"),
        }
    }
}
