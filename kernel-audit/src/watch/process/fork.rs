//! Forks: what belongs to the parent starts anew in the child, and nothing is found there that another thread was in the middle of.

use std::cell::UnsafeCell;
use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use crate::watch::process::system::thread_number;

/// How many forks lie between the first watched process and this one.
pub(crate) fn generation() -> u32 {
    GENERATION.load(Ordering::Relaxed)
}

static GENERATION: AtomicU32 = AtomicU32::new(0);

/// What else is done in a child.
static RESETS: [OnceLock<fn()>; 8] = [const { OnceLock::new() }; 8];

/// Calls a function in each child that is forked from now on, before anything else runs there. The system is not told of it: before glibc 2.36 it would
/// wait for a thread that forks, which can wait for this one.
pub(crate) fn in_child(reset: fn()) {
    let is_kept = RESETS.iter().any(|place| place.set(reset).is_ok());
    assert!(is_kept, "there is a place for each");
}

/// Does something that no other thread's fork divides: a fork waits for its end. In the child it would never end.
pub(crate) fn undivided<T>(act: impl FnOnce() -> T) -> T {
    let this = thread_number();
    if OWNER.load(Ordering::Relaxed) == this {
        return act();
    }
    // What registers last is called first: before an allocator which the program was linked with, and which this waits for while a fork has locked it.
    static AGAIN: AtomicBool = AtomicBool::new(false);
    if !AGAIN.load(Ordering::Relaxed) && !AGAIN.swap(true, Ordering::Relaxed) {
        register();
    }
    let _held = Held::new(this);
    act()
}

/// Returns the value, and makes it if there is none. If two threads make one each, the first one counts.
pub(crate) fn once<T>(place: &OnceLock<T>, make: impl FnOnce() -> T) -> &T {
    match place.get() {
        Some(value) => value,
        None => {
            let value = make();
            undivided(|| place.get_or_init(|| value))
        }
    }
}

struct Lock(UnsafeCell<libc::pthread_mutex_t>);

// SAFETY: only the system's functions for locks use it.
unsafe impl Sync for Lock {}

/// Not a lock of Rust's library: the child unlocks what the parent has locked.
static LOCK: Lock = Lock(UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER));

/// The thread that has locked it, or 0.
static OWNER: AtomicU32 = AtomicU32::new(0);

/// How often the thread that forks was found to have locked it already: it is in the middle of something itself, or this is the second registration.
static DEPTH: AtomicU32 = AtomicU32::new(0);

struct Held;

impl Held {
    fn new(this: u32) -> Self {
        // SAFETY: the lock is initialized, stays where it is, and is not this thread's.
        unsafe { libc::pthread_mutex_lock(LOCK.0.get()) };
        OWNER.store(this, Ordering::Relaxed);
        Held
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
        std::mem::forget(Held::new(this));
    }
}

extern "C" fn after_in_parent() {
    let is_inside = |depth: u32| depth.checked_sub(1);
    if DEPTH.fetch_update(Ordering::Relaxed, Ordering::Relaxed, is_inside).is_err() {
        drop(Held);
    }
}

extern "C" fn after_in_child() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
    OWNER.store(thread_number(), Ordering::Relaxed);
    RESETS.iter().filter_map(OnceLock::get).for_each(|reset| reset());
    after_in_parent();
}

unsafe extern "C" {
    /// What `pthread_atfork` calls. At the end of a library its functions are taken back.
    fn __register_atfork(
        before: extern "C" fn(),
        in_parent: extern "C" fn(),
        in_child: extern "C" fn(),
        library: *const c_void,
    ) -> c_int;
}

fn register() {
    // For no library, so that they are never taken back: glibc would end a process in which one thread forks while another exits.
    // SAFETY: the functions are called without arguments, and stay where they are: the hooks are never unloaded.
    unsafe { __register_atfork(before, after_in_parent, after_in_child, ptr::null()) };
}

/// Before any call, and so before any fork that could divide one.
#[used]
#[unsafe(link_section = ".init_array")]
static AT_LOAD: extern "C" fn() = {
    extern "C" fn at_load() {
        register();
    }
    at_load
};
