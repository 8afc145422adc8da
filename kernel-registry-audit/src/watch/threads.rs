//! Threads of the audit. They take no signals, which are meant for the program's own threads: one that is blocked there, for
//! `sigwait`, would end the program in a thread that does not block it.

use std::io;
use std::mem::MaybeUninit;
use std::ptr;
use std::thread;

/// Starts a thread that takes no signals.
pub(crate) fn start(work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let (mut all, mut before) = (MaybeUninit::uninit(), MaybeUninit::uninit());
    // SAFETY: both sets have room. The first is filled in before it is read.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
    }
    // A thread begins with the signals of the one that starts it.
    let started = thread::Builder::new().name("kernel-registry-audit".to_owned()).spawn(work);
    // SAFETY: the call above, which cannot fail, has filled it in.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), ptr::null_mut()) };
    started.map(drop)
}
