//! Defines a lock that is never found locked in a forked child. The child lacks the parent's threads, which could
//! unlock it.

use std::mem;
use std::ops::DerefMut;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Mutex, PoisonError, TryLockError};

use crate::watch::process::fork;
use crate::watch::process::system::NoCancel;

/// A value with a lock. The value is created when it is first needed, and again in a forked child: another thread of
/// the parent may have locked the value in the middle of a change. So the child neither uses nor frees the parent's
/// value.
pub(crate) struct Locked<T>(AtomicPtr<Value<T>>);

struct Value<T> {
    /// The generation of the process that created the value.
    generation: u32,
    lock: Mutex<T>,
}

impl<T: Default + 'static> Locked<T> {
    pub(crate) const fn new() -> Self {
        Locked(AtomicPtr::new(ptr::null_mut()))
    }

    /// Passes the value to `act`. A forked child has its parent's value, whole: no fork divides `act`.
    pub(crate) fn with<R>(&self, act: impl FnOnce(&mut T) -> R) -> R {
        let _kept = NoCancel::new();
        fork::undivided(|| act(&mut self.lock_inherited()))
    }

    /// Waits for the lock. A forked child has the value of its parent, unless another thread of the parent was changing it.
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
                // SAFETY: the box was created above, and no other thread has its pointer.
                drop(unsafe { Box::from_raw(new) });
            }
        }
        self.lock()
    }

    /// Waits for the lock, and creates the value if there is none.
    pub(crate) fn lock(&self) -> impl DerefMut<Target = T> {
        let (mut value, generation) = (self.0.load(Ordering::Acquire), fork::generation());
        // SAFETY: the pointer is null, or came from a box that is never freed.
        if unsafe { value.as_ref() }.is_none_or(|value| value.generation != generation) {
            let new = Box::into_raw(Box::new(Value { generation, lock: Mutex::default() }));
            match self.0.compare_exchange(value, new, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => value = new,
                Err(theirs) => {
                    // SAFETY: the box was made above, and no other thread has it.
                    drop(unsafe { Box::from_raw(new) });
                    value = theirs;
                }
            }
        }
        // SAFETY: the pointer came from a box that is never freed.
        unsafe { &*value }.lock.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
