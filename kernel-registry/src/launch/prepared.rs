//! A launch that is checked once and made many times.

use std::ffi::c_void;
use std::fmt;
use std::ptr;
use std::sync::Arc;

use cudarc::driver::{CudaContext, CudaStream};

use super::{Launch, LaunchConfig, LaunchError, check, ready};
use crate::KernelInfo;
use crate::driver::Function;

/// A launch that was found to be possible in a context, on any stream of it.
///
/// ```no_run
/// use kernel_registry::Prepared;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let context = kernel_registry::context(0)?;
/// let _warm = kernel_registry::warm_all(&context)?;
/// let kernel = kernel_registry::find("kernels::waiting::touch")?;
/// let touch = Prepared::new(kernel, &context, kernel.over(1))?;
///
/// let stream = context.new_stream()?;
/// let mut count = stream.alloc_zeros::<u32>(1)?;
/// let (mut address, _used) = cudarc::driver::DevicePtrMut::device_ptr_mut(&mut count, &stream);
/// for _ in 0..1000 {
///     // SAFETY: the kernel takes one pointer, and the memory outlives the stream's work.
///     unsafe { touch.launch(&stream, &mut [(&raw mut address).cast()])? };
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Prepared {
    kernel: &'static KernelInfo,
    function: Function,
    context: Arc<CudaContext>,
    config: LaunchConfig,
}

impl Prepared {
    /// Compares a launch with what the kernel can do in a context.
    pub fn new(
        kernel: &'static KernelInfo,
        context: &Arc<CudaContext>,
        config: impl Into<LaunchConfig>,
    ) -> Result<Self, LaunchError> {
        let config = config.into();
        let ready = ready(kernel, context)?;
        check::check(kernel, &config, &ready.limits)?;
        Ok(Prepared { kernel, function: ready.function, context: context.clone(), config })
    }

    /// What it launches.
    pub fn kernel(&self) -> &'static KernelInfo {
        self.kernel
    }

    /// How it launches it.
    pub fn config(&self) -> &LaunchConfig {
        &self.config
    }

    /// Launches the kernel on a stream of the context.
    ///
    /// # Safety
    ///
    /// As for [`launch_raw`](super::launch_raw).
    #[inline]
    pub unsafe fn launch(&self, stream: &CudaStream, args: &mut [*mut c_void]) -> Result<(), LaunchError> {
        let Prepared { kernel, function, config, .. } = *self;
        let theirs: &CudaContext = stream.context();
        // Both are alive, so the driver's own addresses tell whether they are one context.
        if !ptr::eq(theirs, &*self.context) && theirs.cu_ctx() != self.context.cu_ctx() {
            return Err(LaunchError::OtherContext { kernel });
        }
        // SAFETY: the caller's promise.
        unsafe { Launch { kernel, function, stream, config }.submit(args) }
    }
}

impl fmt::Debug for Prepared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Prepared")
            .field("kernel", &self.kernel.path())
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}
