//! The registry of contexts in which kernels were warmed. For each context, the registry records what is loaded there and the policy
//! for late loads. When a context no longer exists, the registry removes the context from the kernels' tables.

#[cfg_attr(not(all(feature = "adopt", target_os = "linux")), path = "contexts/not_adopted.rs")]
pub(crate) mod adopted;
mod device;
mod kernel_report;
mod libraries;
mod loaded;
mod policy;

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, TryLockError, Weak};
use std::time::{Duration, Instant};
use std::{mem, thread};

use cudarc::driver::{CudaContext, sys};

use crate::KernelInfo;
use crate::driver::{ContextId, DriverCallError, Function};
use crate::lock::lock;
use crate::table::{self, Limits, Owner, Ready};
use crate::watch::Turns;

pub(crate) use device::Device;
pub use kernel_report::{KernelReport, MachineCode};
pub(crate) use libraries::{Kernels, Libraries, Piece, key};
pub(crate) use loaded::Loaded;
pub use loaded::WarmKernel;
pub(crate) use policy::Policy;
pub use policy::{Late, LateLoad};

/// A context in which kernels were warmed.
pub(crate) struct KnownContext {
    pub(crate) id: ContextId,
    pub(crate) ordinal: usize,
    /// The `CudaContext` whose address the kernels' tables hold. While this `Weak` exists, no other `CudaContext` can get
    /// that address: see `Owner`.
    home: Mutex<Weak<CudaContext>>,
    /// The device, if this is a primary context.
    primary_of: Option<sys::CUdevice>,
    pub(crate) device: OnceLock<Device>,
    /// The application's policy for late loads.
    pub(crate) policy: Mutex<Policy>,
    /// Lets one warm-up run at a time.
    pub(crate) turns: Turns,
    /// Locked during a warm-up.
    pub(crate) loaded: Mutex<Loaded>,
}

/// The right to warm in a context. Dropping it ends the right.
pub(crate) struct Turn(pub(crate) Arc<KnownContext>);

impl Drop for Turn {
    fn drop(&mut self) {
        self.0.turns.end();
    }
}

static CONTEXTS: Mutex<Vec<Arc<KnownContext>>> = Mutex::new(Vec::new());

impl KnownContext {
    /// Finds a context, or adds it, and updates its policy. Forgets contexts that no longer exist.
    pub(crate) fn find_or_add(
        context: &Arc<CudaContext>,
        policy: &Policy,
    ) -> Result<Arc<KnownContext>, DriverCallError> {
        let mut contexts = lock(&CONTEXTS);
        // The id is queried under the lock, so that it is not older than an id that another thread has seen.
        let id = ContextId::query(context)?;
        contexts.retain(|state| state.id == id || !state.is_gone(context) || !state.forget());
        if let Some(state) = contexts.iter().find(|state| state.id == id) {
            lock(&state.policy).update(policy);
            return Ok(state.clone());
        }
        let state = KnownContext {
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

    /// Finds a context in which kernels were warmed before.
    pub(crate) fn find(id: ContextId) -> Option<Arc<KnownContext>> {
        lock(&CONTEXTS).iter().find(|state| state.id == id).cloned()
    }

    /// Returns the `CudaContext` through which the context was warmed, if it still exists.
    pub(crate) fn home(&self) -> Option<Arc<CudaContext>> {
        lock(&self.home).upgrade()
    }

    /// Locks `loaded`. Returns `None` if another thread holds the lock for longer than `timeout`.
    pub(crate) fn lock_within(&self, timeout: Duration) -> Option<MutexGuard<'_, Loaded>> {
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

    /// Adds a kernel's table entry for this context, so that launches find the kernel.
    pub(crate) fn enter(&self, kernel: &KernelInfo, function: Function, limits: Limits) {
        kernel.table().set(self.ordinal, Ready { function, context: self.owner(), limits });
    }

    /// Removes a kernel's table entry for this context, so that launches no longer find the kernel.
    pub(crate) fn withdraw(&self, kernel: &KernelInfo) {
        kernel.table().forget(self.ordinal, self.id);
        table::next_epoch();
    }

    /// Returns the context as the kernels' tables hold it.
    fn owner(&self) -> Owner {
        Owner { address: lock(&self.home).as_ptr(), id: self.id }
    }

    /// Replaces the context's former `CudaContext` by `context` in the tables, if the former one was dropped. Launches through the
    /// new `CudaContext` are fast then.
    pub(crate) fn rehome(&self, context: &Arc<CudaContext>, loaded: &Loaded) {
        let mut home = lock(&self.home);
        if home.strong_count() > 0 {
            return;
        }
        // The former `Weak` is kept until no table has its address any more.
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

    /// Returns whether this context no longer exists. `other` is a context that exists.
    fn is_gone(&self, other: &CudaContext) -> bool {
        match self.primary_of {
            // A device has one primary context at a time.
            Some(device) if other.is_primary() && other.cu_device() == device => true,
            // If the driver returns an error, the context may still exist.
            Some(device) => ContextId::query_primary(device).is_ok_and(|id| id != Some(self.id)),
            // A context that is not primary is destroyed with its `CudaContext`.
            None => lock(&self.home).strong_count() == 0,
        }
    }

    /// Removes the context from the kernels' tables. Returns false, and removes nothing, if a thread holds `loaded`: it may be
    /// stuck in a driver call.
    fn forget(&self) -> bool {
        let Some(mut loaded) = self.lock_within(Duration::ZERO) else { return false };
        loaded.infos().for_each(|info| info.table().forget(self.ordinal, self.id));
        loaded.forgotten = true;
        adopted::forget(self.id);
        table::next_epoch();
        true
    }
}
