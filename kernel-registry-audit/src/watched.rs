//! Each thread's call in progress, and what was launched last in each stream.

use std::cell::Cell;
use std::env;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use cudarc::driver::sys::CUresult;

use crate::record::{Kind, SLOTS, Slot};
use crate::recording::{By, Happening, nanoseconds, now, record, write_event};
use crate::variables::SLOW_MS;
use crate::{caller, contexts, ready};

/// Calls that take longer are events, unless the variable says otherwise.
const SLOW: Duration = Duration::from_millis(10);

/// In a child that was forked: the parent's slot is not this thread's, and its launches are not the child's.
pub(crate) fn forked() {
    THREAD.with(|thread| thread.slot.set(ptr::null()));
    STREAMS.iter().for_each(|last| last.launches.store(0, Ordering::Relaxed));
}

/// A thread's slot, which it gives back when it ends.
struct Thread {
    slot: Cell<*const Slot>,
}

thread_local! {
    static THREAD: Thread = const { Thread { slot: Cell::new(ptr::null()) } };
}

impl Drop for Thread {
    fn drop(&mut self) {
        let slot = self.slot.get();
        if slot.is_null() || ptr::eq(slot, &NOBODY) {
            return;
        }
        // SAFETY: slots are in the record, which is never unmapped.
        let slot = unsafe { &*slot };
        let header = &record().header;
        header.launches.fetch_add(slot.launches.swap(0, Ordering::Relaxed), Ordering::Relaxed);
        header.calls.fetch_add(slot.sequence.swap(0, Ordering::Relaxed), Ordering::Relaxed);
        slot.thread.store(0, Ordering::Release);
    }
}

/// The slot of threads that found none free. Nothing watches it.
// SAFETY: zeros are valid in a slot, which is made of atomics.
static NOBODY: Slot = unsafe { MaybeUninit::zeroed().assume_init() };

/// This thread's slot.
#[inline]
fn slot() -> &'static Slot {
    // While the thread ends, it has none.
    let slot = THREAD.try_with(|thread| thread.slot.get()).unwrap_or(&NOBODY);
    let slot = if slot.is_null() { enter() } else { slot };
    // SAFETY: slots are never freed.
    unsafe { &*slot }
}

#[cold]
fn enter() -> *const Slot {
    // SAFETY: it returns the thread's number.
    let number = unsafe { libc::gettid() }.unsigned_abs();
    let free =
        |slot: &&Slot| slot.thread.compare_exchange(0, number, Ordering::AcqRel, Ordering::Relaxed).is_ok();
    let slot = record().slots.iter().find(free).map_or(&raw const NOBODY, ptr::from_ref);
    let _ = THREAD.try_with(|thread| thread.slot.set(slot));
    slot
}

/// A call in progress.
#[derive(Clone, Copy)]
pub(crate) struct Call {
    /// Its number in the table of hooks.
    pub(crate) hook: u32,
    /// What it is about.
    pub(crate) subject: u64,
    pub(crate) stream: u64,
}

