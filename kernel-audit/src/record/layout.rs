//! The bytes of a record. All that changes while others read is atomic.

#[cfg(feature = "watch")]
use std::sync::atomic::Ordering;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64};

#[cfg(feature = "watch")]
use super::texts::LONGEST;

/// The first bytes of a record.
pub(crate) const MAGIC: u64 = u64::from_le_bytes(*b"kr-audit");
/// The version of the format. A reader refuses others.
pub(crate) const VERSION: u32 = 9;

/// Threads that have a slot.
pub(crate) const SLOTS: usize = 1024;
/// Samples that have room.
pub(crate) const SAMPLES: usize = 65_536;
/// Events that a record has room for at most.
pub(crate) const MOST: u32 = 1 << 24;
/// Bytes of the largest record.
pub const LARGEST: u64 = size(MOST as usize) as u64;
/// Bytes of strings.
pub(crate) const STRINGS: usize = 4 << 20;

/// The beginning of the file.
#[repr(C)]
pub(crate) struct Header {
    pub(crate) magic: AtomicU64,
    pub(crate) version: AtomicU32,
    pub(crate) process: AtomicU32,
    /// The start in nanoseconds since 1970. Times of events count from here.
    pub(crate) started: AtomicU64,
    /// When the program was said to be ready, in nanoseconds since the start, or 0.
    pub(crate) ready: AtomicU64,
    /// Launches by threads that have ended.
    pub(crate) launches: AtomicU64,
    /// Calls by threads that have ended.
    pub(crate) calls: AtomicU64,
    /// Samples so far, also those that found no room.
    pub(crate) samples: AtomicU64,
    /// Threads that found no slot.
    pub(crate) unwatched_threads: AtomicU64,
    /// Launches in streams that found no room for samples.
    pub(crate) unsampled_launches: AtomicU64,
    /// Events so far, also those that found no room.
    pub(crate) events: AtomicU64,
    /// Events that have room.
    pub(crate) room: AtomicU64,
    /// Bytes of strings so far, also those that found no room.
    pub(crate) strings: AtomicU64,
    /// The program's name and arguments.
    pub(crate) command: Text,
    /// The process's rank among those that work together, plus one, or 0.
    pub(crate) rank: AtomicU32,
    /// How the process ended: 0 if it did not say.
    pub(crate) ended: AtomicU32,
    /// Whether kernel-registry is in the process.
    pub(crate) uses_kernel_registry: AtomicU32,
    /// Grows as long as the process runs.
    pub(crate) beats: AtomicU64,
    /// Findings that found no room.
    pub(crate) dropped_findings: AtomicU64,
    /// Messages that could neither be written nor sent.
    pub(crate) unsaid: AtomicU64,
    /// Whether a thread of the audit could not be started.
    pub(crate) lacks_thread: AtomicU64,
}

/// A string in the record: where its length stands, with the bytes behind it; 0 for none.
#[repr(transparent)]
#[derive(Default)]
pub(crate) struct Text(pub(crate) AtomicU32);

/// A thread, and the call that it is in.
#[repr(C, align(64))]
pub(crate) struct Slot {
    pub(crate) thread: AtomicU32,
    /// The number of the call in progress, counted from 1 in the table of hooks, or 0.
    pub(crate) call: AtomicU32,
    /// Counts calls. A call has not returned while neither this nor `call` changes.
    pub(crate) sequence: AtomicU64,
    /// The handle that the call is about: a kernel, a stream, an address.
    pub(crate) subject: AtomicU64,
    pub(crate) stream: AtomicU64,
    /// Launches by this thread.
    pub(crate) launches: AtomicU64,
    /// Whether the call loads the kernel that it is about.
    pub(crate) loads: AtomicU32,
    /// Where the call was made: the stack pointer, and of the instruction's address and the frame pointer the lower halves.
    pub(crate) pc: AtomicU32,
    pub(crate) sp: AtomicU64,
    pub(crate) fp: AtomicU32,
}

const _: () = assert!(size_of::<Slot>() == 64);

/// How many kernels were launched in a stream since the sample before.
#[repr(C)]
#[derive(Default)]
pub(crate) struct Sample {
    /// In nanoseconds since the start; 0 while it is being written.
    pub(crate) at: AtomicU64,
    pub(crate) stream: AtomicU64,
    pub(crate) launches: AtomicU32,
    /// The kernel that was launched last.
    pub(crate) kernel: Text,
}

/// An event, with the fields of [`Event`](super::Event).
#[repr(C)]
#[derive(Default)]
pub(crate) struct RawEvent {
    /// The [`Kind`](super::Kind), or 0 while the event is being written.
    pub(crate) kind: AtomicU16,
    pub(crate) is_finding: AtomicU8,
    /// Whether the call of a hang returned after all.
    pub(crate) has_returned: AtomicU8,
    pub(crate) thread: AtomicU32,
    pub(crate) begun: AtomicU64,
    pub(crate) took: AtomicU64,
    pub(crate) stream: AtomicU64,
    pub(crate) context: AtomicU64,
    pub(crate) bytes: AtomicU64,
    pub(crate) result: AtomicU32,
    pub(crate) call: Text,
    pub(crate) subject: Text,
    pub(crate) image: Text,
    pub(crate) origin: Text,
    pub(crate) resident: Text,
    pub(crate) rule: Text,
    pub(crate) remedy: Text,
    pub(crate) library: Text,
    pub(crate) caller: Text,
    pub(crate) text: Text,
}

/// The file up to its events, which are an array behind this.
#[repr(C)]
pub(crate) struct Layout {
    pub(crate) header: Header,
    pub(crate) slots: [Slot; SLOTS],
    pub(crate) samples: [Sample; SAMPLES],
    pub(crate) strings: [u8; STRINGS],
}

/// Bytes of a record with room for so many events.
pub(crate) const fn size(room: usize) -> usize {
    size_of::<Layout>() + room * size_of::<RawEvent>()
}

/// Writes a text into a record, cut off if it is very long, and returns its place; 0 if it is empty or there is no room.
///
/// # Safety
///
/// `record` is a mapped record of this process.
#[cfg(feature = "watch")]
pub(crate) unsafe fn write(record: *const Layout, text: &str) -> u32 {
    if text.is_empty() {
        return 0;
    }
    let text = &text.as_bytes()[..text.len().min(LONGEST)];
    let length = (text.len() as u32).to_le_bytes();
    let whole = (length.len() + text.len()) as u64;
    // SAFETY: the caller's promise; the header is made of atomics.
    let header = unsafe { &(*record).header };
    let at = header.strings.fetch_add(whole, Ordering::Relaxed);
    if at.saturating_add(whole) > STRINGS as u64 {
        return 0;
    }
    // SAFETY: these bytes are inside the strings of the record, and no other thread was given them.
    unsafe {
        let place = (&raw const (*record).strings).cast::<u8>().cast_mut().add(at as usize);
        place.copy_from_nonoverlapping(length.as_ptr(), length.len());
        place.add(length.len()).copy_from_nonoverlapping(text.as_ptr(), text.len());
    }
    at as u32
}
