//! Groups what programs and tests call besides the driver: the installation, faults and recordings, counts of objects,
//! and memory pressure.

pub(crate) mod explore;
pub(crate) mod inject;
pub(crate) mod install;
pub(crate) mod live;
pub(crate) mod pressure;
pub(crate) mod races;
