//! Groups the memory that kernels may access: allocations, pools, and a kernel's view of it.

pub(crate) mod blocks;
pub(crate) mod graph;
pub(crate) mod pools;
pub(crate) mod view;
