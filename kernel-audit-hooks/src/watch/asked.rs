//! Runs work in another thread of this process, in a signal handler. Only one thread at a time is asked, and
//! no other one answers: a thread that takes the signal late finds that it's no longer asked.

use std::ffi::{c_int, c_void};
use std::mem::{self, MaybeUninit};
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use crate::watch::process::locked::Locked;
use crate::watch::process::{fork, system};

/// Called in the asked thread with its registers. Must be async-signal-safe, and use little stack.
pub(crate) type Work = fn(&libc::ucontext_t);

/// The asked thread's id, or one of these.
static STATE: AtomicU32 = AtomicU32::new(IDLE);
const IDLE: u32 = 0;
/// The asked thread is working. Until it's done, no other one is asked.
const WORKING: u32 = u32::MAX;
const ANSWERED: u32 = u32::MAX - 1;

/// The asked thread's [`Work`].
static WORK: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

/// Held by the thread that asks.
static ASKS: Locked<()> = Locked::new();

/// Resets the state in a forked child, where the asked thread doesn't exist.
fn forked() {
    STATE.store(IDLE, Ordering::Relaxed);
}

/// Runs `work` in a thread of this process, and returns the result of `read` afterwards. `None` on timeout.
/// The signal must have been [taken](take), and the thread must not block it.
pub(crate) fn ask<T>(
    signal: c_int,
    thread: u32,
    work: Work,
    within: Duration,
    read: impl FnOnce() -> T,
) -> Option<T> {
    // The program may have replaced all handlers. Without ours, the signal could end it.
    if handler(signal) != Some(handler_of_ours()) {
        return None;
    }
    let _asks = ASKS.lock();
    let free = |state| STATE.compare_exchange(state, WORKING, Ordering::Acquire, Ordering::Relaxed).is_ok();
    if !free(IDLE) && !free(ANSWERED) {
        return None;
    }
    WORK.store(work as *mut c_void, Ordering::Relaxed);
    STATE.store(thread, Ordering::Release);
    // SAFETY: the signal has our handler. If the thread has ended, the call fails.
    let sent = unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), thread as libc::pid_t, signal) };
    let asked = Instant::now();
    while sent == 0 && STATE.load(Ordering::Acquire) != ANSWERED {
        match within.checked_sub(asked.elapsed()).filter(|left| !left.is_zero()) {
            Some(left) => wait(left),
            None => break,
        }
    }
    let gives_up = STATE.compare_exchange(thread, IDLE, Ordering::Relaxed, Ordering::Acquire);
    if gives_up != Err(ANSWERED) {
        return None;
    }
    let answer = read();
    STATE.store(IDLE, Ordering::Release);
    Some(answer)
}

/// Waits until the asked thread changes the state, or this time is over.
fn wait(left: Duration) {
    let state = STATE.load(Ordering::Relaxed);
    if state == ANSWERED {
        return;
    }
    let left = libc::timespec { tv_sec: left.as_secs() as libc::time_t, tv_nsec: left.subsec_nanos().into() };
    // SAFETY: the word is static, and the time is read during the call.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            STATE.as_ptr(),
            libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG,
            state,
            &raw const left,
        );
    }
}

/// A signal that the program doesn't use, once it was looked for.
pub(crate) type Taken = OnceLock<Option<c_int>>;

/// Installs our handler for the first of these signals that the program doesn't use and that can be sent.
/// It's never removed, because the signal may arrive late.
pub(crate) fn take(taken: &Taken, signals: impl IntoIterator<Item = c_int>) -> Option<c_int> {
    let choose = || {
        fork::in_child(forked);
        signals.into_iter().find(|signal| {
            if handler(*signal) != Some(libc::SIG_DFL) {
                return false;
            }
            // SAFETY: zeros are valid, and mean an empty set of signals.
            let mut action = unsafe { MaybeUninit::<libc::sigaction>::zeroed().assume_init() };
            action.sa_sigaction = handler_of_ours();
            // No SA_ONSTACK: an alternate stack can be too small, while the thread's own has room for driver
            // calls. SA_NODEFER: a thread that blocks the signal would count as one that uses it.
            action.sa_flags = libc::SA_RESTART | libc::SA_SIGINFO | libc::SA_NODEFER;
            // SAFETY: the handler is async-signal-safe.
            let is_ours = unsafe { libc::sigaction(*signal, &action, ptr::null_mut()) == 0 };
            is_ours && can_be_sent(*signal)
        })
    };
    fork::undivided(|| *taken.get_or_init(choose))
}

