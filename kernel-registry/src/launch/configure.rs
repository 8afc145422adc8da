//! What the `launch` of a kernel takes as its configuration.

use std::ptr;

use cudarc::driver::{CudaContext, CudaStream};

use super::{Launch, LaunchConfig, LaunchError, Prepared};
use crate::KernelInfo;

/// How a kernel is launched: a [`LaunchConfig`], which is checked each time, a [`Prepared`] one by reference, which
/// has been checked, or what cudarc says of a launch.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not say how a kernel is launched",
    label = "neither a `LaunchConfig` nor a `&Prepared`",
    note = "every kernel has `over(n)`, which says it for `n` threads"
)]
pub trait Configure {
    #[doc(hidden)]
    fn configure<'a>(
        self,
        kernel: &'static KernelInfo,
        stream: &'a CudaStream,
    ) -> Result<Launch<'a>, LaunchError>;
}

impl Configure for LaunchConfig {
    #[inline]
    fn configure<'a>(
        self,
        kernel: &'static KernelInfo,
        stream: &'a CudaStream,
    ) -> Result<Launch<'a>, LaunchError> {
        Launch::new(kernel, stream, &self)
    }
}

impl Configure for &LaunchConfig {
    #[inline]
    fn configure<'a>(
        self,
        kernel: &'static KernelInfo,
        stream: &'a CudaStream,
    ) -> Result<Launch<'a>, LaunchError> {
        Launch::new(kernel, stream, self)
    }
}

impl Configure for cudarc::driver::LaunchConfig {
    #[inline]
    fn configure<'a>(
        self,
        kernel: &'static KernelInfo,
        stream: &'a CudaStream,
    ) -> Result<Launch<'a>, LaunchError> {
        Launch::new(kernel, stream, &self.into())
    }
}

impl Configure for &Prepared {
    #[inline]
    fn configure<'a>(
        self,
        kernel: &'static KernelInfo,
        stream: &'a CudaStream,
    ) -> Result<Launch<'a>, LaunchError> {
        if self.kernel() != kernel {
            return Err(LaunchError::OtherKernel { kernel, prepared: self.kernel() });
        }
        self.on(stream)
    }
}

impl Prepared {
    /// The launch on this stream, if that is one of the context for which it was prepared.
    #[inline]
    pub(super) fn on<'a>(&self, stream: &'a CudaStream) -> Result<Launch<'a>, LaunchError> {
        let Prepared { kernel, function, id, config, .. } = *self;
        let theirs: &CudaContext = stream.context();
        // Both are alive, so the driver's own addresses tell whether they are one context.
        if !ptr::eq(theirs, &*self.context) && theirs.cu_ctx() != self.context.cu_ctx() {
            return Err(LaunchError::OtherContext { kernel });
        }
        self.still_holds()?;
        Ok(Launch { kernel, function, id, stream, config })
    }
}
