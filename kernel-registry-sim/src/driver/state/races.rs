//! Tells the detector of races what streams do, and in which order.

use kernel_registry_ptx::{Knowledge, Work as Launched};

use super::State;
use crate::driver::handles::Handle;
use crate::driver::launch::execution::lock;
use crate::driver::stream::queue::{Order, Source, Stream, Work};
use crate::driver::wait::Seq;

impl State {
    /// Returns what the work at the head of a stream knows when it begins.
    pub(crate) fn known_at_head(&mut self, handle: Handle) -> Option<Knowledge> {
        let stream = self.streams.get(handle).ok()?;
        let seq = stream.queue.front()?.seq;
        let order = stream.order;
        let is_ordered = |other: Order| {
            matches!((order, other), (Order::Legacy, Order::Blocking) | (Order::Blocking, Order::Legacy))
        };
        let ordered = { self.streams.iter() }
            .filter(|(_, other)| other.context == stream.context && is_ordered(other.order))
            .map(|(handle, _)| handle);
        // Of streams that were destroyed nothing else is known: the default stream waits for all of them.
        let watched = self.watched.as_ref()?;
        let gone = watched
            .streams
            .keys()
            .copied()
            .filter(|its| order == Order::Legacy && self.streams.get(*its).is_err());
        let from: Vec<Handle> = ordered.chain([handle]).chain(gone).collect();
        let watched = self.watched.as_mut()?;
        let mut known = watched.submitted.remove(&seq).unwrap_or_else(|| watched.host.clone());
        from.iter().filter_map(|from| watched.streams.get(from)).for_each(|its| known.add(its));
        watched.streams.insert(handle, known.clone());
        Some(known)
    }

    /// A stream's work has ended: what comes after it knows it.
    pub(crate) fn work_ended(&mut self, handle: Handle, work: Option<Launched>) {
        let Some(watched) = &mut self.watched else { return };
        if let Some(work) = work {
            watched.streams.entry(handle).or_default().add_ended(work);
        }
        self.report_races();
    }

    /// Tells the detector of work that no kernel does, which a stream is about to do.
    pub(crate) fn watch_work(&mut self, handle: Handle, work: &Work) {
        let Some(known) = self.known_at_head(handle) else { return };
        let seq =
            self.streams.get(handle).ok().and_then(|stream| Some(stream.queue.front()?.seq)).unwrap_or(0);
        let size = |address: usize| {
            let memory = self.memory.lock();
            memory.find(address, 1).map_or(0, |(start, block)| start + block.bytes - address)
        };
        let range = |address: usize, bytes: usize| {
            // Other memory of the host isn't the kernels'.
            let is_known = self.memory.lock().has(address, bytes);
            if is_known { address as u64..(address + bytes) as u64 } else { 0..0 }
        };
        let (name, reads, writes) = match work {
            Work::Copy { to, from, bytes } => {
                let from = if let Source::Address(from) = from { range(*from, *bytes) } else { 0..0 };
                ("a copy", from, range(*to, *bytes))
            }
            Work::Fill { to, width, count, .. } => ("a fill", 0..0, range(*to, width * count)),
            Work::Free(address) => ("freeing the memory", 0..0, range(*address, size(*address))),
            _ => ("", 0..0, 0..0),
        };
        let Some(watched) = &mut self.watched else { return };
        match work {
            Work::Copy { .. } | Work::Fill { .. } | Work::Free(_) => {
                let number = watched.number(handle);
                let stream = format!("stream {handle:#x}");
                let work = lock(&watched.races).touch((name, number, &stream), &known, reads, writes);
                watched.streams.entry(handle).or_default().add_ended(work);
            }
            Work::Record(_) => drop(watched.events.insert((handle, seq), known)),
            Work::WaitFor { stream, seq } => {
                let other = watched.events.get(&(*stream, *seq)).or(watched.streams.get(stream)).cloned();
                watched.streams.entry(handle).or_default().add(&other.unwrap_or_default());
            }
            // Words are the host's as much as the kernels', and a function is the host's.
            Work::WriteValue { .. } | Work::Call { .. } => watched.host.add(&known),
            Work::WaitValue { .. } => {
                let shown = lock(&watched.races).shown().clone();
                let known = watched.streams.entry(handle).or_default();
                known.add(&shown);
                known.add(&watched.host);
            }
            _ => {}
        }
        lock(&watched.races).set_host(&watched.host);
        self.report_races();
    }

    /// The host has seen that a stream has done all work up to a position.
    pub(crate) fn host_saw(&mut self, stream: Handle, seq: Seq) {
        let Some(watched) = &mut self.watched else { return };
        if let Some(known) = watched.events.get(&(stream, seq)).or(watched.streams.get(&stream)) {
            watched.host.add(known);
        }
        lock(&watched.races).set_host(&watched.host);
    }

    /// The host has seen that all work of a device, or of all, is done.
    pub(crate) fn host_saw_all(&mut self, of: impl Fn(&Stream) -> bool) {
        let Some(watched) = &mut self.watched else { return };
        for (handle, known) in &watched.streams {
            // A stream that was destroyed has done its work.
            if self.streams.get(*handle).map_or(true, &of) {
                watched.host.add(known);
            }
        }
        let mut races = lock(&watched.races);
        races.set_host(&watched.host);
        if self.streams.iter().all(|(_, stream)| of(stream) && stream.queue.is_empty()) {
            races.settle();
            watched.events.clear();
        }
    }

    /// Reports what the detector has found since the last time.
    pub(crate) fn report_races(&mut self) {
        let Some(watched) = &mut self.watched else { return };
        let found = lock(&watched.races).take();
        if self.scheduler.is_none() {
            found.iter().for_each(|race| self.config.races.report(race));
        }
        watched.found.extend(found);
    }
}
