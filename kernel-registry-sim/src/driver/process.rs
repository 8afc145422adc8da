//! Groups the driver's state in this process: its installation, the state under one lock, the current context of each
//! thread, and the clock.

pub(crate) mod clock;
pub(crate) mod current;
pub(crate) mod install;
pub(crate) mod live;
pub(crate) mod simulator;
pub(crate) mod state;
pub(crate) mod wakeup;
