//! Groups the parts of loaded code: compiling images, loading them as modules, and loading kernels lazily.

pub(crate) mod code;
pub(crate) mod compile;
pub(crate) mod image;
pub(crate) mod lazy;
pub(crate) mod lock;
