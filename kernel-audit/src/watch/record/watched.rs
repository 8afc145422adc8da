//! Each thread's call in progress, and what was launched last in each stream.

use std::cell::Cell;
use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use cudarc::driver::sys::CUresult;

use crate::options::Audit;
use crate::record::{Kind, SLOTS, Slot};
use crate::watch::caller;
use crate::watch::caller::Caller;
use crate::watch::caller::unwind::Registers;
use crate::watch::hang::waits;
use crate::watch::known::contexts;
use crate::watch::process::{fork, system};
use crate::watch::record::call::{self, Call};
use crate::watch::record::recording::{self, NewEvent, nanoseconds, now, record, write_event};

/// In a forked child this thread has no slot yet, and nothing was launched.
pub(crate) fn forked() {
    SLOT.set(ptr::null());
    STREAMS.iter().for_each(|last| last.launches.store(0, Ordering::Relaxed));
}

thread_local! {
    /// This thread's slot, or null before its first call. It has no destructor, so reading it is one load, and needs no lock of the loader.
    static SLOT: Cell<*const Slot> = const { Cell::new(ptr::null()) };
}

/// Gives a thread's slot back when it ends.
unsafe extern "C" fn leave(_: *mut c_void) {
    // While the thread ends, it has none.
    let slot = SLOT.replace(&NOBODY);
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

/// Lets this thread give its slot back at its end. Destructors of Rust's thread-local values take the loader's lock.
fn leave_at_end() -> bool {
    static KEY: OnceLock<Option<libc::pthread_key_t>> = OnceLock::new();
    let make = || {
        let mut key = 0;
        // SAFETY: it stores a number, and the function stays where it is.
        (unsafe { libc::pthread_key_create(&mut key, Some(leave)) } == 0).then_some(key)
    };
    let key = fork::undivided(|| *KEY.get_or_init(make));
    // SAFETY: the key is there. Its value only has to be one.
    key.is_some_and(|key| unsafe { libc::pthread_setspecific(key, (&raw const NOBODY).cast()) } == 0)
}

/// The slot of threads that found none free. Nobody reads it.
// SAFETY: zeros are valid in a slot, which is made of atomics.
static NOBODY: Slot = unsafe { MaybeUninit::zeroed().assume_init() };

/// This thread's slot.
#[inline]
fn slot() -> &'static Slot {
    let slot = SLOT.get();
    let slot = if slot.is_null() { enter() } else { slot };
    // SAFETY: slots are never freed.
    unsafe { &*slot }
}

#[cold]
fn enter() -> *const Slot {
    let number = system::thread_number();
    let free =
        |slot: &&Slot| slot.thread.compare_exchange(0, number, Ordering::AcqRel, Ordering::Relaxed).is_ok();
    let mut slots = if leave_at_end() { record().slots.iter() } else { [].iter() };
    let slot = slots.find(free).map_or(&raw const NOBODY, ptr::from_ref);
    if ptr::eq(slot, &NOBODY) {
        record().header.unwatched_threads.fetch_add(1, Ordering::Relaxed);
    }
    SLOT.set(slot);
    slot
}

/// Makes a call, which is in progress meanwhile.
#[inline]
pub(crate) fn during<T>(call: Call, real: impl FnOnce() -> T) -> T {
    within(slot(), call, real)
}

/// Makes a call that loads the kernel which it is about.
pub(crate) fn during_load(call: Call, real: impl FnOnce() -> CUresult) -> CUresult {
    let slot = slot();
    slot.loads.store(1, Ordering::Relaxed);
    let result = within(slot, call, real);
    slot.loads.store(0, Ordering::Relaxed);
    result
}

/// Makes a launch, which is counted, and is in progress meanwhile.
#[inline]
pub(crate) fn launch(call: Call, real: impl FnOnce() -> CUresult) -> CUresult {
    let slot = slot();
    count(slot, call.stream, call.subject);
    within(slot, call, real)
}

