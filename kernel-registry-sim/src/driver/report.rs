//! What the driver writes: what kernels print, and why a context has failed.

pub(crate) mod failures;
pub(crate) mod texts;
