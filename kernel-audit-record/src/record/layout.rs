//! Lays out the bytes of a record. Fields that change while others read them are atomic.

use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

use super::slot::Slot;
use super::texts::LONGEST;

/// The first bytes of a record.
#[doc(hidden)]
pub const MAGIC: u64 = u64::from_le_bytes(*b"kr-audit");
/// The version of the format. A reader refuses other versions.
#[doc(hidden)]
pub const VERSION: u32 = 17;

/// The number of threads that can have a slot.
#[doc(hidden)]
pub const SLOTS: usize = 1024;
/// The number of samples that a record has room for.
#[doc(hidden)]
pub const SAMPLES: usize = 65_536;
/// The most events that a record can have room for.
#[doc(hidden)]
pub const MOST: u32 = 1 << 24;
/// The bytes of the largest record.
pub const LARGEST: u64 = size(MOST as usize) as u64;
/// The bytes for strings in a record.
#[doc(hidden)]
pub const STRINGS: usize = 4 << 20;

/// The header, with which the file begins.
#[repr(C)]
#[doc(hidden)]
pub struct Header {
    pub magic: AtomicU64,
    pub version: AtomicU32,
    pub process: AtomicU32,
    /// The start of the process in nanoseconds since 1970. Times of events count from here.
    pub started: AtomicU64,
    /// When the program was said to be ready, in nanoseconds since the start, or 0.
    pub ready: AtomicU64,
    /// The number of launches by threads that have ended.
    pub launches: AtomicU64,
    /// The number of calls by threads that have ended.
    pub calls: AtomicU64,
    /// The number of samples so far, also those that found no room.
    pub samples: AtomicU64,
    /// The number of threads that found no slot.
    pub unwatched_threads: AtomicU64,
    /// The number of launches in streams that found no room for samples.
    pub unsampled_launches: AtomicU64,
    /// The number of events so far, also those that found no room.
    pub events: AtomicU64,
    /// The number of events that the record has room for.
    pub room: AtomicU64,
    /// The number of bytes of strings so far, also those that found no room.
    pub strings: AtomicU64,
    /// The program's name and arguments.
    pub command: Text,
    /// The names of the functions in the table of hooks, a line for each. By them a reader names the call of a slot.
    pub functions: Text,
    /// The process's rank among the processes of its job, plus one; 0 if it has no rank.
    pub rank: AtomicU32,
    /// How the process ended: 0 if it did not say so, for instance because it was killed.
    pub ended: AtomicU32,
    /// Whether kernel-registry is in the process.
    pub uses_kernel_registry: AtomicU32,
    /// The devices on which the process made a context, a line for each: the ordinal, the compute capability such as
    /// `9.0`, and the name.
    pub devices: Text,
    /// A counter that grows as long as the process runs.
    pub beats: AtomicU64,
    /// The number of findings that found no room.
    pub dropped_findings: AtomicU64,
    /// The number of messages that could neither be written nor sent.
    pub unsaid: AtomicU64,
    /// Whether a thread of the audit could not be started.
    pub lacks_thread: AtomicU64,
    /// The number of events that were left out although their number is below `room`: slow calls, so that there is room
    /// for other events, and what the disk had no room for.
    pub left_out: AtomicU64,
    /// The number of slow calls that were only counted, because listing them takes too much of the program's time.
    pub unlisted: AtomicU64,
    /// The Python frames of the main thread while the process makes no calls: the innermost, and the user's.
    pub main_thread: Text,
    /// Of a worker that Python's multiprocessing started, the name and the arguments of the program.
    pub worker_of: Text,
}

/// A string in the record: the offset of its length, which its bytes follow. 0 means no string.
#[repr(transparent)]
#[derive(Default)]
#[doc(hidden)]
pub struct Text(pub AtomicU32);

const _: () = assert!(size_of::<Slot>() == 64);

/// How long a thread's call has been in progress, once that is long. The process's own thread writes it, so a call needs no clock. It is about
/// the call in the thread's slot if thread and number of calls are the same.
#[repr(C)]
#[doc(hidden)]
pub struct LongCall {
    pub thread: AtomicU32,
    pub sequence: AtomicU64,
    /// The time in nanoseconds.
    pub took: AtomicU64,
}

/// A sample: the number of kernels that were launched in a stream since the sample before.
#[repr(C)]
#[derive(Default)]
#[doc(hidden)]
pub struct Sample {
    /// The time in nanoseconds since the start; 0 while the sample is being written.
    pub at: AtomicU64,
    pub stream: AtomicU64,
    pub launches: AtomicU32,
    /// The kernel that was launched last.
    pub kernel: Text,
}

/// An event, with the fields of [`Event`](super::Event).
#[repr(C)]
#[derive(Default)]
#[doc(hidden)]
pub struct RawEvent {
    /// The [`Kind`](super::Kind), or 0 while the event is being written.
    pub kind: AtomicU16,
    pub is_finding: AtomicU8,
    /// Set once the hung call has returned, or the program has used the preloaded image.
    pub later: AtomicU8,
    pub thread: AtomicU32,
    pub begun: AtomicU64,
    pub took: AtomicU64,
    pub stream: AtomicU64,
    pub context: AtomicU64,
    pub result: AtomicU32,
    /// The [`Subject`](super::Subject)'s fields.
    pub subject: AtomicU16,
    pub code: AtomicU16,
    pub numbers: [AtomicU64; 2],
    pub texts: [Text; 3],
    pub call: Text,
    pub resident: Text,
    pub rule: Text,
    pub library: Text,
    pub caller: Text,
    pub stack: Text,
    /// Of a hang the bytes of its [`Explanation`](super::Explanation), of other events the text `reason`.
    pub details: Text,
}

/// The part of the file before its events, which follow as an array.
#[repr(C)]
#[doc(hidden)]
pub struct Layout {
    pub header: Header,
    pub slots: [Slot; SLOTS],
    pub long_calls: [LongCall; SLOTS],
    pub samples: [Sample; SAMPLES],
    pub strings: [u8; STRINGS],
}

/// Returns the bytes of a record with room for `room` events.
#[doc(hidden)]
pub const fn size(room: usize) -> usize {
    size_of::<Layout>() + room * size_of::<RawEvent>()
}

/// Writes a text into a record, cut off if it is very long. Returns the text's offset among the strings, or 0 if the
/// text is empty or there is no room. `has_room` says whether the strings can have so many bytes.
///
/// # Safety
///
/// `record` is a mapped record of this process.
#[doc(hidden)]
pub unsafe fn write(record: *const Layout, text: &[u8], has_room: impl Fn(usize) -> bool) -> u32 {
    if text.is_empty() {
        return 0;
    }
    let text = &text[..text.len().min(LONGEST)];
    let length = (text.len() as u32).to_le_bytes();
    let whole = (length.len() + text.len()) as u64;
    // SAFETY: the caller's promise; the header is made of atomics.
    let header = unsafe { &(*record).header };
    let at = header.strings.fetch_add(whole, Ordering::Relaxed);
    if at.saturating_add(whole) > STRINGS as u64 || !has_room((at + whole) as usize) {
        return 0;
    }
    // SAFETY: these bytes are inside the strings of the record, and no other thread was given them.
    unsafe {
        let start = (&raw const (*record).strings).cast::<u8>().cast_mut().add(at as usize);
        start.copy_from_nonoverlapping(length.as_ptr(), length.len());
        start.add(length.len()).copy_from_nonoverlapping(text.as_ptr(), text.len());
    }
    at as u32
}
