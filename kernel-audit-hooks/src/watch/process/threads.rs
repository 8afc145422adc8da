//! Starts threads of the audit. They take no signals, because signals are meant for the program's own threads. If the program
//! blocks a signal to take it by `sigwait`, that signal would otherwise reach a thread of the audit, and end the program.

use std::ffi::c_void;
use std::io;
use std::mem::MaybeUninit;
use std::panic::{self, AssertUnwindSafe};
use std::ptr;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// The bytes of a thread's stack. Threads of the audit call the driver, too.
const STACK: usize = 1 << 20;

/// Starts a thread that takes no signals. It is no thread of Rust's library: those first take the loader's lock, which
/// is held while a library's initializers run, and such an initializer can hang.
pub(crate) fn start(work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    extern "C" fn run<F: FnOnce()>(work: *mut c_void) -> *mut c_void {
        // SAFETY: `start` made the pointer of a box of this type, for this thread alone.
        let work = unsafe { Box::from_raw(work.cast::<F>()) };
        // SAFETY: the call reads the name, which ends with a zero, and is about this thread.
        unsafe { libc::prctl(libc::PR_SET_NAME, c"kernel-registry".as_ptr()) };
        let _ = panic::catch_unwind(AssertUnwindSafe(work));
        ptr::null_mut()
    }
    fn runs<F: FnOnce()>(_: &F) -> extern "C" fn(*mut c_void) -> *mut c_void {
        run::<F>
    }
    let run = runs(&work);
    let work = Box::into_raw(Box::new(work));
    let (mut all, mut before) = (MaybeUninit::uninit(), MaybeUninit::uninit());
    let (mut attributes, mut thread) = (MaybeUninit::uninit(), MaybeUninit::uninit());
    // SAFETY: all variables have room, and are filled in before they are read.
    let failed = unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_attr_init(attributes.as_mut_ptr());
        libc::pthread_attr_setstacksize(attributes.as_mut_ptr(), STACK);
        libc::pthread_attr_setdetachstate(attributes.as_mut_ptr(), libc::PTHREAD_CREATE_DETACHED);
        // A thread begins with the signal mask of the thread that starts it.
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
        let failed =
            libc::pthread_create(thread.as_mut_ptr(), attributes.as_ptr(), run, work.cast::<c_void>());
        libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), ptr::null_mut());
        libc::pthread_attr_destroy(attributes.as_mut_ptr());
        failed
    };
    if failed != 0 {
        // SAFETY: no thread has the box.
        drop(unsafe { Box::from_raw(work) });
        return Err(io::Error::from_raw_os_error(failed));
    }
    Ok(())
}

/// Calls `ask` in a thread of its own, which is left behind if it does not answer in time. The answer comes by no
/// channel of Rust's library, because channels take the loader's lock, too.
pub(crate) fn answer<T: Send + 'static>(
    ask: impl FnOnce() -> T + Send + 'static,
    within: Duration,
) -> Option<T> {
    let shared = Arc::new((Mutex::new(None), Condvar::new()));
    let (answer, has_answered) = &*shared;
    let its = shared.clone();
    start(move || {
        let answered = ask();
        *its.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(answered);
        its.1.notify_one();
    })
    .ok()?;
    let answer = answer.lock().unwrap_or_else(PoisonError::into_inner);
    let waited = has_answered.wait_timeout_while(answer, within, |answer| answer.is_none());
    waited.unwrap_or_else(PoisonError::into_inner).0.take()
}
