//! Handles signals to this command while the program runs, and waits for the program's end. The command outlives the
//! signals, and then reports on the program. The program gets the same signals as without the command.
//!
//! A terminal sends SIGINT (Ctrl-C) to the program and to this command. The program may handle it as it likes, but a
//! driver call that hangs keeps many programs from doing so. So once a hang was reported, the second Ctrl-C within a
//! moment ends the program. Signals that other processes send to this command are passed on. A signal that ends the
//! program ends this command, too: shells and service managers tell that from an exit code.

use std::fs;
use std::io;
use std::mem;
use std::os::unix::process::CommandExt;
use std::process::{self, Child, Command, ExitStatus};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};

use kernel_registry_command::terminal;

use crate::command::failure::Failure;

/// The number of the program's process, for signals to it; 0 while it does not run.
static PROGRAM: AtomicI32 = AtomicI32::new(0);

/// Signals that end a program which has no handler for them.
const ENDING: [libc::c_int; 6] =
    [libc::SIGINT, libc::SIGQUIT, libc::SIGTERM, libc::SIGHUP, libc::SIGUSR1, libc::SIGUSR2];

/// Whether a hang was reported, so that Ctrl-C twice ends the program.
static HANGS: AtomicBool = AtomicBool::new(false);

/// When Ctrl-C was pressed last, in milliseconds; 0 for never.
static INTERRUPTED: AtomicU64 = AtomicU64::new(0);

/// The longest time between two presses of Ctrl-C that end the program, in milliseconds.
const MOMENT: u64 = 3000;

/// Whether Ctrl-C has ended the program.
static CTRL_C_ENDED_PROGRAM: AtomicBool = AtomicBool::new(false);

/// Whether this process was started with SIGPIPE ignored, as services of systemd are. Rust's runtime ignores SIGPIPE
/// before `main`, but the programs that it starts do not inherit this.
static IGNORES_PIPES: AtomicBool = AtomicBool::new(false);

/// Sets [`IGNORES_PIPES`] before Rust's runtime ignores the signal.
#[used]
// SAFETY: `.init_array` holds functions without arguments, which are called once before `main`; this function needs nothing of Rust's runtime.
#[unsafe(link_section = ".init_array")]
static BEFORE_MAIN: extern "C" fn() = {
    extern "C" fn look() {
        IGNORES_PIPES.store(is_ignored(libc::SIGPIPE), Ordering::Relaxed);
    }
    look
};

/// The signals that were blocked before [`outlive`].
pub(crate) struct Blocked(libc::sigset_t);

/// Keeps this process alive when a signal ends the program, so that it can report. The program inherits no handlers; it
/// ignores and blocks the same signals as without this command. Signals are held back until the program runs.
pub(crate) fn outlive(command: &mut Command) -> Blocked {
    let ignores_children = is_ignored(libc::SIGCHLD);
    // SAFETY: zeros are an empty set, and an action without flags. The calls change the signals of this process; `handle` only makes calls that are
    // allowed in a handler.
    let blocked = unsafe {
        let (mut ours, mut blocked): (libc::sigset_t, libc::sigset_t) = (mem::zeroed(), mem::zeroed());
        for signal in ENDING.into_iter().filter(|signal| !is_ignored(*signal)) {
            let mut action: libc::sigaction = mem::zeroed();
            action.sa_sigaction = handle as extern "C" fn(_, _, _) as libc::sighandler_t;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
            libc::sigaction(signal, &action, ptr::null_mut());
            libc::sigaddset(&mut ours, signal);
        }
        // If SIGCHLD were ignored, nobody could wait for the program.
        libc::signal(libc::SIGCHLD, libc::SIG_DFL);
        libc::pthread_sigmask(libc::SIG_BLOCK, &ours, &mut blocked);
        blocked
    };
    let restore = move || {
        // SAFETY: the calls are allowed in a forked child, whose signals they change.
        unsafe {
            if ignores_children {
                libc::signal(libc::SIGCHLD, libc::SIG_IGN);
            }
            libc::pthread_sigmask(libc::SIG_SETMASK, &blocked, ptr::null_mut());
        }
        Ok(())
    };
    // SAFETY: `restore` makes no other calls than these.
    unsafe { command.pre_exec(restore) };
    inherit(command);
    Blocked(blocked)
}

/// Lets the program ignore SIGPIPE if this process was started so: Rust's standard library sets the default.
pub(crate) fn inherit(command: &mut Command) {
    if IGNORES_PIPES.load(Ordering::Relaxed) {
        let ignore = || {
            // SAFETY: the call is allowed in a forked child, whose signal it changes.
            unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
            Ok(())
        };
        // SAFETY: `ignore` makes no other call than this.
        unsafe { command.pre_exec(ignore) };
    }
}

