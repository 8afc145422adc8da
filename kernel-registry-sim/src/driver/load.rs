//! Code: images are compiled, loaded as modules, and their kernels are loaded lazily.

pub(crate) mod code;
pub(crate) mod compile;
pub(crate) mod image;
pub(crate) mod lazy;
pub(crate) mod lock;
