//! Prepared launches: checked once, launched many times.

use std::ffi::c_void;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use cudarc::driver::{CudaContext, CudaStream};

use super::{LaunchError, check, ready};
use crate::driver::{ContextId, Function};
use crate::{Kernel, KernelInfo, LaunchConfig, table};

/// A launch of the kernel `K` that was checked once, for all streams of a context. For a kernel that is known only at run time,
/// [`Prepared::untyped`] returns a `Prepared<Untyped>`.
///
/// ```no_run
/// # mod demo {
/// # use kernel_registry::gpu_kernel;
/// #[gpu_kernel(image = "tests/images/saxpy.ptx", block = 256)]
/// pub unsafe fn saxpy(n: u32, a: f32, x: &[f32], y: &mut [f32]);
/// # }
/// # use demo::saxpy;
/// use kernel_registry::Prepared;
///
/// # fn main() -> Result<(), kernel_registry::MainError> {
/// let context = kernel_registry::context(0)?;
/// let _warm = kernel_registry::warm_all(&context)?;
/// let prepared = Prepared::<saxpy>::new(&context, saxpy::over(1000))?;
///
/// let stream = context.new_stream()?;
/// let x = stream.clone_htod(&[1.0_f32; 1000])?;
/// let mut y = stream.clone_htod(&[2.0_f32; 1000])?;
/// for _ in 0..1000 {
///     // SAFETY: both vectors have 1000 elements.
///     unsafe { saxpy::launch(&stream, &prepared, 1000, 0.5, &x, &mut y)? };
/// }
/// # Ok(())
/// # }
/// ```
pub struct Prepared<K = Untyped> {
    pub(crate) kernel: &'static KernelInfo,
    pub(crate) function: Function,
    pub(super) context: Arc<CudaContext>,
    /// The context's id. The function is valid while the context has this id.
    pub(crate) id: ContextId,
    pub(super) config: LaunchConfig,
    /// The `table::epoch` at which the function was last known to be valid.
    epoch: AtomicU64,
    _kernel: PhantomData<fn() -> K>,
}

/// The type parameter of [`Prepared`] for a kernel that is known only at run time.
#[derive(Clone, Copy, Debug)]
pub struct Untyped;

impl<K: Kernel> Prepared<K> {
    /// Checks a launch against the kernel's limits in a context.
    ///
    /// # Errors
    ///
    /// The same errors as a launch: [`LaunchError`].
    pub fn new(context: &Arc<CudaContext>, config: impl Into<LaunchConfig>) -> Result<Self, LaunchError> {
        Self::checked(K::INFO, context, config.into())
    }
}

impl Prepared<Untyped> {
    /// Checks a launch of a kernel that is known only at run time.
    ///
    /// # Errors
    ///
    /// The same errors as a launch: [`LaunchError`].
    pub fn untyped(
        kernel: &'static KernelInfo,
        context: &Arc<CudaContext>,
        config: impl Into<LaunchConfig>,
    ) -> Result<Self, LaunchError> {
        Self::checked(kernel, context, config.into())
    }
}

impl<K> Prepared<K> {
    pub(crate) fn checked(
        kernel: &'static KernelInfo,
        context: &Arc<CudaContext>,
        config: LaunchConfig,
    ) -> Result<Self, LaunchError> {
        // The epoch is read before the table: if an entry is removed from here on, the first launch looks the kernel up again.
        let epoch = AtomicU64::new(table::epoch());
        let ready = ready(kernel, context)?;
        check(kernel, &config, &ready.limits)?;
        let (function, id) = (ready.function, ready.context.id);
        Ok(Prepared { kernel, function, context: context.clone(), id, config, epoch, _kernel: PhantomData })
    }

    /// Checks that the handle is still valid: the context may have been reset, or the kernel unloaded and loaded again.
    #[inline]
    pub(super) fn check_handle(&self) -> Result<(), LaunchError> {
        let epoch = table::epoch();
        if self.epoch.load(Ordering::Relaxed) == epoch { Ok(()) } else { self.find_again(epoch) }
    }

    #[cold]
    fn find_again(&self, epoch: u64) -> Result<(), LaunchError> {
        let Prepared { kernel, context, id, .. } = self;
        match kernel.table().find(context.ordinal(), *id) {
            Some(ready) if ready.function == self.function => {
                self.epoch.store(epoch, Ordering::Relaxed);
                Ok(())
            }
            Some(_) => Err(LaunchError::LoadedAnew { kernel }),
            None => Err(LaunchError::Reset { kernel }),
        }
    }

    /// Returns the kernel.
    pub fn kernel(&self) -> &'static KernelInfo {
        self.kernel
    }

    /// Returns the configuration.
    pub fn config(&self) -> &LaunchConfig {
        &self.config
    }

    /// Launches the kernel on a stream of the context, with unchecked arguments. For typed arguments, pass `&Prepared<K>` as the
    /// configuration to the `launch` of the kernel's type.
    ///
    /// # Errors
    ///
    /// The context was reset, the stream belongs to another context, or the driver refuses the launch.
    ///
    /// # Safety
    ///
    /// The [contract of every launch](crate#the-contract-of-a-launch).
    #[inline]
    pub unsafe fn launch(&self, stream: &CudaStream, args: &mut [*mut c_void]) -> Result<(), LaunchError> {
        let launch = self.on(stream)?;
        // SAFETY: the caller's promise.
        unsafe { launch.submit(args) }
    }
}

impl<K> Clone for Prepared<K> {
    fn clone(&self) -> Self {
        let Prepared { kernel, function, ref context, id, config, ref epoch, _kernel } = *self;
        let epoch = AtomicU64::new(epoch.load(Ordering::Relaxed));
        Prepared { kernel, function, context: context.clone(), id, config, epoch, _kernel }
    }
}

impl<K> fmt::Debug for Prepared<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Prepared")
            .field("kernel", &self.kernel.path())
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}
