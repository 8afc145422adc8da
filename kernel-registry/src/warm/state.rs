//! What this process has loaded: images, which stay, and the contexts in which kernels are warm.

use std::collections::{HashMap, HashSet};
use std::ptr;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use cudarc::driver::{CudaContext, sys};

use super::device::Device;
use super::plan::Planned;
use super::prime::Needs;
use super::report::KernelReport;
use crate::KernelInfo;
use crate::driver::{self, Function, Library, Module};
use crate::table::Owner;

/// Locks what is whole at any time: a thread that panicked has not left half a change.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A context that something was warmed in.
pub(super) struct State {
    pub(super) id: u64,
    pub(super) ordinal: usize,
    /// The first `CudaContext` that it was warmed through. Kept for its address too: see `Owner`.
    first: Weak<CudaContext>,
    handle: Handle,
    pub(super) device: OnceLock<Device>,
    /// What to do when a kernel that is not warm is launched: a `Late`.
    pub(super) late: AtomicU8,
    /// Held while something is being warmed.
    pub(super) loaded: Mutex<Loaded>,
}

/// The driver's context, to be compared and asked for its id while it is there.
struct Handle {
    context: sys::CUcontext,
    device: sys::CUdevice,
    is_primary: bool,
}

// SAFETY: the driver's handles may be used from any thread.
unsafe impl Send for Handle {}
// SAFETY: as above.
unsafe impl Sync for Handle {}

/// What there is in a context.
#[derive(Default)]
pub(super) struct Loaded {
    pub(super) modules: Places<Module>,
    pub(super) kernels: Places<Warmed>,
    /// Kernels that cannot run on the device.
    pub(super) unavailable: Places<&'static KernelInfo>,
    pub(super) primed: Needs,
    /// The hooks that have run.
    pub(super) hooks: HashSet<usize>,
    /// The largest frame of what they preloaded.
    pub(super) preloaded_frame: u64,
}

/// What is known of images or kernels, by their places, which are the same in every plan.
pub(super) struct Places<T>(Vec<Option<T>>);

impl<T> Places<T> {
    pub(super) fn get(&self, place: usize) -> Option<&T> {
        self.0.get(place)?.as_ref()
    }

    pub(super) fn insert(&mut self, place: usize, value: T) {
        if self.0.len() <= place {
            self.0.resize_with(place + 1, || None);
        }
        self.0[place] = Some(value);
    }

    pub(super) fn values(&self) -> impl Iterator<Item = &T> {
        self.0.iter().flatten()
    }
}

impl<T> Default for Places<T> {
    fn default() -> Self {
        Places(Vec::new())
    }
}

impl Loaded {
    /// Whether a kernel is warm, or never will be.
    pub(super) fn knows(&self, planned: &Planned) -> bool {
        self.kernels.get(planned.place).is_some() || self.unavailable.get(planned.place).is_some()
    }

    /// Bytes of stack that the kernels which are warm need, and those that hooks preloaded.
    pub(super) fn largest_frame(&self) -> u64 {
        let registered = self.kernels.values().map(|warmed| u64::from(warmed.report.local)).max();
        registered.unwrap_or(0).max(self.preloaded_frame)
    }
}

/// A kernel that is warm in a context.
#[derive(Clone)]
pub(super) struct Warmed {
    pub(super) info: &'static KernelInfo,
    pub(super) function: Function,
    pub(super) report: KernelReport,
}

static CONTEXTS: Mutex<Vec<Arc<State>>> = Mutex::new(Vec::new());

impl State {
    /// That of a context, which is new if nothing was warmed there. Contexts that are gone are forgotten.
    pub(super) fn of(context: &Arc<CudaContext>, id: u64) -> Arc<State> {
        let mut contexts = lock(&CONTEXTS);
        contexts.retain(|state| state.is_alive() || !state.forget());
        if let Some(state) = contexts.iter().find(|state| state.id == id) {
            return state.clone();
        }
        let handle = Handle {
            context: context.cu_ctx(),
            device: context.cu_device(),
            is_primary: context.is_primary(),
        };
        let state = State {
            id,
            ordinal: context.ordinal(),
            first: Arc::downgrade(context),
            handle,
            device: OnceLock::new(),
            late: AtomicU8::new(0),
            loaded: Mutex::default(),
        };
        contexts.push(Arc::new(state));
        contexts[contexts.len() - 1].clone()
    }