#[inline]
fn within<T>(slot: &Slot, call: Call, real: impl FnOnce() -> T) -> T {
    slot.subject.store(call.subject, Ordering::Relaxed);
    slot.stream.store(call.stream, Ordering::Relaxed);
    // A hook can be called by the driver behind, or by another hook. Only this thread writes to its slot.
    let outer = slot.call.load(Ordering::Relaxed);
    let of_outer = (outer != 0).then(|| place(slot));
    set_place(slot, Registers::here());
    slot.call.store(call.hook + 1, Ordering::Relaxed);
    let result = real();
    slot.call.store(outer, Ordering::Relaxed);
    if let Some(place) = of_outer {
        set_place(slot, place);
    }
    increment(&slot.sequence);
    result
}

/// Says where a thread calls the driver.
#[inline]
fn set_place(slot: &Slot, Registers { pc, sp, fp }: Registers) {
    slot.pc.store(pc as u32, Ordering::Relaxed);
    slot.sp.store(sp, Ordering::Relaxed);
    slot.fp.store(fp as u32, Ordering::Relaxed);
}

/// Where a thread calls the driver. The code is in the same file as this, and what the frame pointer is needed for is in the same stack.
pub(crate) fn place(slot: &Slot) -> Registers {
    let near = |whole: u64, half: &AtomicU32| {
        let half = half.load(Ordering::Relaxed);
        whole.wrapping_add_signed(half.wrapping_sub(whole as u32).cast_signed().into())
    };
    let sp = slot.sp.load(Ordering::Relaxed);
    Registers { pc: near(Registers::here().pc, &slot.pc), sp, fp: near(sp, &slot.fp) }
}

/// Says that this thread's call gets on with something else: it does not hang.
pub(crate) fn get_on(with: u64) {
    slot().subject.store(with, Ordering::Relaxed);
}

#[inline]
fn increment(number: &AtomicU64) {
    number.store(number.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
}

/// Counts a launch, and remembers which kernel this thread launched last in the stream.
pub(crate) fn count_launch(stream: u64, kernel: u64) {
    count(slot(), stream, kernel);
}

#[inline]
fn count(slot: &Slot, stream: u64, kernel: u64) {
    increment(&slot.launches);
    if let Some(last) = last(slot, stream) {
        last.kernel.store(kernel, Ordering::Relaxed);
        last.thread.store(slot.thread.load(Ordering::Relaxed), Ordering::Relaxed);
        increment(&last.launches);
    } else {
        record().header.unsampled_launches.fetch_add(1, Ordering::Relaxed);
    }
}

/// What stands for a wait for a word in memory, in place of a kernel.
pub(crate) const WAIT: u64 = 1;

/// Remembers that a stream waits for a word in memory.
pub(crate) fn mark_waiting(stream: u64) {
    let slot = slot();
    if let Some(last) = last(slot, stream) {
        last.kernel.store(WAIT, Ordering::Relaxed);
        last.thread.store(slot.thread.load(Ordering::Relaxed), Ordering::Relaxed);
    }
}

/// The entry of a thread and a stream, if there is room for it.
#[inline]
fn last(slot: &Slot, stream: u64) -> Option<&'static Last> {
    // The default stream is 0, so each handle is stored plus one. Handles are addresses, which leave room for the thread.
    let key = (stream + 1) ^ (ptr::from_ref(slot).addr() as u64 / size_of::<Slot>() as u64) << HANDLE;
    let first = &STREAMS[index(key)];
    if first.key.load(Ordering::Relaxed) == key { Some(first) } else { find(key) }
}

fn index(key: u64) -> usize {
    (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 52) as usize
}

/// The entry of a key that is new, or not in the first place of its hash.
#[cold]
fn find(key: u64) -> Option<&'static Last> {
    let places = || (0..16).map(|step| &STREAMS[(index(key) + step) % STREAMS.len()]);
    places()
        .find(|last| last.key.load(Ordering::Relaxed) == key)
        .or_else(|| places().find(|last| last.take(key)))
}