extern "C" fn handle(signal: libc::c_int, info: *mut libc::siginfo_t, _context: *mut libc::c_void) {
    let program = PROGRAM.load(Ordering::Relaxed);
    let kill = |signal| {
        if program > 0 {
            // SAFETY: the call is allowed in a handler; the program has not been waited for.
            unsafe { libc::kill(program, signal) };
        }
    };
    // SAFETY: the operating system passes a description that lives during the call.
    let is_from_kernel = unsafe { (*info).si_code } == libc::SI_KERNEL;
    // A terminal sends signals that are typed in it to the program, too, so these signals are not passed on.
    if !is_from_kernel || ![libc::SIGINT, libc::SIGQUIT].contains(&signal) {
        return kill(signal);
    }
    if signal == libc::SIGQUIT {
        return;
    }
    if !HANGS.load(Ordering::Relaxed) {
        return;
    }
    let now = now();
    let before = INTERRUPTED.swap(now, Ordering::Relaxed);
    if before > 0 && now - before <= MOMENT {
        CTRL_C_ENDED_PROGRAM.store(true, Ordering::Relaxed);
        // From now on the program's orphaned children become children of this process.
        // SAFETY: the call is allowed in a handler, and sets a flag of this process.
        unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1) };
        kill(libc::SIGKILL);
    }
}

fn is_ignored(signal: libc::c_int) -> bool {
    // SAFETY: zeros are an action, and the call only replaces it by the action in force.
    unsafe {
        let mut action: libc::sigaction = mem::zeroed();
        libc::sigaction(signal, ptr::null(), &mut action);
        action.sa_sigaction == libc::SIG_IGN
    }
}

/// Returns the milliseconds of a clock that never goes back.
fn now() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` has room for the answer, and the call is allowed in a handler.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_sec.cast_unsigned() * 1000 + time.tv_nsec.cast_unsigned() / 1_000_000
}

/// Passes signals on to the program from now on, including signals that were held back.
pub(crate) fn program_runs(number: u32, Blocked(blocked): Blocked) {
    PROGRAM.store(number.cast_signed(), Ordering::Relaxed);
    // SAFETY: the call changes the signals of this thread.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &blocked, ptr::null_mut()) };
}

/// Lets Ctrl-C twice end the program from now on, because it hangs.
pub(crate) fn program_hangs() {
    HANGS.store(true, Ordering::Relaxed);
}

/// Ends this process by the signal that ended the program. Returns only in the first process of a container, which no signal
/// of its own ends.
pub(crate) fn end_by(signal: libc::c_int) -> Failure {
    let killed = Failure::Killed { signal };
    if process::id() != 1 {
        terminal::say(format_args!("error: {killed}"));
        let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: the calls change only this process, which is to end. The program has left a core dump if it should.
        unsafe {
            libc::setrlimit(libc::RLIMIT_CORE, &none);
            libc::signal(signal, libc::SIG_DFL);
            libc::raise(signal);
        }
    }
    killed
}

/// Waits for the program. If this process is the first of a container, orphaned processes become its children. It waits
/// for these, too, so that they do not remain as zombies.
pub(crate) fn wait(running: &mut Child) -> io::Result<ExitStatus> {
    loop {
        // SAFETY: zeros are an empty description, which the call fills in; `running` can still be waited for.
        let (result, number) = unsafe {
            let mut ended: libc::siginfo_t = mem::zeroed();
            let result = libc::waitid(libc::P_ALL, 0, &mut ended, libc::WEXITED | libc::WNOWAIT);
            (result, ended.si_pid())
        };
        if result == 0 && number.cast_unsigned() != running.id() {
            // SAFETY: the call takes numbers. Other threads that wait for a child treat ECHILD as its exit.
            unsafe { libc::waitpid(number, ptr::null_mut(), libc::WNOHANG) };
        } else if result == 0 || io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
            PROGRAM.store(0, Ordering::Relaxed);
            return running.wait();
        }
    }
}

/// Lets signals end this process again, which may have much to write after the program has ended. If Ctrl-C has ended
/// the program, ends its children, too, and returns true.
pub(crate) fn program_has_ended() -> bool {
    for signal in ENDING.into_iter().filter(|signal| !is_ignored(*signal)) {
        // SAFETY: the call restores the default action of the signal.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
    let by_ctrl_c = CTRL_C_ENDED_PROGRAM.load(Ordering::Relaxed);
    if by_ctrl_c {
        end_children();
    }
    by_ctrl_c
}

/// Ends the children of this process, which are orphans of the program, until there are none.
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
            // SAFETY: `child` is a child of this process that has not been waited for.
            unsafe {
                libc::kill(child, libc::SIGKILL);
                libc::waitpid(child, ptr::null_mut(), 0);
            }
        }
    }
}
