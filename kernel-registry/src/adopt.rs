//! Adopted modules: an image that is warm in a context and that other code loads there, with the same bytes, is not loaded again. The
//! other code gets the registry's module and warm kernels.
//!
//! `calls` defines the driver's functions for modules in this crate. In a program that is linked with the driver's library, the linker
//! takes these and not the library's, so cudarc's calls come here. `bytes` finds the image of a call, `late` loads what
//! isn't warm, `probe` checks that calls come here, and `real` calls the driver. The table of adopted modules is `contexts::adopted`.
//! Whatever isn't adopted goes to the driver unchanged.
//!
//! Images with variables are never adopted: two loads of one image would share them.

mod bytes;
mod calls;
mod late;
mod probe;
mod real;

pub(crate) use bytes::{add, is_adopted, refused};
pub(crate) use probe::why_not_in_place;
