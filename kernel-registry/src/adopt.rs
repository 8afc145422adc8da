//! Adopted modules: an image that is warm in a context and that other code loads there, with the same bytes, is not loaded again. The
//! other code gets the registry's module and warm kernels.
//!
//! `calls` defines the driver's functions for modules in this crate. In a program that is linked with the driver's library, the linker
//! takes these and not the library's, so cudarc's calls come here. `bytes` finds the image of a call, `modules` is the table of adopted
//! modules, `probe` checks that calls come here, and `real` calls the driver. Whatever is not adopted goes to the driver unchanged.
//!
//! Images with variables are never adopted: two loads of one image would share them.

mod bytes;
mod calls;
mod late;
mod modules;
mod probe;
mod real;

use std::cell::Cell;

pub(crate) use bytes::{add, is_adopted, refused};
pub(crate) use modules::{enter, forget};
pub(crate) use probe::why_not_in_place;

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
fn is_own() -> bool {
    OWN.get()
}
