//! Marks the driver calls that kernel-registry makes itself: `adopt` never answers these with an adopted module.

use std::cell::Cell;

thread_local! {
    /// Whether this thread is in a call of kernel-registry itself.
    static OWN: Cell<bool> = const { Cell::new(false) };
}

/// Makes a driver call of kernel-registry itself, which always goes to the driver.
pub(crate) fn own<T>(call: impl FnOnce() -> T) -> T {
    struct Restore(bool);
    impl Drop for Restore {
        fn drop(&mut self) {
            OWN.set(self.0);
        }
    }
    let _restore = Restore(OWN.replace(true));
    call()
}

/// Returns whether this thread is in a call of kernel-registry itself.
#[cfg(all(feature = "adopt", target_os = "linux"))]
pub(crate) fn is_own() -> bool {
    OWN.get()
}