/// Makes a call, which is in progress meanwhile.
#[inline]
pub(crate) fn during(call: Call, real: impl FnOnce() -> CUresult) -> CUresult {
    let slot = slot();
    slot.subject.store(call.subject, Ordering::Relaxed);
    slot.stream.store(call.stream, Ordering::Relaxed);
    // A hook can be called by the driver behind, or by another hook.
    let outer = slot.call.swap(call.hook + 1, Ordering::Relaxed);
    let result = real();
    slot.call.store(outer, Ordering::Relaxed);
    slot.sequence.store(slot.sequence.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
    result
}

/// Counts a launch, and remembers which kernel was launched last in its stream.
#[inline]
pub(crate) fn launched(stream: u64, kernel: u64) {
    let slot = slot();
    slot.launches.store(slot.launches.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
    let hash = stream.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 54;
    for step in 0..16 {
        let Last { stream: place, kernel: last, thread, launches } =
            &STREAMS[(hash as usize + step) % STREAMS.len()];
        // The default stream is 0, so each handle is stored plus one.
        let found = place.load(Ordering::Relaxed);
        if found == stream + 1
            || found == 0
                && place.compare_exchange(0, stream + 1, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        {
            last.store(kernel, Ordering::Relaxed);
            thread.store(slot.thread.load(Ordering::Relaxed), Ordering::Relaxed);
            // Two threads that launch in one stream at once may lose a count.
            launches.store(launches.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
            return;
        }
    }
}

/// The last kernel of a stream.
struct Last {
    stream: AtomicU64,
    kernel: AtomicU64,
    thread: AtomicU32,
    launches: AtomicU32,
}

static STREAMS: [Last; 1024] = [const {
    Last {
        stream: AtomicU64::new(0),
        kernel: AtomicU64::new(0),
        thread: AtomicU32::new(0),
        launches: AtomicU32::new(0),
    }
}; 1024];

/// A stream in which kernels were launched.
#[derive(Clone, Copy)]
pub(crate) struct Stream {
    pub(crate) handle: u64,
    /// The last kernel, or 0 if the stream is gone.
    pub(crate) kernel: u64,
    /// The thread that launched it.
    pub(crate) thread: u32,
    /// Launches so far; the number wraps around.
    pub(crate) launches: u32,
}

/// Streams in which kernels were launched. Each has the same place for ever.
pub(crate) fn streams() -> impl Iterator<Item = (usize, Stream)> {
    let used = STREAMS.iter().enumerate().filter(|(_, last)| last.stream.load(Ordering::Relaxed) > 0);
    used.map(|(place, last)| {
        let handle = last.stream.load(Ordering::Relaxed) - 1;
        let kernel = last.kernel.load(Ordering::Relaxed);
        let [thread, launches] = [&last.thread, &last.launches].map(|word| word.load(Ordering::Relaxed));
        (place, Stream { handle, kernel, thread, launches })
    })
}

/// A stream was destroyed.
pub(crate) fn forget_stream(stream: u64) {
    let its = STREAMS.iter().filter(|last| last.stream.load(Ordering::Relaxed) == stream + 1);
    // The place stays taken, so that others behind it are still found: the kernel is what is forgotten.
    its.for_each(|last| last.kernel.store(0, Ordering::Relaxed));
}

/// Makes a call, and records it as slow if it was.
pub(crate) fn timed(call: Call, name: &str, real: impl FnOnce() -> CUresult) -> CUresult {
    let begun = now();
    let result = during(call, real);
    let took = now() - begun;
    if took >= slow() {
        event(Happening {
            kind: Kind::Slow,
            call,
            name,
            subject: "",
            image: "",
            bytes: 0,
            begun,
            took,
            result,
        });
    }
    result
}

fn slow() -> u64 {
    static SLOW_FROM: OnceLock<u64> = OnceLock::new();
    *SLOW_FROM.get_or_init(|| {
        let chosen = env::var(SLOW_MS).ok().and_then(|text| text.parse().ok());
        nanoseconds(chosen.map_or(SLOW, Duration::from_millis))
    })
}

/// Records an event of this thread, with its stack. Returns who called.
pub(crate) fn event(happening: Happening<'_>) -> String {
    let (caller, stack) = caller::caller();
    let thread = slot().thread.load(Ordering::Relaxed);
    let is_finding = ready::is_ready() && happening.kind != Kind::Slow;
    let by = By { thread, context: contexts::current(), caller: &caller, text: &stack };
    write_event(happening, by, is_finding);
    caller
}

/// The slots with a thread.
pub(crate) fn slots() -> impl Iterator<Item = (usize, &'static Slot)> {
    let slots = record().slots.iter().take(SLOTS).enumerate();
    slots.filter(|(_, slot)| slot.thread.load(Ordering::Relaxed) > 0)
}
