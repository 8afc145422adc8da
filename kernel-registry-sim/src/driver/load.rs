//! Groups loaded code: images, the compiler, and modules with their kernels.

pub(crate) mod code;
pub(crate) mod compile;
pub(crate) mod image;
pub(crate) mod kept;
