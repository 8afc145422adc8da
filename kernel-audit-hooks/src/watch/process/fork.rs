//! Handles forks: in the child, what belongs to the parent is reset, and nothing is left half done by another thread of
//! the parent.

use std::cell::UnsafeCell;
use std::ffi::{c_int, c_void};
use std::mem;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::watch::process::system::thread_number;

/// Returns the number of forks between the first watched process and this process.
pub(crate) fn generation() -> u32 {
    GENERATION.load(Ordering::Relaxed)
}

static GENERATION: AtomicU32 = AtomicU32::new(0);

/// The functions that are called in each child.
static RESETS: [OnceLock<fn()>; 12] = [const { OnceLock::new() }; 12];

/// Calls a function in each child that is forked from now on, before anything else runs there. The function is not
/// registered with glibc: before version 2.36, registering would wait for a thread that forks, which can wait for this
/// thread.
pub(crate) fn in_child(reset: fn()) {
    let is_kept = RESETS.iter().any(|entry| entry.set(reset).is_ok());
    assert!(is_kept, "there is an entry for each");
}

/// Calls `act` so that no other thread's fork divides it: a fork waits until `act` ends. In the child, a divided `act`
/// would never end.
pub(crate) fn undivided<T>(act: impl FnOnce() -> T) -> T {
    let this = thread_number();
    if OWNER.load(Ordering::Relaxed) == this {
        return act();
    }
    // The handler that is registered last is called first. The second registration comes after that of an allocator
    // which the program was linked with: `act` would wait for the allocator while a fork has locked it.
    static AGAIN: AtomicBool = AtomicBool::new(false);
    if !AGAIN.load(Ordering::Relaxed) && !AGAIN.swap(true, Ordering::Relaxed) {
        register(before);
    }
    let _held = Held::new(this);
    act()
}

/// Returns the value of a cell, and makes the value if there is none. If two threads make a value each, the first value
/// counts.
pub(crate) fn once<T>(cell: &OnceLock<T>, make: impl FnOnce() -> T) -> &T {
    match cell.get() {
        Some(value) => value,
        None => {
            let value = make();
            undivided(|| cell.get_or_init(|| value))
        }
    }
}

struct Lock(UnsafeCell<libc::pthread_mutex_t>);

// SAFETY: only the C library's functions for mutexes use it.
unsafe impl Sync for Lock {}

/// A mutex of the C library, and not of Rust's library, because the child unlocks what the parent has locked.
static LOCK: Lock = Lock(UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER));

/// The thread that has locked [`LOCK`], or 0.
static OWNER: AtomicU32 = AtomicU32::new(0);

/// How often the thread that forks was found to have locked [`LOCK`] already: the thread forks inside of [`undivided`],
/// or this is the second registration.
static DEPTH: AtomicU32 = AtomicU32::new(0);

/// How long a fork that began before the second registration waits for [`LOCK`]. The fork may have locked the allocator,
/// for which the owner of [`LOCK`] waits.
const PATIENCE: Duration = Duration::from_millis(100);

/// The thread that forks without [`LOCK`], or 0. `pthread_self` returns the same number in the child.
static IMPATIENT: AtomicUsize = AtomicUsize::new(0);

/// Whether this process was forked while another thread was inside of [`undivided`].
static IS_DIVIDED: AtomicBool = AtomicBool::new(false);

/// Returns whether another thread of the parent left something half done in this process. Such a process cannot be
/// watched.
pub(crate) fn is_divided() -> bool {
    IS_DIVIDED.load(Ordering::Relaxed)
}

struct Held;

impl Held {
    fn new(this: u32) -> Self {
        // SAFETY: the lock is initialized, stays where it is, and is not this thread's.
        unsafe { libc::pthread_mutex_lock(LOCK.0.get()) };
        OWNER.store(this, Ordering::Relaxed);
        Held
    }

    /// Returns `None` if the lock was not free in time.
    fn in_time(this: u32) -> Option<Self> {
        let end = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default() + PATIENCE;
        let end = libc::timespec { tv_sec: end.as_secs() as _, tv_nsec: end.subsec_nanos().into() };
        // SAFETY: as in `new`.
        (unsafe { libc::pthread_mutex_timedlock(LOCK.0.get(), &end) } == 0).then(|| {
            OWNER.store(this, Ordering::Relaxed);
            Held
        })
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        OWNER.store(0, Ordering::Relaxed);
        // SAFETY: this thread has locked it.
        unsafe { libc::pthread_mutex_unlock(LOCK.0.get()) };
    }
}

extern "C" fn before() {
    let this = thread_number();
    if OWNER.load(Ordering::Relaxed) == this {
        DEPTH.fetch_add(1, Ordering::Relaxed);
    } else {
        mem::forget(Held::new(this));
    }
}

/// The handler that was registered first, and so is called last. If [`before`] was not called, the fork began before the
/// second registration.
extern "C" fn last_before() {
    let this = thread_number();
    if OWNER.load(Ordering::Relaxed) == this {
        return before();
    }
    if let Some(held) = Held::in_time(this) {
        return mem::forget(held);
    }
    // Only one thread at a time forks without the lock.
    if IMPATIENT.compare_exchange(0, this_thread(), Ordering::Relaxed, Ordering::Relaxed).is_err() {
        before();
    }
}

extern "C" fn after_in_parent() {
    if IMPATIENT.compare_exchange(this_thread(), 0, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
        return;
    }
    let is_inside = |depth: u32| depth.checked_sub(1);
    if DEPTH.fetch_update(Ordering::Relaxed, Ordering::Relaxed, is_inside).is_err() {
        drop(Held);
    }
}

extern "C" fn after_in_child() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
    if IMPATIENT.swap(0, Ordering::Relaxed) == this_thread() {
        IS_DIVIDED.store(true, Ordering::Relaxed);
        OWNER.store(0, Ordering::Relaxed);
        DEPTH.store(0, Ordering::Relaxed);
        // SAFETY: the child has no other thread, and its parent's owner of the lock never unlocks it here.
        unsafe { LOCK.0.get().write(libc::PTHREAD_MUTEX_INITIALIZER) };
        return;
    }
    OWNER.store(thread_number(), Ordering::Relaxed);
    RESETS.iter().filter_map(OnceLock::get).for_each(|reset| reset());
    after_in_parent();
}

fn this_thread() -> usize {
    // SAFETY: the call only returns a number.
    unsafe { libc::pthread_self() as usize }
}

unsafe extern "C" {
    /// Registers handlers of forks, as `pthread_atfork` does. The handlers of a library are removed when the library
    /// ends.
    fn __register_atfork(
        before: extern "C" fn(),
        in_parent: extern "C" fn(),
        in_child: extern "C" fn(),
        library: *const c_void,
    ) -> c_int;
}

fn register(before: extern "C" fn()) {
    // The handlers belong to no library, so that they are never removed. Otherwise glibc would end a process in which
    // one thread forks while another exits.
    // SAFETY: the functions are called without arguments, and stay where they are: the hooks are never unloaded.
    unsafe { __register_atfork(before, after_in_parent, after_in_child, ptr::null()) };
}

/// Registers the handlers before any call, and so before any fork that could divide a call.
#[used]
#[unsafe(link_section = ".init_array")]
static AT_LOAD: extern "C" fn() = {
    extern "C" fn at_load() {
        register(last_before);
    }
    at_load
};