    /// That of a context in which something was warmed before.
    pub(super) fn find(id: u64) -> Option<Arc<State>> {
        lock(&CONTEXTS).iter().find(|state| state.id == id).cloned()
    }

    /// What there is in the context, unless somebody works on it for longer than this.
    pub(super) fn lock_within(&self, patience: Duration) -> Option<MutexGuard<'_, Loaded>> {
        let begun = Instant::now();
        loop {
            match self.loaded.try_lock() {
                Ok(loaded) => return Some(loaded),
                Err(TryLockError::Poisoned(poisoned)) => return Some(poisoned.into_inner()),
                Err(TryLockError::WouldBlock) if begun.elapsed() >= patience => return None,
                Err(TryLockError::WouldBlock) => thread::sleep(Duration::from_micros(50)),
            }
        }
    }

    /// The `CudaContext` that the kernels' tables know it by.
    pub(super) fn owner(&self) -> Owner {
        Owner { address: self.first.as_ptr(), id: self.id }
    }

    pub(super) fn context(&self) -> Option<Arc<CudaContext>> {
        self.first.upgrade()
    }

    pub(super) fn set_late(&self, late: super::Late) {
        self.late.store(late as u8, Ordering::Relaxed);
    }

    pub(super) fn late(&self) -> super::Late {
        match self.late.load(Ordering::Relaxed) {
            code if code == super::Late::Deny as u8 => super::Late::Deny,
            code if code == super::Late::Allow as u8 => super::Late::Allow,
            _ => super::Late::Warn,
        }
    }

    /// Whether the driver still has this context.
    fn is_alive(&self) -> bool {
        let Handle { context, device, is_primary } = self.handle;
        if is_primary {
            let (mut flags, mut active) = (0, 0);
            // SAFETY: it asks for the state of a device.
            let asked = unsafe { sys::cuDevicePrimaryCtxGetState(device, &mut flags, &mut active) };
            if driver::call("cuDevicePrimaryCtxGetState", asked).is_err() || active == 0 {
                return false;
            }
        } else if self.first.strong_count() == 0 {
            return false;
        }
        let mut id = 0;
        // SAFETY: a device's primary context has one address, and there is one at the moment; another context is
        // there as long as its `CudaContext`.
        let asked = unsafe { sys::cuCtxGetId(context, &mut id) };
        driver::call("cuCtxGetId", asked).is_ok() && id == self.id
    }

    /// Removes the context from the kernels' tables, unless a thread is stuck in it.
    fn forget(&self) -> bool {
        let Ok(loaded) = self.loaded.try_lock() else { return false };
        let warmed = loaded.kernels.values().map(|warmed| warmed.info);
        let all = warmed.chain(loaded.unavailable.values().copied());
        all.for_each(|info| info.table().forget(self.ordinal, self.id));
        true
    }
}

/// A library, in whichever context: `load` is called once an image, and again if that failed.
pub(super) fn library<E>(
    image: &'static [u8],
    load: impl FnOnce() -> Result<Library, E>,
) -> Result<Library, E> {
    type Cell = Arc<Mutex<Option<Library>>>;
    static LIBRARIES: Mutex<Option<HashMap<usize, Cell>>> = Mutex::new(None);
    let cell = lock(&LIBRARIES).get_or_insert_default().entry(key(image)).or_default().clone();
    let mut library = lock(&cell);
    match *library {
        Some(library) => Ok(library),
        None => Ok(*library.insert(load()?)),
    }
}

/// What tells images from each other: the program has each of them once.
pub(super) fn key(bytes: &'static [u8]) -> usize {
    ptr::from_ref(bytes).addr()
}
