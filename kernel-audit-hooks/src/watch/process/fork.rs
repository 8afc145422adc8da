//! Fork handlers. They reset the parent's state in the child, and delay a fork while another thread is in a
//! critical section that the child couldn't finish.

use std::cell::UnsafeCell;
use std::ffi::{c_int, c_void};
use std::mem;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Once, OnceLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::watch::process::system::thread_number;

/// Returns the number of forks between the first watched process and this process.
pub(crate) fn generation() -> u32 {
    GENERATION.load(Ordering::Relaxed)
}

static GENERATION: AtomicU32 = AtomicU32::new(0);

/// Functions to call in each child.
static RESETS: [OnceLock<fn()>; 12] = [const { OnceLock::new() }; 12];

/// Calls a function first thing in each child forked from now on. It isn't registered with glibc: before
/// 2.36, that waits for a thread that is forking, and the thread may wait for us.
pub(crate) fn in_child(reset: fn()) {
    let is_added = RESETS.iter().any(|entry| entry.set(reset).is_ok());
    assert!(is_added, "there's an entry for each");
}

/// Calls `act` as a critical section: forks of other threads wait until it ends. The child has only the
/// forking thread, so an `act` that was interrupted would never finish there.
pub(crate) fn undivided<T>(act: impl FnOnce() -> T) -> T {
    let this = thread_number();
    if OWNER.load(Ordering::Relaxed) == this {
        return act();
    }
    // Handlers run in reverse order of registration. This second registration comes after that of an
    // allocator linked to the program, so that a fork takes our lock first. Otherwise `act` could wait for an
    // allocator that the fork has locked.
    static AGAIN: AtomicBool = AtomicBool::new(false);
    if !AGAIN.load(Ordering::Relaxed) && !AGAIN.swap(true, Ordering::Relaxed) {
        register(before);
    }
    let _held = Held::new(this);
    act()
}

/// Returns a cell's value, which `make` initializes without a lock. If two threads do so, the first one wins.
pub(crate) fn once<T>(cell: &OnceLock<T>, make: impl FnOnce() -> T) -> &T {
    match cell.get() {
        Some(value) => value,
        None => {
            let value = make();
            undivided(|| cell.get_or_init(|| value))
        }
    }
}

/// Calls a function once in this process and the children forked from it. `Once` alone would hang a child that is forked while
/// another thread makes the call.
pub(crate) fn call_once(once: &Once, act: impl FnOnce()) {
    if !once.is_completed() {
        undivided(|| once.call_once(act));
    }
}

struct Lock(UnsafeCell<libc::pthread_mutex_t>);

// SAFETY: only the C library's functions for mutexes use it.
unsafe impl Sync for Lock {}

/// A pthread mutex and not Rust's, because the child unlocks what the parent has locked.
static LOCK: Lock = Lock(UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER));

/// The thread that has locked [`LOCK`], or 0.
static OWNER: AtomicU32 = AtomicU32::new(0);

/// How often a fork's handlers found [`LOCK`] locked by their own thread: because of the second registration,
/// or because the thread forks within [`undivided`].
static DEPTH: AtomicU32 = AtomicU32::new(0);

/// How long a fork that began before the second registration waits for [`LOCK`]. It may have locked an
/// allocator that the owner of [`LOCK`] is waiting for.
const PATIENCE: Duration = Duration::from_millis(100);

/// The thread that forks without [`LOCK`], or 0. `pthread_self` returns the same number in the child.
static IMPATIENT: AtomicUsize = AtomicUsize::new(0);

/// Whether this process was forked while another thread was in [`undivided`].
static IS_DIVIDED: AtomicBool = AtomicBool::new(false);

/// Returns whether the fork interrupted a critical section of another thread. Such a process can't be
/// watched.
pub(crate) fn is_divided() -> bool {
    IS_DIVIDED.load(Ordering::Relaxed)
}

struct Held;

impl Held {
    fn new(this: u32) -> Self {
        // SAFETY: the lock is initialized, never moves, and isn't held by this thread.
        unsafe { libc::pthread_mutex_lock(LOCK.0.get()) };
        OWNER.store(this, Ordering::Relaxed);
        Held
    }

    /// Returns `None` on timeout.
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

/// The handler that was registered first, and runs last. If [`before`] hasn't run, the fork is older than it.
extern "C" fn last_before() {
    let this = thread_number();
    if OWNER.load(Ordering::Relaxed) == this {
        return before();
    }
    if let Some(held) = Held::in_time(this) {
        return mem::forget(held);
    }
    // Only one thread at a time may fork without the lock.
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
        // SAFETY: the child has no other thread, so the lock's owner doesn't exist here.
        unsafe { LOCK.0.get().write(libc::PTHREAD_MUTEX_INITIALIZER) };
        return;
    }
    OWNER.store(thread_number(), Ordering::Relaxed);
    RESETS.iter().filter_map(OnceLock::get).for_each(|reset| reset());
    after_in_parent();
}

fn this_thread() -> usize {
    // SAFETY: the call returns a number.
    unsafe { libc::pthread_self() as usize }
}

unsafe extern "C" {
    /// Registers fork handlers, as `pthread_atfork` does. They're removed with their library.
    fn __register_atfork(
        before: extern "C" fn(),
        in_parent: extern "C" fn(),
        in_child: extern "C" fn(),
        library: *const c_void,
    ) -> c_int;
}

fn register(before: extern "C" fn()) {
    // Our handlers belong to no library, so they're never removed. Otherwise glibc would abort a process in
    // which one thread forks while another one exits.
    // SAFETY: the functions take no arguments, and the hooks are never unloaded.
    unsafe { __register_atfork(before, after_in_parent, after_in_child, ptr::null()) };
}

/// Registers the handlers at load time, before a fork can interrupt a critical section.
#[used]
#[unsafe(link_section = ".init_array")]
static AT_LOAD: extern "C" fn() = {
    extern "C" fn at_load() {
        register(last_before);
    }
    at_load
};
