//! Groups the parts of streams: their queues of work, the worker thread, the order of work, and deadlocks.

pub(crate) mod deadlock;
pub(crate) mod order;
pub(crate) mod queue;
pub(crate) mod wait;
pub(crate) mod worker;
