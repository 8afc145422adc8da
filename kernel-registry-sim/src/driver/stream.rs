//! Streams: their queues of work, the thread that does it, what waits for what, and deadlocks.

pub(crate) mod deadlock;
pub(crate) mod order;
pub(crate) mod queue;
pub(crate) mod wait;
pub(crate) mod worker;
