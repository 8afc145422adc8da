//! What this process has loaded: images, which stay, and the contexts in which kernels are warm.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError, Weak};
use std::time::{Duration, Instant};
use std::{mem, ptr, thread};

use cudarc::driver::{CudaContext, sys};

use super::device::Device;
use super::plan::Planned;
use super::policy::Policy;
use super::prime::Needs;
use super::report::KernelReport;
use super::watch::Turns;
use crate::KernelInfo;
use crate::driver::{self, DriverError, Function, Library, Module};
use crate::table::{self, Owner, Ready};

/// Locks what is whole at any time: a thread that panicked has not left half a change.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A context that something was warmed in.
pub(super) struct State {
    pub(super) id: u64,
    pub(super) ordinal: usize,
    /// The `CudaContext` that the kernels' tables know it by. Kept for its address too: see `Owner`.
    home: Mutex<Weak<CudaContext>>,
    /// The device of a primary context.
    primary_of: Option<sys::CUdevice>,
    pub(super) device: OnceLock<Device>,
    /// What was said of launches of kernels that are not warm, and for them.
    pub(super) policy: Mutex<Policy>,
    /// One warm-up works at a time.
    pub(super) turns: Turns,
    /// Held while something is being warmed.
    pub(super) loaded: Mutex<Loaded>,
}

/// What there is in a context.
#[derive(Default)]
pub(super) struct Loaded {
    pub(super) modules: Places<Module>,
    pub(super) kernels: Places<Warmed>,
    /// Kernels that cannot run on the device.
    pub(super) unavailable: Places<&'static KernelInfo>,
    pub(super) primed: Needs,
    /// Modules of our own images, by the images' keys.
    pub(super) ours: HashMap<usize, Module>,
    /// The stack limit when a kernel of ours was launched last: a launch pays for what has changed since.
    pub(super) stack_at_launch: u64,
    /// The context is gone, and its entries were removed from the tables: nothing may be entered any more.
    pub(super) forgotten: bool,
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

    pub(super) fn remove(&mut self, place: usize) {
        if let Some(value) = self.0.get_mut(place) {
            *value = None;
        }
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
    /// The kernels with an entry in their table.
    fn infos(&self) -> impl Iterator<Item = &'static KernelInfo> {
        let warm = self.kernels.values().map(|warmed| warmed.info);
        warm.chain(self.unavailable.values().copied())
    }

    /// Whether kernels are warm, or hooks have preloaded some.
    pub(super) fn is_used(&self) -> bool {
        self.largest_stack() > 0 || self.kernels.values().next().is_some()
    }

    /// Whether a kernel is warm, or never will be.
    pub(super) fn knows(&self, planned: &Planned) -> bool {
        self.kernels.get(planned.place).is_some() || self.unavailable.get(planned.place).is_some()
    }

    /// Bytes of stack that the kernels which are warm need, and those that hooks preloaded.
    pub(super) fn largest_stack(&self) -> u64 {
        let registered = self.kernels.values().map(|warmed| u64::from(warmed.report.stack)).max();
        registered.unwrap_or(0).max(self.preloaded_frame)
    }
}

/// The right to warm in a context, until it is dropped.
pub(super) struct Turn(pub(super) Arc<State>);

impl Drop for Turn {
    fn drop(&mut self) {
        self.0.turns.end();
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
    /// That of a context, with what is said of late launches there; it is new if nothing was warmed in the context. Contexts that are gone are forgotten.
    pub(super) fn of(context: &Arc<CudaContext>, policy: &Policy) -> Result<Arc<State>, DriverError> {
        let mut contexts = lock(&CONTEXTS);
        // Under the lock, so that it is not older than what others have found out.
        let id = driver::context_id(context)?;
        contexts.retain(|state| state.id == id || !state.is_gone(context) || !state.forget());
        if let Some(state) = contexts.iter().find(|state| state.id == id) {
            lock(&state.policy).update(policy);
            return Ok(state.clone());
        }
        let state = State {
            id,
            ordinal: context.ordinal(),
            home: Mutex::new(Arc::downgrade(context)),
            primary_of: context.is_primary().then(|| context.cu_device()),
            device: OnceLock::new(),
            policy: Mutex::new(policy.clone()),
            turns: Turns::new(),
            loaded: Mutex::default(),
        };
        let state = Arc::new(state);
        contexts.push(state.clone());
        Ok(state)
    }

    /// That of a context in which something was warmed before.
    pub(super) fn find(id: u64) -> Option<Arc<State>> {
        lock(&CONTEXTS).iter().find(|state| state.id == id).cloned()
    }

    /// What there is in the context, unless somebody works on it for longer than this.
    pub(super) fn lock_within(&self, timeout: Duration) -> Option<MutexGuard<'_, Loaded>> {
        let begun = Instant::now();
        loop {
            match self.loaded.try_lock() {
                Ok(loaded) => return Some(loaded),
                Err(TryLockError::Poisoned(poisoned)) => return Some(poisoned.into_inner()),
                Err(TryLockError::WouldBlock) if begun.elapsed() >= timeout => return None,
                Err(TryLockError::WouldBlock) => thread::sleep(Duration::from_micros(50)),
            }
        }
    }

    /// The `CudaContext` that the kernels' tables know it by.
    pub(super) fn owner(&self) -> Owner {
        Owner { address: lock(&self.home).as_ptr(), id: self.id }
    }

    /// Lets the tables know the context by another `CudaContext` if the former one is gone, so that launches through
    /// the new one are fast.
    pub(super) fn rehome(&self, context: &Arc<CudaContext>, loaded: &Loaded) {
        let mut home = lock(&self.home);
        if home.strong_count() > 0 {
            return;
        }
        // The address of the former one stays taken until no table has it.
        let former = mem::replace(&mut *home, Arc::downgrade(context));
        drop(home);
        let owner = self.owner();
        for table in loaded.infos().map(KernelInfo::table) {
            if let Some(ready) = table.find(self.ordinal, self.id) {
                table.set(self.ordinal, Ready { context: owner, ..ready });
            }
        }
        drop(former);
    }

    /// Whether the driver has this context no more, given another one that it has.
    fn is_gone(&self, other: &CudaContext) -> bool {
        match self.primary_of {
            // A device has one primary context at a time.
            Some(device) if other.is_primary() && other.cu_device() == device => true,
            // Without an answer it is not known to be gone.
            Some(device) => driver::primary_context_id(device).is_ok_and(|id| id != Some(self.id)),
            // Any other context goes with its `CudaContext`.
            None => lock(&self.home).strong_count() == 0,
        }
    }

    /// Removes the context from the kernels' tables, unless a thread is stuck in it.
    fn forget(&self) -> bool {
        let Some(mut loaded) = self.lock_within(Duration::ZERO) else { return false };
        loaded.infos().for_each(|info| info.table().forget(self.ordinal, self.id));
        loaded.forgotten = true;
        table::next_epoch();
        true
    }
}

/// A library, in whichever context: `load` is called once for an image and architecture, and again if that failed.
///
/// One library would serve all devices, but for one that is unlike the first the driver compiles it when a kernel is taken,
/// one after the other. A library for each architecture is compiled when it is loaded, on all cores.
pub(super) fn library<E>(
    image: &'static [u8],
    arch: u32,
    load: impl FnOnce() -> Result<Library, E>,
) -> Result<Library, E> {
    type Cell = Arc<Mutex<Option<Library>>>;
    static LIBRARIES: Mutex<Option<HashMap<(usize, u32), Cell>>> = Mutex::new(None);
    let cell = lock(&LIBRARIES).get_or_insert_default().entry((key(image), arch)).or_default().clone();
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
