//! A lock that a forked child never finds locked: the thread that could unlock it doesn't exist there.

use std::mem;
use std::ops::DerefMut;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Mutex, PoisonError, TryLockError};

use crate::watch::process::fork;
use crate::watch::process::system::NoCancel;

/// A value with a lock, created on first use. A forked child creates its own: the parent's may have been
/// locked, in the middle of a change, so the child neither uses nor frees it.
pub(crate) struct Locked<T>(AtomicPtr<Value<T>>);

struct Value<T> {
    /// The fork generation of the process that created the value.
    generation: u32,
    lock: Mutex<T>,
}

impl<T: Default + 'static> Locked<T> {
    pub(crate) const fn new() -> Self {
        Locked(AtomicPtr::new(ptr::null_mut()))
    }

    /// Calls `act` with the value. Forks wait for `act`, so a child inherits a consistent value.
    pub(crate) fn with<R>(&self, act: impl FnOnce(&mut T) -> R) -> R {
        let _no_cancel = NoCancel::new();
        fork::undivided(|| act(&mut self.lock_inherited()))
    }

    /// Waits for the lock. A child inherits the value unless another thread of the parent had locked it.
    fn lock_inherited(&self) -> impl DerefMut<Target = T> {
        let (value, generation) = (self.0.load(Ordering::Acquire), fork::generation());
        // SAFETY: the pointer is null, or came from a box that is never freed.
        if let Some(parents) = unsafe { value.as_ref() }.filter(|value| value.generation != generation) {
            let inherited = match parents.lock.try_lock() {
                Ok(mut value) => mem::take(&mut *value),
                Err(TryLockError::Poisoned(value)) => mem::take(&mut *value.into_inner()),
                Err(TryLockError::WouldBlock) => T::default(),
            };
            let new = Box::into_raw(Box::new(Value { generation, lock: Mutex::new(inherited) }));
            if self.0.compare_exchange(value, new, Ordering::AcqRel, Ordering::Acquire).is_err() {
                // SAFETY: the box was created above, and was never shared.
                drop(unsafe { Box::from_raw(new) });
            }
        }
        self.lock()
    }

    /// Waits for the lock. A child gets a new value.
    pub(crate) fn lock(&self) -> impl DerefMut<Target = T> {
        let (mut value, generation) = (self.0.load(Ordering::Acquire), fork::generation());
        // SAFETY: the pointer is null, or came from a box that is never freed.
        if unsafe { value.as_ref() }.is_none_or(|value| value.generation != generation) {
            let new = Box::into_raw(Box::new(Value { generation, lock: Mutex::default() }));
            match self.0.compare_exchange(value, new, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => value = new,
                Err(theirs) => {
                    // SAFETY: the box was created above, and was never shared.
                    drop(unsafe { Box::from_raw(new) });
                    value = theirs;
                }
            }
        }
        // SAFETY: the pointer came from a box that is never freed.
        unsafe { &*value }.lock.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
