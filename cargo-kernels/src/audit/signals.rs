//! Signals to this command while the program runs. It outlives them, and reports on the program.
//!
//! A terminal sends SIGINT (Ctrl-C) to the program and to this command. The program may do with it what it likes; but a call of the driver
//! that hangs keeps many from doing anything. So the second one within a moment ends the program.

use std::fs;
use std::process;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};

/// The program, for signals to it; 0 before it runs.
static PROGRAM: AtomicI32 = AtomicI32::new(0);

/// Signals that end a program which has no handler for them.
const ENDING: [libc::c_int; 5] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGUSR1, libc::SIGUSR2];

/// When Ctrl-C was pressed last, in milliseconds; 0 for never.
static INTERRUPTED: AtomicU64 = AtomicU64::new(0);

/// The longest time between the two, in milliseconds.
const MOMENT: u64 = 3000;

/// Whether Ctrl-C has ended the program.
static HAS_ENDED_IT: AtomicBool = AtomicBool::new(false);

/// Keeps this process alive when a signal ends the program, which is then reported. What a supervisor sends to this process is passed on.
/// The program inherits no handlers.
pub(super) fn outlive() {
    extern "C" fn handle(signal: libc::c_int) {
        let program = PROGRAM.load(Ordering::Relaxed);
        let kill = |signal| {
            if program > 0 {
                // SAFETY: the call is allowed in a handler; the program has not been waited for.
                unsafe { libc::kill(program, signal) };
            }
        };
        if signal != libc::SIGINT {
            return kill(signal);
        }
        let now = now();
        let before = INTERRUPTED.swap(now, Ordering::Relaxed);
        if before > 0 && now - before <= MOMENT {
            HAS_ENDED_IT.store(true, Ordering::Relaxed);
            kill(libc::SIGKILL);
        }
    }
    for signal in ENDING {
        // SAFETY: the handler only makes calls that are allowed there.
        unsafe { libc::signal(signal, handle as extern "C" fn(libc::c_int) as libc::sighandler_t) };
    }
    // The program's children come to this process when it ends.
    // SAFETY: it sets a flag of this process.
    unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1) };
}

/// Milliseconds of a clock that never goes back.
fn now() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: there is room for a time, and the call is allowed in a handler.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_sec.cast_unsigned() * 1000 + time.tv_nsec.cast_unsigned() / 1_000_000
}

/// The program runs: it gets what is passed on.
pub(super) fn program_runs(number: u32) {
    PROGRAM.store(number.cast_signed(), Ordering::Relaxed);
}

/// The program has ended: signals are for this process again, which may have much to write. If Ctrl-C has ended the program, its
/// children are ended too, and it returns true.
pub(super) fn program_has_ended() -> bool {
    PROGRAM.store(0, Ordering::Relaxed);
    // SAFETY: it restores what happens by default.
    ENDING.into_iter().for_each(|signal| unsafe { _ = libc::signal(signal, libc::SIG_DFL) });
    let has_ended_it = HAS_ENDED_IT.load(Ordering::Relaxed);
    if has_ended_it {
        end_children();
    }
    has_ended_it
}

/// Ends the processes whose parents have ended, until there are none.
fn end_children() {
    let path = format!("/proc/{0}/task/{0}/children", process::id());
    loop {
        let children = fs::read_to_string(&path).unwrap_or_default();
        let children: Vec<libc::pid_t> =
            children.split_whitespace().filter_map(|number| number.parse().ok()).collect();
        if children.is_empty() {
            return;
        }
        for child in children {
            // SAFETY: it is a child of this process that has not been waited for.
            unsafe {
                libc::kill(child, libc::SIGKILL);
                libc::waitpid(child, std::ptr::null_mut(), 0);
            }
        }
    }
}
