//! The policy of a context for late loads: what happens when a kernel that is not warm is launched in the context.

use std::fmt;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::KernelInfo;

/// The policy for launches of a kernel that is not warm, in a context in which other kernels are warm.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Late {
    /// The launch calls the function of [`Warmup::on_late`](crate::Warmup::on_late), and then warms the kernel.
    #[default]
    Warn,
    /// The launch fails.
    Deny,
    /// The launch warms the kernel.
    Allow,
}

/// A late load that is about to begin. The load will wait for all kernels that run in the context, and other threads that use
/// the context will wait for the load.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct LateLoad {
    /// The kernel.
    pub kernel: &'static KernelInfo,
    /// The ordinal of the device.
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

/// Options of warm-ups that also apply to late loads. An option is `None` until a warm-up of the context sets it.
#[derive(Clone, Default)]
pub(crate) struct Policy {
    pub(crate) late: Option<Late>,
    pub(crate) on_late: Option<OnLate>,
    pub(crate) threads: Option<usize>,
    pub(crate) stack_budget: Option<u64>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) whole_images: bool,
    /// A file of baked code.
    pub(crate) baked: Option<Arc<Path>>,
}

impl Policy {
    /// Replaces the options that `newer` sets. `whole_images` stays set once it is set.
    pub(crate) fn update(&mut self, newer: &Policy) {
        let Policy { late, on_late, threads, stack_budget, timeout, whole_images, baked } = newer.clone();
        self.late = late.or(self.late);
        self.on_late = on_late.or_else(|| self.on_late.take());
        self.threads = threads.or(self.threads);
        self.stack_budget = stack_budget.or(self.stack_budget);
        self.timeout = timeout.or(self.timeout);
        self.whole_images |= whole_images;
        self.baked = baked.or_else(|| self.baked.take());
    }

    /// Reports a late load, if the policy is `Late::Warn`.
    pub(crate) fn report(&self, load: &LateLoad) {
        if self.late.unwrap_or_default() != Late::Warn {
            return;
        }
        #[cfg(feature = "tracing")]
        tracing::warn!(kernel = load.kernel.path(), device = load.device, "{load}");
        match &self.on_late {
            Some(on_late) => on_late(load),
            // If standard error is closed, there's nowhere left to report to.
            None => _ = writeln!(io::stderr(), "kernel-registry: {load}"),
        }
    }
}
