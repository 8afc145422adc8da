//! Makes calls of Linux that have a function in glibc only since 2.27 or 2.30, because the hooks also run with older
//! versions of glibc.

use std::ffi::{CStr, c_int};
use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::FromRawFd;
use std::time::Duration;

unsafe extern "C" {
    fn pthread_setcancelstate(state: c_int, before: *mut c_int) -> c_int;
}

/// Keeps a thread from being cancelled until this is dropped. The program's function may not be one that a pending cancellation
/// ends, and a Rust function that can't unwind would abort.
pub(crate) struct NoCancel(c_int);

impl NoCancel {
    pub(crate) fn new() -> Self {
        const DISABLE: c_int = 1;
        let mut before = 0;
        // SAFETY: the call stores a number.
        unsafe { pthread_setcancelstate(DISABLE, &mut before) };
        NoCancel(before)
    }

    /// Calls `act`, in which the thread can be cancelled if it could be before.
    pub(crate) fn except<T>(self, act: impl FnOnce() -> T) -> (T, Self) {
        drop(self);
        (act(), NoCancel::new())
    }
}

impl Drop for NoCancel {
    fn drop(&mut self) {
        // SAFETY: the state is the one that the thread had.
        unsafe { pthread_setcancelstate(self.0, &mut 0) };
    }
}

/// Returns the number of this thread. May be called in the handler of a signal.
pub(crate) fn thread_number() -> u32 {
    // SAFETY: the call returns a number.
    unsafe { libc::syscall(libc::SYS_gettid) as u32 }
}

/// Returns how long a thread of this process has been on a processor. While it is on one, the time grows with each call. May be called in the handler of a signal.
pub(crate) fn processor_time(thread: u32) -> Option<Duration> {
    // Linux makes the number of a thread's clock so. glibc makes the same from its own handle of a thread.
    const OF_THREAD: libc::clockid_t = 6;
    let clock = !(thread as libc::clockid_t) << 3 | OF_THREAD;
    let mut time = MaybeUninit::uninit();
    // SAFETY: `time` has room for the answer, which is filled in if the call succeeds. Linux refuses a thread that is gone.
    let time = unsafe { (libc::clock_gettime(clock, time.as_mut_ptr()) == 0).then(|| time.assume_init()) };
    time.map(|time: libc::timespec| Duration::new(time.tv_sec as u64, time.tv_nsec as u32))
}

/// Returns the status of a descriptor. May be called in the handler of a signal.
pub(crate) fn status(descriptor: c_int) -> Option<libc::stat> {
    let mut status = MaybeUninit::uninit();
    // SAFETY: `status` has room for the answer, which is filled in if the call succeeds.
    unsafe { (libc::fstat(descriptor, status.as_mut_ptr()) == 0).then(|| status.assume_init()) }
}

/// Creates a file in memory, whose name shows in `/proc/self/maps`.
pub(crate) fn memory_file(name: &CStr) -> io::Result<File> {
    // SAFETY: the name ends with a zero.
    let descriptor = unsafe { libc::syscall(libc::SYS_memfd_create, name.as_ptr(), libc::MFD_CLOEXEC) };
    if descriptor < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new, and has no other owner.
    Ok(unsafe { File::from_raw_fd(descriptor as c_int) })
}
