//! Groups the parts of streams: their queues of work, the order of work, and their captures.

pub(crate) mod capture;
pub(crate) mod known;
pub(crate) mod order;
pub(crate) mod queue;
pub(crate) mod wakeup;
