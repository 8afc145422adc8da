//! The audit's own threads. They block all signals, because signals are meant for the program's threads. If
//! the program blocks a signal to receive it by `sigwait`, a thread of ours that didn't block it would get it,
//! and that would end the program.

use std::ffi::c_void;
use std::io;
use std::mem::MaybeUninit;
use std::panic::{self, AssertUnwindSafe};
use std::ptr;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// The stack size in bytes. Some of these threads call the driver.
const STACK: usize = 1 << 20;

/// Starts a thread that blocks all signals. It isn't a `std::thread`, because those first take the
/// loader's lock, which is held while a library's initializers run, and these may hang.
pub(crate) fn start(work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    extern "C" fn run<F: FnOnce()>(work: *mut c_void) -> *mut c_void {
        // SAFETY: `start` made the pointer from a box of this type, for this thread alone.
        let work = unsafe { Box::from_raw(work.cast::<F>()) };
        // SAFETY: the call names this thread. The name ends with a zero.
        unsafe { libc::prctl(libc::PR_SET_NAME, c"kernel-registry".as_ptr()) };
        let _ = panic::catch_unwind(AssertUnwindSafe(work));
        ptr::null_mut()
    }
    fn entry_point<F: FnOnce()>(_: &F) -> extern "C" fn(*mut c_void) -> *mut c_void {
        run::<F>
    }
    let run = entry_point(&work);
    let work = Box::into_raw(Box::new(work));
    let (mut all, mut before) = (MaybeUninit::uninit(), MaybeUninit::uninit());
    let (mut attributes, mut thread) = (MaybeUninit::uninit(), MaybeUninit::uninit());
    // SAFETY: all variables are initialized before they're read.
    let failed = unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_attr_init(attributes.as_mut_ptr());
        libc::pthread_attr_setstacksize(attributes.as_mut_ptr(), STACK);
        libc::pthread_attr_setdetachstate(attributes.as_mut_ptr(), libc::PTHREAD_CREATE_DETACHED);
        // A thread inherits the signal mask of the thread that starts it.
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
        let failed =
            libc::pthread_create(thread.as_mut_ptr(), attributes.as_ptr(), run, work.cast::<c_void>());
        libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), ptr::null_mut());
        libc::pthread_attr_destroy(attributes.as_mut_ptr());
        failed
    };
    if failed != 0 {
        // SAFETY: no thread was started, so the box is still ours.
        drop(unsafe { Box::from_raw(work) });
        return Err(io::Error::from_raw_os_error(failed));
    }
    Ok(())
}

/// Calls `ask` in its own thread, which is abandoned if it doesn't answer in time. This uses no channel of
/// Rust's library, because channels take the loader's lock, too.
pub(crate) fn answer<T: Send + 'static>(
    ask: impl FnOnce() -> T + Send + 'static,
    within: Duration,
) -> Option<T> {
    let shared = Arc::new((Mutex::new(None), Condvar::new()));
    let (answer, has_answered) = &*shared;
    let for_thread = shared.clone();
    start(move || {
        let answered = ask();
        *for_thread.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(answered);
        for_thread.1.notify_one();
    })
    .ok()?;
    let answer = answer.lock().unwrap_or_else(PoisonError::into_inner);
    let waited = has_answered.wait_timeout_while(answer, within, |answer| answer.is_none());
    waited.unwrap_or_else(PoisonError::into_inner).0.take()
}
