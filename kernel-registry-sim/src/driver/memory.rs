//! Memory that kernels may touch: allocations, pools, and what of it a running kernel sees.

pub(crate) mod blocks;
pub(crate) mod graph;
pub(crate) mod pools;
pub(crate) mod pressure;
pub(crate) mod view;
