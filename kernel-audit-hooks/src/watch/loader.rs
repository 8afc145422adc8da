//! Inspects the files that the dynamic linker has mapped, finds symbols in them, and locates the driver.

pub(crate) mod build_id;
pub(crate) mod library;
pub(crate) mod mapped;
pub(crate) mod real;
pub(crate) mod symbols;
