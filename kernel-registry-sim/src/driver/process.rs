//! The driver of this process: how it is installed, its state under one lock, the current context of each thread, and its clock.

pub(crate) mod clock;
pub(crate) mod current;
pub(crate) mod install;
pub(crate) mod live;
pub(crate) mod simulator;
pub(crate) mod state;
pub(crate) mod wakeup;
