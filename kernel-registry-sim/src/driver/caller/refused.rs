//! Lets a system call fail in a thread of a test, as on a system that does not have it. The tests of the audit include this file, too.

use std::ffi::{c_int, c_long};
use std::{io, thread};

/// Runs a function in a thread in which this system call fails with this error, or does nothing if it is 0. Where there are no filters for system calls (qemu's user
/// mode), the function runs with the calls of that system.
pub(crate) fn in_thread(call: c_long, error: c_int, run: fn()) {
    let step = |code: u32, k: u32| libc::sock_filter { code: u16::try_from(code).unwrap(), jt: 0, jf: 1, k };
    let filter = [
        // The number of the system call is the first word.
        step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0),
        step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, u32::try_from(call).unwrap()),
        step(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ERRNO | error.cast_unsigned()),
        step(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW),
    ];
    let thread = thread::spawn(move || {
        let program = libc::sock_fprog { len: 4, filter: filter.as_ptr().cast_mut() };
        // SAFETY: the filter is for this thread only, and Linux copies it.
        let is_refused = unsafe {
            libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
            libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) == 0
        };
        if is_refused {
            // SAFETY: the call does not reach the system.
            let answer = unsafe { libc::syscall(call, 0, 0, 0, 0, 0, 0) };
            let failed = (answer != 0).then(|| io::Error::last_os_error().raw_os_error());
            assert_eq!(failed, (error != 0).then_some(Some(error)));
        } else {
            eprintln!("LEFT OUT: there are no filters for system calls here");
        }
        run();
    });
    thread.join().unwrap();
}
