//! Keeps each thread's call in progress in the thread's slot of the record.

use std::cell::Cell;
use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use cudarc::driver::sys::CUresult;

use crate::record::{Entry, SLOTS, Slot};
use crate::watch::caller::unwind::Registers;
use crate::watch::process::{fork, system};
use crate::watch::record::call::Call;
use crate::watch::record::launches;
use crate::watch::record::recording::record;

/// Resets this thread's slot in a forked child, where the thread has no slot yet.
pub(crate) fn forked() {
    SLOT.set(ptr::null());
}

thread_local! {
    /// This thread's slot, or null before its first call. The value has no destructor, so reading it is one load, and
    /// needs no lock of the loader.
    static SLOT: Cell<*const Slot> = const { Cell::new(ptr::null()) };
}

/// Gives a thread's slot back when it ends.
unsafe extern "C" fn leave(_: *mut c_void) {
    // While the thread ends, it has no slot.
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

/// Lets this thread give its slot back at its end. A destructor of a thread-local value of Rust would take the loader's
/// lock.
fn leave_at_end() -> bool {
    static KEY: OnceLock<Option<libc::pthread_key_t>> = OnceLock::new();
    let make = || {
        let mut key = 0;
        // SAFETY: the call stores a number, and the function stays where it is.
        (unsafe { libc::pthread_key_create(&mut key, Some(leave)) } == 0).then_some(key)
    };
    let key = fork::undivided(|| *KEY.get_or_init(make));
    // SAFETY: the key was made above. The value must only not be null.
    key.is_some_and(|key| unsafe { libc::pthread_setspecific(key, (&raw const NOBODY).cast()) } == 0)
}

/// The slot of threads that found no free slot. Nobody reads it.
// SAFETY: zeros are valid in a slot, which is made of atomics.
static NOBODY: Slot = unsafe { MaybeUninit::zeroed().assume_init() };

/// Returns this thread's slot.
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

/// Makes a call, and records it as in progress until it returns.
#[inline]
pub(crate) fn during<T>(call: Call, real: impl FnOnce() -> T) -> T {
    within(slot(), call, false, real)
}

/// Makes a call that loads the kernel in `call`.
pub(crate) fn during_load(call: Call, real: impl FnOnce() -> CUresult) -> CUresult {
    within(slot(), call, true, real)
}

/// Makes a launch, counts it, and records it as in progress until it returns.
#[inline]
pub(crate) fn launch(call: Call, real: impl FnOnce() -> CUresult) -> CUresult {
    let slot = slot();
    launches::count(slot, call.stream, call.subject);
    within(slot, call, false, real)
}

#[inline]
fn within<T>(slot: &Slot, call: Call, loads: bool, real: impl FnOnce() -> T) -> T {
    let Registers { pc, sp, fp } = Registers::current();
    let outer = slot.begin(Entry {
        call: call.hook + 1,
        subject: call.subject,
        stream: call.stream,
        loads,
        pc: pc as u32,
        sp,
        fp: fp as u32,
    });
    let result = real();
    slot.end(outer);
    result
}

/// Returns from where a thread calls the driver. The slot has only the lower halves of `pc` and `fp`: the code is in
/// the same file as this function, and where the frame pointer is needed, it points into the same stack.
pub(crate) fn call_site(slot: &Slot) -> Registers {
    let near = |whole: u64, half: &AtomicU32| {
        let half = half.load(Ordering::Relaxed);
        whole.wrapping_add_signed(half.wrapping_sub(whole as u32).cast_signed().into())
    };
    let sp = slot.sp.load(Ordering::Relaxed);
    Registers { pc: near(Registers::current().pc, &slot.pc), sp, fp: near(sp, &slot.fp) }
}

/// Records that this thread's call makes progress, and so does not hang.
pub(crate) fn mark_progress(with: u64) {
    slot().mark_progress(with);
}

/// Counts a launch, and remembers which kernel this thread launched last in the stream.
pub(crate) fn count_launch(stream: u64, kernel: u64) {
    launches::count(slot(), stream, kernel);
}

/// Remembers that a stream waits for a word in memory.
pub(crate) fn mark_waiting(stream: u64) {
    launches::mark_waiting(slot(), stream);
}

/// Returns the number of calls that this thread has made, without calls in progress.
pub(crate) fn sequence() -> u64 {
    slot().sequence.load(Ordering::Relaxed)
}

/// Returns the number of this thread, or 0 if no slot was free.
pub(crate) fn thread() -> u32 {
    slot().thread.load(Ordering::Relaxed)
}

/// Returns the slots that belong to a thread.
pub(crate) fn slots() -> impl Iterator<Item = (usize, &'static Slot)> {
    let slots = record().slots.iter().take(SLOTS).enumerate();
    slots.filter(|(_, slot)| slot.thread.load(Ordering::Relaxed) > 0)
}
