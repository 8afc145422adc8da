//! The types that a kernel's `launch` takes as its configuration.

use std::ptr;

use cudarc::driver::{CudaContext, CudaStream};

use super::{Launch, LaunchError, Prepared};
use crate::{Kernel, LaunchConfig};

/// The types that can be the configuration of a launch of the kernel `K`. A [`LaunchConfig`], of this crate or of cudarc, is checked
/// at each launch. A `&Prepared<K>` was checked once.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a configuration of a launch of `{K}`",
    label = "neither a `LaunchConfig` nor a `&Prepared<{K}>`",
    note = "every kernel has `over(n)`, a configuration for `n` threads"
)]
pub trait Configure<K>: Sealed {
    #[doc(hidden)]
    fn configure(self, stream: &CudaStream) -> Result<Launch<'_>, LaunchError>
    where
        K: Kernel;
}

/// Keeps other crates from implementing [`Configure`].
pub trait Sealed {}

// Each implementation is written out, because the compiler lists the implementations in errors.

impl Sealed for LaunchConfig {}

impl<K> Configure<K> for LaunchConfig {
    #[inline]
    fn configure(self, stream: &CudaStream) -> Result<Launch<'_>, LaunchError>
    where
        K: Kernel,
    {
        Launch::new(K::INFO, stream, &self)
    }
}

impl Sealed for &LaunchConfig {}

impl<K> Configure<K> for &LaunchConfig {
    #[inline]
    fn configure(self, stream: &CudaStream) -> Result<Launch<'_>, LaunchError>
    where
        K: Kernel,
    {
        Launch::new(K::INFO, stream, self)
    }
}

impl Sealed for cudarc::driver::LaunchConfig {}

impl<K> Configure<K> for cudarc::driver::LaunchConfig {
    #[inline]
    fn configure(self, stream: &CudaStream) -> Result<Launch<'_>, LaunchError>
    where
        K: Kernel,
    {
        Launch::new(K::INFO, stream, &self.into())
    }
}

impl<K> Sealed for &Prepared<K> {}

impl<K> Configure<K> for &Prepared<K> {
    #[inline]
    fn configure(self, stream: &CudaStream) -> Result<Launch<'_>, LaunchError>
    where
        K: Kernel,
    {
        self.on(stream)
    }
}

impl<K> Prepared<K> {
    /// Returns the launch on this stream. The stream must belong to the context for which the launch was prepared.
    #[inline]
    pub(crate) fn on<'a>(&self, stream: &'a CudaStream) -> Result<Launch<'a>, LaunchError> {
        let Prepared { kernel, function, id, config, .. } = *self;
        let theirs: &CudaContext = stream.context();
        // Both `CudaContext`s exist now, so they are the same context of the driver if the driver's addresses are equal.
        if !ptr::eq(theirs, &*self.context) && theirs.cu_ctx() != self.context.cu_ctx() {
            return Err(LaunchError::OtherContext { kernel });
        }
        self.check_handle()?;
        Ok(Launch::on(kernel, (function, id), stream, &config))
    }
}
