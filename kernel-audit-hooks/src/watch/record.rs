//! Writes the record: calls in progress, launches, events, and when the program was ready.

pub(crate) mod call;
pub(crate) mod feed;
pub(crate) mod launches;
mod live;
pub(crate) mod new_event;
pub(crate) mod ready;
pub(crate) mod recording;
mod room;
pub(crate) mod slots;
