//! Remembers which kernel each thread launched last in each stream.

use std::ptr;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::record::Slot;
use crate::watch::record::recording::record;

/// Resets the counts in a forked child, where nothing was launched.
pub(crate) fn forked() {
    STREAMS.iter().for_each(|last| last.launches.store(0, Ordering::Relaxed));
}

/// Counts a launch of the thread with this slot, and remembers the kernel as the thread's last kernel in the stream.
#[inline]
pub(super) fn count(slot: &Slot, stream: u64, kernel: u64) {
    increment(&slot.launches);
    if let Some(last) = last(slot, stream) {
        last.kernel.store(kernel, Ordering::Relaxed);
        last.thread.store(slot.thread.load(Ordering::Relaxed), Ordering::Relaxed);
        increment(&last.launches);
    } else {
        record().header.unsampled_launches.fetch_add(1, Ordering::Relaxed);
    }
}

/// Replaces the kernel's handle if a stream waits for a word in memory.
pub(crate) const WAIT: u64 = 1;

/// Remembers that the thread with this slot lets a stream wait for a word in memory.
pub(super) fn mark_waiting(slot: &Slot, stream: u64) {
    if let Some(last) = last(slot, stream) {
        last.kernel.store(WAIT, Ordering::Relaxed);
        last.thread.store(slot.thread.load(Ordering::Relaxed), Ordering::Relaxed);
    }
}

/// Adds 1 to a number that only this thread writes.
#[inline]
fn increment(number: &AtomicU64) {
    number.store(number.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
}

/// Returns the entry of a thread and a stream, if there is room for it.
#[inline]
fn last(slot: &Slot, stream: u64) -> Option<&'static Last> {
    // The default stream is 0, so each handle is stored plus one. Handles are addresses, whose upper bits leave room for the thread's slot.
    let key = (stream + 1) ^ (ptr::from_ref(slot).addr() as u64 / size_of::<Slot>() as u64) << HANDLE;
    let first = &STREAMS[index(key)];
    if first.key.load(Ordering::Relaxed) == key { Some(first) } else { find(key) }
}

fn index(key: u64) -> usize {
    (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 52) as usize
}

/// Returns the entry of a key that is new, or that is not at the first index of its hash.
#[cold]
fn find(key: u64) -> Option<&'static Last> {
    let entries = || (0..16).map(|step| &STREAMS[(index(key) + step) % STREAMS.len()]);
    entries()
        .find(|last| last.key.load(Ordering::Relaxed) == key)
        .or_else(|| entries().find(|last| last.take(key)))
}

/// The number of bits of a stream's handle.
const HANDLE: u32 = 48;

/// The last kernel that a thread launched in a stream, in a cache line that no other thread writes to.
#[repr(align(64))]
struct Last {
    /// The stream and the thread's slot, in one number.
    key: AtomicU64,
    kernel: AtomicU64,
    thread: AtomicU32,
    launches: AtomicU64,
}

static STREAMS: [Last; 4096] = [const {
    Last {
        key: AtomicU64::new(0),
        kernel: AtomicU64::new(0),
        thread: AtomicU32::new(0),
        launches: AtomicU64::new(0),
    }
}; 4096];

/// Replaces the kernel's handle if the stream was destroyed.
const GONE: u64 = u64::MAX;

impl Last {
    /// Takes an entry for a key, if the entry is free or its stream is gone. Only one thread succeeds.
    fn take(&self, key: u64) -> bool {
        if self.key.compare_exchange(0, key, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            return true;
        }
        let is_taken = self.kernel.compare_exchange(GONE, 0, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        if is_taken {
            self.key.store(key, Ordering::Relaxed);
        }
        is_taken
    }

    /// Returns the stream, if the entry has one.
    fn stream(&self) -> Option<u64> {
        (self.key.load(Ordering::Relaxed) & ((1 << HANDLE) - 1)).checked_sub(1)
    }
}

/// A stream in which a thread launched kernels.
#[derive(Clone, Copy)]
pub(crate) struct Stream {
    pub(crate) handle: u64,
    /// The thread's last kernel in the stream, or 0 if the stream is gone.
    pub(crate) kernel: u64,
    pub(crate) thread: u32,
    /// The number of the thread's launches in the stream so far.
    pub(crate) launches: u64,
}

/// Returns the streams in which kernels were launched, once for each thread that launched there. An entry that another
/// stream takes goes on counting.
pub(crate) fn streams() -> impl Iterator<Item = (usize, Stream)> {
    STREAMS.iter().enumerate().filter_map(|(entry, last)| {
        let kernel = Some(last.kernel.load(Ordering::Relaxed)).filter(|kernel| *kernel != GONE).unwrap_or(0);
        let (thread, launches) = (last.thread.load(Ordering::Relaxed), last.launches.load(Ordering::Relaxed));
        Some((entry, Stream { handle: last.stream()?, kernel, thread, launches }))
    })
}

/// Remembers that a stream was destroyed.
pub(crate) fn forget_stream(stream: u64) {
    let its = STREAMS.iter().filter(|last| last.stream() == Some(stream));
    its.for_each(|last| last.kernel.store(GONE, Ordering::Relaxed));
}
