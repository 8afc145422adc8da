//! Holds the contexts that the threads of the stress test use and replace.

use std::error::Error;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use kernel_registry::cudarc::driver::{CudaContext, result, sys};
use kernel_registry::{Prepared, Warm};
use kernels::waiting::touch;

type Result<T = ()> = std::result::Result<T, Box<dyn Error>>;

/// A slot that always holds a context.
pub(crate) struct Slot {
    ordinal: usize,
    is_primary: bool,
    /// Locked for reading by threads that work in the context, and for writing by a thread that ends it.
    context: RwLock<Context>,
}

/// A context that threads work in.
pub(crate) struct Context {
    pub(crate) context: Arc<CudaContext>,
    is_warm: AtomicBool,
    /// The objects from the first warm-up of this context.
    kept: Mutex<Option<Kept>>,
    /// The objects of the previous context in this slot.
    pub(crate) stale: Option<Kept>,
}

/// Objects that outlive a reset of the context.
#[derive(Clone)]
pub(crate) struct Kept {
    pub(crate) warm: Warm,
    pub(crate) touch: Prepared<touch>,
}

impl Slot {
    /// Returns a slot with the primary context of the first device.
    pub(crate) fn primary() -> Result<Self> {
        let context = kernel_registry::context(0)?;
        Ok(Slot { ordinal: 0, is_primary: true, context: RwLock::new(Context::new(context, None)) })
    }

    /// Returns a slot with a new context of a device.
    pub(crate) fn other(ordinal: usize) -> Result<Self> {
        let context = RwLock::new(Context::new(new_context(ordinal)?, None));
        Ok(Slot { ordinal, is_primary: false, context })
    }

    pub(crate) fn is_primary(&self) -> bool {
        self.is_primary
    }

    pub(crate) fn enter(&self) -> RwLockReadGuard<'_, Context> {
        self.context.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until no thread works in the context.
    pub(crate) fn enter_alone(&self) -> RwLockWriteGuard<'_, Context> {
        self.context.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the context in the slot, and puts a new context there.
    pub(crate) fn replace(&self, held: &mut Context) -> Result {
        *held = if self.is_primary {
            held.context.synchronize()?;
            // SAFETY: no thread works in the context, and only `CudaContext` objects of it are left.
            unsafe { sys::cuDevicePrimaryCtxReset_v2(held.context.cu_device()).result()? };
            Context::new(kernel_registry::context(self.ordinal)?, held.kept())
        } else {
            // The old context is destroyed when its last receipt is dropped.
            Context::new(new_context(self.ordinal)?, None)
        };
        Ok(())
    }
}

impl Context {
    fn new(context: Arc<CudaContext>, stale: Option<Kept>) -> Self {
        Context { context, is_warm: AtomicBool::new(false), kept: Mutex::new(None), stale }
    }

    /// Returns whether a warm-up of this context has succeeded.
    pub(crate) fn is_warm(&self) -> bool {
        self.is_warm.load(Ordering::Acquire)
    }

    /// Marks the context's kernels as warm.
    pub(crate) fn warmed(&self, kept: Kept) {
        self.is_warm.store(true, Ordering::Release);
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(kept);
    }

    /// Returns the objects from the first warm-up.
    pub(crate) fn kept(&self) -> Option<Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn new_context(ordinal: usize) -> Result<Arc<CudaContext>> {
    let device = result::device::get(i32::try_from(ordinal)?)?;
    // SAFETY: the context is new, and the `CudaContext` owns it from here on.
    unsafe {
        let mut context = ptr::null_mut();
        sys::cuCtxCreate_v4(&mut context, ptr::null_mut(), 0, device).result()?;
        Ok(CudaContext::from_raw_context(ordinal, device, context)?)
    }
}
