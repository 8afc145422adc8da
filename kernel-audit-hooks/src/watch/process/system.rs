//! Wrappers of system calls. Some bypass glibc's wrapper, which exists only since 2.27 or 2.30: the hooks
//! also run with older versions.

use std::ffi::{CStr, c_int};
use std::fmt::Display;
use std::fs::{self, File};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::FromRawFd;
use std::str::FromStr;
use std::time::Duration;

unsafe extern "C" {
    fn pthread_setcancelstate(state: c_int, before: *mut c_int) -> c_int;
}

/// Disables cancellation of the thread until it's dropped. The hooked function may not be a cancellation
/// point, and unwinding through a Rust function that can't unwind would abort.
pub(crate) struct NoCancel(c_int);

impl NoCancel {
    pub(crate) fn new() -> Self {
        const DISABLE: c_int = 1;
        let mut before = 0;
        // SAFETY: the call stores a number.
        unsafe { pthread_setcancelstate(DISABLE, &mut before) };
        NoCancel(before)
    }

    /// Calls `act` with cancellation as it was before.
    pub(crate) fn except<T>(self, act: impl FnOnce() -> T) -> (T, Self) {
        drop(self);
        (act(), NoCancel::new())
    }
}

impl Drop for NoCancel {
    fn drop(&mut self) {
        // SAFETY: the state is the thread's former one.
        unsafe { pthread_setcancelstate(self.0, &mut 0) };
    }
}

/// Returns this thread's id. Async-signal-safe.
pub(crate) fn thread_number() -> u32 {
    // SAFETY: the call returns a number.
    unsafe { libc::syscall(libc::SYS_gettid) as u32 }
}

/// Returns a thread's processor time. It grows with each call while the thread runs. Async-signal-safe.
pub(crate) fn processor_time(thread: u32) -> Option<Duration> {
    // Linux's encoding of a thread's clock: the inverted id, `CPUCLOCK_PERTHREAD_MASK` and `CPUCLOCK_SCHED`.
    // glibc has a function for it, but that takes a `pthread_t`.
    const OF_THREAD: libc::clockid_t = 6;
    let clock = !(thread as libc::clockid_t) << 3 | OF_THREAD;
    let mut time = MaybeUninit::uninit();
    // SAFETY: `time` is initialized if the call succeeds. Linux refuses a thread that has ended.
    let time = unsafe { (libc::clock_gettime(clock, time.as_mut_ptr()) == 0).then(|| time.assume_init()) };
    time.map(|time: libc::timespec| Duration::new(time.tv_sec as u64, time.tv_nsec as u32))
}

/// Returns a field of a process's `/proc/PID/stat`, counted from behind the name, which can contain spaces.
pub(crate) fn stat<T: FromStr>(process: impl Display, field: usize) -> Option<T> {
    let status = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    status.rsplit_once(')')?.1.split_whitespace().nth(field)?.parse().ok()
}

/// Returns how long ago this process was forked, to 10 ms. `None` if /proc isn't mounted.
pub(crate) fn age() -> Option<Duration> {
    const START: usize = 19;
    let ticks: u64 = stat("self", START)?;
    let mut now = MaybeUninit::uninit();
    // SAFETY: the first call returns a number, and `now` is initialized if the second one succeeds.
    let (each, now) = unsafe {
        let each = libc::sysconf(libc::_SC_CLK_TCK);
        (each, (libc::clock_gettime(libc::CLOCK_BOOTTIME, now.as_mut_ptr()) == 0).then(|| now.assume_init()))
    };
    let now: libc::timespec = now?;
    let each = u64::try_from(each).ok().filter(|each| *each > 0)?;
    let start =
        Duration::from_secs(ticks / each) + Duration::from_secs(1) * (ticks % each) as u32 / each as u32;
    Some(Duration::new(now.tv_sec as u64, now.tv_nsec as u32).saturating_sub(start))
}

/// Returns the status of a descriptor. Async-signal-safe.
pub(crate) fn status(descriptor: c_int) -> Option<libc::stat> {
    let mut status = MaybeUninit::uninit();
    // SAFETY: `status` is initialized if the call succeeds.
    unsafe { (libc::fstat(descriptor, status.as_mut_ptr()) == 0).then(|| status.assume_init()) }
}

/// Creates a file in memory. Its name is visible in `/proc/self/maps`.
pub(crate) fn memory_file(name: &CStr) -> io::Result<File> {
    // SAFETY: the name ends with a zero.
    let descriptor = unsafe { libc::syscall(libc::SYS_memfd_create, name.as_ptr(), libc::MFD_CLOEXEC) };
    if descriptor < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new, and has no other owner.
    Ok(unsafe { File::from_raw_fd(descriptor as c_int) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_young() {
        let (first, begun) = (age().unwrap(), std::time::Instant::now());
        std::thread::sleep(Duration::from_millis(50));
        let grown = age().unwrap() - first;
        assert!(first < Duration::from_secs(3600), "{first:?}");
        assert!(grown >= Duration::from_millis(50) && grown <= begun.elapsed(), "{grown:?}");
    }
}