/// Bits of a stream's handle.
const HANDLE: u32 = 48;

/// The last kernel that a thread launched in a stream, in a cache line that no other thread writes to.
#[repr(align(64))]
struct Last {
    /// The stream, and the thread's slot.
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

/// What stands for a destroyed stream, in place of a kernel.
const GONE: u64 = u64::MAX;

impl Last {
    /// Takes an entry that is free, or whose stream is gone. Only one thread succeeds.
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

    /// The stream, once there is one.
    fn stream(&self) -> Option<u64> {
        (self.key.load(Ordering::Relaxed) & ((1 << HANDLE) - 1)).checked_sub(1)
    }
}

/// A stream in which a thread launched kernels.
#[derive(Clone, Copy)]
pub(crate) struct Stream {
    pub(crate) handle: u64,
    /// The thread's last kernel there, or 0 if the stream is gone.
    pub(crate) kernel: u64,
    pub(crate) thread: u32,
    /// The thread's launches there so far.
    pub(crate) launches: u64,
}

/// Streams in which kernels were launched, once for each thread that did. An entry that another stream takes counts on.
pub(crate) fn streams() -> impl Iterator<Item = (usize, Stream)> {
    STREAMS.iter().enumerate().filter_map(|(place, last)| {
        let kernel = Some(last.kernel.load(Ordering::Relaxed)).filter(|kernel| *kernel != GONE).unwrap_or(0);
        let (thread, launches) = (last.thread.load(Ordering::Relaxed), last.launches.load(Ordering::Relaxed));
        Some((place, Stream { handle: last.stream()?, kernel, thread, launches }))
    })
}

/// A stream was destroyed.
pub(crate) fn forget_stream(stream: u64) {
    let its = STREAMS.iter().filter(|last| last.stream() == Some(stream));
    its.for_each(|last| last.kernel.store(GONE, Ordering::Relaxed));
}

/// Makes a call, and records it as slow if it was.
pub(crate) fn timed(call: Call, real: impl FnOnce() -> CUresult) -> CUresult {
    let (sequence, begun) = (sequence(), now());
    let result = during(call, real);
    let took = now() - begun;
    if took >= slow() {
        let wait = waits::take(thread(), sequence);
        let (rule, resident) = wait.as_ref().map_or((None, ""), |wait| (Some(wait.rule), &*wait.kernel));
        let event = NewEvent { kind: Kind::Slow, begun, took, result: result as u32, ..NewEvent::default() };
        record_event(call, NewEvent { rule, resident, ..event });
    }
    result
}

/// The time in nanoseconds from which calls are events.
pub(crate) fn slow() -> u64 {
    nanoseconds(Audit::chosen().slow)
}

/// Records an event of this thread, with its stack. Returns who called.
pub(crate) fn record_event(call: Call, event: NewEvent<'_>) -> Caller {
    let caller = caller::find(call::address(call.hook));
    let is_late = event.kind != Kind::Slow && recording::is_ready();
    write_event(NewEvent {
        call: call.name(),
        thread: thread(),
        stream: call.stream,
        context: contexts::current(),
        is_finding: event.is_finding || is_late,
        library: &caller.library,
        caller: &caller.name,
        text: &caller.stack,
        ..event
    });
    caller
}

/// How many calls this thread has made. Those in progress are not counted.
pub(crate) fn sequence() -> u64 {
    slot().sequence.load(Ordering::Relaxed)
}

/// The number of this thread, or 0 if no slot was free.
pub(crate) fn thread() -> u32 {
    slot().thread.load(Ordering::Relaxed)
}

/// The slots with a thread.
pub(crate) fn slots() -> impl Iterator<Item = (usize, &'static Slot)> {
    let slots = record().slots.iter().take(SLOTS).enumerate();
    slots.filter(|(_, slot)| slot.thread.load(Ordering::Relaxed) > 0)
}
