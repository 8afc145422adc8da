//! Emits spans and events of a warm-up for `tracing`. Without the feature `tracing` these functions emit nothing.

use super::progress::Stage;
use super::report::Report;

#[cfg(feature = "tracing")]
pub(super) use with::{Caller, stage};
#[cfg(not(feature = "tracing"))]
pub(super) use without::{Caller, stage};

#[cfg(feature = "tracing")]
mod with {
    use tracing::dispatcher::{self, Dispatch};
    use tracing::{Span, info_span};

    use super::Stage;

    /// The caller's subscriber, and a span for the warm-up. The thread that does the work enters both.
    pub(in crate::warm) struct Caller(Dispatch, Span);

    impl Caller {
        pub(in crate::warm) fn new(kernels: usize) -> Self {
            Caller(dispatcher::get_default(Dispatch::clone), info_span!("warm", kernels))
        }

        pub(in crate::warm) fn in_scope<T>(&self, work: impl FnOnce() -> T) -> T {
            dispatcher::with_default(&self.0, || self.1.in_scope(work))
        }
    }

    /// Runs a stage in a span.
    pub(in crate::warm) fn stage<T>(stage: Stage, work: impl FnOnce() -> T) -> T {
        info_span!("stage", name = stage.as_str()).in_scope(work)
    }
}

#[cfg(not(feature = "tracing"))]
mod without {
    use super::Stage;

    pub(in crate::warm) struct Caller;

    impl Caller {
        pub(in crate::warm) fn new(_: usize) -> Self {
            Caller
        }

        pub(in crate::warm) fn in_scope<T>(&self, work: impl FnOnce() -> T) -> T {
            work()
        }
    }

    pub(in crate::warm) fn stage<T>(_: Stage, work: impl FnOnce() -> T) -> T {
        work()
    }
}

/// Emits events for what a report says: failures, unknown stacks, other copies, and the number of warm kernels.
pub(super) fn report(report: &Report) {
    #[cfg(feature = "tracing")]
    {
        for failure in &report.failures {
            tracing::warn!(kernel = failure.kernel, "not warm: {failure}");
        }
        for failure in &report.hook_failures {
            tracing::warn!(hook = failure.path, "{failure}");
        }
        for kernel in report.unknown_stacks() {
            tracing::warn!(kernel = kernel.path, "the stack is not known: a launch may wait for the device");
        }
        for copy in report.other_copies.iter().filter(|copy| !copy.kernels.is_empty()) {
            tracing::warn!(version = copy.version, "not warm: {copy}");
        }
        for image in &report.not_adopted {
            tracing::warn!(image = image.image, "not adopted: {image}");
        }
        for why in &report.not_baked {
            tracing::warn!("not baked: {why}");
        }
        let (kernels, images) = (report.kernels.len(), report.images_loaded);
        tracing::info!(kernels, images, memory = report.device_memory, "kernels are warm");
    }
    #[cfg(not(feature = "tracing"))]
    let _ = report;
}