/// Returns whether a signal with our handler can be sent. qemu accepts handlers for some that can't.
fn can_be_sent(signal: c_int) -> bool {
    let now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    let mut only = MaybeUninit::uninit();
    // SAFETY: the signal has our handler, which does nothing, because this thread isn't asked. If this thread
    // blocks the signal, it's consumed here. The set is initialized before it's read.
    unsafe {
        let this = system::thread_number() as libc::pid_t;
        let sent = libc::syscall(libc::SYS_tgkill, libc::getpid(), this, signal) == 0;
        libc::sigemptyset(only.as_mut_ptr());
        libc::sigaddset(only.as_mut_ptr(), signal);
        if sent {
            libc::sigtimedwait(only.as_ptr(), ptr::null_mut(), &now);
        }
        sent
    }
}

/// Returns the handler of a signal in this process.
fn handler(signal: c_int) -> Option<libc::sighandler_t> {
    let mut action = MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: the call changes nothing. `action` is initialized if it succeeds.
    unsafe {
        (libc::sigaction(signal, ptr::null(), action.as_mut_ptr()) == 0)
            .then(|| action.assume_init().sa_sigaction)
    }
}

fn handler_of_ours() -> libc::sighandler_t {
    answer as extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) as libc::sighandler_t
}

extern "C" fn answer(_: c_int, _: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: this is the address of the thread's `errno`, which the interrupted code may read next.
    let (errno, error) = unsafe { (libc::__errno_location(), *libc::__errno_location()) };
    let this = system::thread_number();
    if STATE.compare_exchange(this, WORKING, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
        // SAFETY: the asking thread has stored the function before this thread's id.
        let work: Work = unsafe { mem::transmute(WORK.load(Ordering::Relaxed)) };
        // SAFETY: Linux passes the registers of the interrupted thread.
        work(unsafe { &*context.cast::<libc::ucontext_t>() });
        STATE.store(ANSWERED, Ordering::Release);
        // SAFETY: the word is static.
        unsafe {
            libc::syscall(libc::SYS_futex, STATE.as_ptr(), libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG, 1);
        }
    }
    // SAFETY: as above.
    unsafe { *errno = error };
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;
    use std::sync::mpsc;
    use std::thread;

    use super::*;
    use crate::watch::caller::unwind::Registers;

    static WHERE: AtomicU64 = AtomicU64::new(0);

    #[test]
    fn a_signal_that_is_taken_arrives() {
        static TAKEN: Taken = OnceLock::new();
        let signals = || (libc::SIGRTMIN() + 8..libc::SIGRTMAX()).rev();
        let signal = thread::spawn(move || {
            let mut blocked = MaybeUninit::uninit();
            // SAFETY: the set is filled in before it is read.
            unsafe {
                libc::sigfillset(blocked.as_mut_ptr());
                libc::pthread_sigmask(libc::SIG_SETMASK, blocked.as_ptr(), ptr::null_mut());
                let signal = take(&TAKEN, signals());
                libc::sigpending(blocked.as_mut_ptr());
                assert_eq!(libc::sigismember(blocked.as_ptr(), signal.unwrap()), 0, "nothing is left behind");
                signal.unwrap()
            }
        });
        let signal = signal.join().unwrap();
        static ARRIVED: AtomicU32 = AtomicU32::new(0);
        let work: Work = |_| ARRIVED.store(1, Ordering::Relaxed);
        let (number, is) = mpsc::channel();
        let runs = thread::spawn(move || {
            number.send(system::thread_number()).unwrap();
            while ARRIVED.load(Ordering::Relaxed) == 0 {
                std::hint::spin_loop();
            }
        });
        assert_eq!(ask(signal, is.recv().unwrap(), work, Duration::from_secs(5), || 1), Some(1));
        runs.join().unwrap();
    }

    #[test]
    fn one_thread_answers_and_one_that_is_gone_does_not() {
        static TAKEN: Taken = OnceLock::new();
        let signal = take(&TAKEN, [libc::SIGURG]).unwrap();
        let (number, is) = mpsc::channel();
        let runs = thread::spawn(move || {
            number.send(system::thread_number()).unwrap();
            while WHERE.load(Ordering::Relaxed) == 0 {
                std::hint::spin_loop();
            }
        });
        let thread = is.recv().unwrap();
        let work: Work = |context| WHERE.store(Registers::interrupted(context).sp, Ordering::Relaxed);
        let second = Duration::from_secs(5);
        let answered = ask(signal, thread, work, second, || WHERE.load(Ordering::Relaxed));
        assert!(answered.is_some_and(|sp| sp > 0));
        runs.join().unwrap();
        assert_eq!(ask(signal, thread, work, second, || ()), None);
    }
}
