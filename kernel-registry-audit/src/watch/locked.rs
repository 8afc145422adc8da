//! A lock that a forked child does not find locked by a thread that it does not have.

use std::ops::DerefMut;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Mutex, PoisonError};

/// A value behind a lock, made when it is first needed.
pub(crate) struct Locked<T>(AtomicPtr<Mutex<T>>);

impl<T: Default + 'static> Locked<T> {
    pub(crate) const fn new() -> Self {
        Locked(AtomicPtr::new(ptr::null_mut()))
    }

    /// Waits for the lock.
    pub(crate) fn lock(&self) -> impl DerefMut<Target = T> {
        let mut lock = self.0.load(Ordering::Acquire);
        if lock.is_null() {
            let new = Box::into_raw(Box::<Mutex<T>>::default());
            match self.0.compare_exchange(ptr::null_mut(), new, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => lock = new,
                Err(theirs) => {
                    // SAFETY: it was made above, and no other thread has it.
                    drop(unsafe { Box::from_raw(new) });
                    lock = theirs;
                }
            }
        }
        // SAFETY: it came from a box that is never freed.
        unsafe { &*lock }.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts anew, in a forked child. Another thread of the parent may have locked the value in the middle of a change,
    /// so it is left as it is, and never freed.
    pub(crate) fn renew(&self) {
        self.0.store(ptr::null_mut(), Ordering::Release);
    }
}
