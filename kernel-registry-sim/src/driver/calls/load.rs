//! Groups the functions that load code: modules, libraries, and the linker.

pub(crate) mod library;
pub(crate) mod link;
pub(crate) mod module;
