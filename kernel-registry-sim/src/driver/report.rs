//! Groups what the driver writes: texts that kernels print, and reasons why contexts have failed.

pub(crate) mod failures;
pub(crate) mod texts;
