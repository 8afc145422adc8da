//! State of the driver's objects: contexts, kernels, images, memory, limits.

pub(crate) mod code;
pub(crate) mod contexts;
pub(crate) mod devices;
pub(crate) mod handles;
pub(crate) mod limits;
pub(crate) mod memory;
pub(crate) mod mode;
pub(crate) mod origin;
pub(crate) mod owners;
pub(crate) mod stream_counts;
mod table;
