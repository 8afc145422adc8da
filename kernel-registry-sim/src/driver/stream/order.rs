//! Stores all streams, and the order in which their work was submitted.

use std::ops::{Deref, DerefMut};

use super::queue::{Doing, Item, Order, Stream, Work};
use super::wakeup::Wakeup;
use crate::driver::clock;
use crate::driver::handles::{Handle, Handles};
use crate::driver::report::texts::Launcher;
use crate::driver::result::Answer;
use crate::driver::wait::{Behind, Ready, Seq, WaitReason};

pub(crate) struct Streams {
    streams: Handles<Stream>,
    /// The position of the last submitted work, in any stream.
    pub(crate) last: Seq,
    wakeup: Wakeup,
}

impl Deref for Streams {
    type Target = Handles<Stream>;

    fn deref(&self) -> &Handles<Stream> {
        &self.streams
    }
}

impl DerefMut for Streams {
    fn deref_mut(&mut self) -> &mut Handles<Stream> {
        &mut self.streams
    }
}

impl Streams {
    pub(crate) fn new(wakeup: Wakeup) -> Self {
        Streams { streams: Handles::new(2), last: 0, wakeup }
    }

    /// Appends work to a stream, and returns its position.
    pub(crate) fn push(&mut self, stream: Handle, work: Work, behind: Option<Behind>) -> Answer<Seq> {
        let stream = self.streams.get_mut(stream)?;
        self.last += 1;
        if stream.queue.is_empty() {
            stream.still_since = clock::latest();
        }
        let launcher = Launcher::current();
        stream.queue.push_back(Item { seq: self.last, work, behind, state: Doing::Waiting, launcher });
        self.wakeup.notify();
        Ok(self.last)
    }

    /// Removes a stream's first item, which is done. A closed stream without further items is removed, too.
    pub(crate) fn pop(&mut self, handle: Handle) {
        let Ok(stream) = self.streams.get_mut(handle) else { return };
        stream.queue.pop_front();
        stream.still_since = clock::latest();
        if stream.closed && stream.queue.is_empty() {
            let _ = self.streams.remove(handle);
        }
    }

    /// Returns whether work up to the position `until` still occupies a device.
    pub(crate) fn is_busy(&self, device: usize, until: Seq) -> bool {
        until > 0 && self.iter().any(|(_, stream)| stream.device == device && stream.is_busy(until))
    }

    /// Returns whether a stream has done all work up to the position `seq`. That holds for a removed stream, too.
    pub(crate) fn has_done(&self, stream: Handle, seq: Seq) -> bool {
        self.get(stream).map_or(true, |stream| stream.has_done(seq))
    }

    /// Returns the wait for the work up to the position `ready`, or `None` if none of it occupies the device any more.
    pub(crate) fn work_before(&self, device: usize, ready: Ready, because: WaitReason) -> Option<Behind> {
        let until = ready.unwrap_or(self.last);
        self.is_busy(device, until).then_some(Behind { until, because, reported: false })
    }

    /// Returns whether an item waits for other streams. The legacy default stream and a blocking stream of the same
    /// context do their work in the order of submission.
    pub(crate) fn waits_for_others(&self, stream: &Stream, item: &Item) -> bool {
        let waits_for = match stream.order {
            Order::NonBlocking => return false,
            Order::Blocking => Order::Legacy,
            Order::Legacy => Order::Blocking,
        };
        let earlier = |other: &Stream| other.queue.front().is_some_and(|front| front.seq < item.seq);
        self.iter()
            .any(|(_, other)| other.context == stream.context && other.order == waits_for && earlier(other))
    }
}
