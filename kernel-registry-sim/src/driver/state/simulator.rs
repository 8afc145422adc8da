//! Holds the driver of this process: its configuration, the lock of its state, and what happens after fork.

use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::sync::{Mutex, MutexGuard, Once, OnceLock, PoisonError};

use super::State;
use crate::driver::config::Config;
use crate::driver::handles::Handle;
use crate::driver::report::texts;
use crate::driver::result::{Answer, Code};

/// The simulated driver of this process.
pub(crate) struct Simulator {
    /// The CUDA version in the configuration.
    pub(crate) version: i32,
    state: Mutex<State>,
}

pub(crate) type Locked = MutexGuard<'static, State>;

static CONFIG: OnceLock<Config> = OnceLock::new();
static CURRENT: AtomicPtr<Simulator> = AtomicPtr::new(ptr::null_mut());

/// Whether `cuInit` was called.
static INITIALISED: AtomicBool = AtomicBool::new(false);

/// Whether this is a child process that was forked after `cuInit`.
static FORKED: AtomicBool = AtomicBool::new(false);

/// Runs in a child process after fork, which has neither the worker thread nor the threads that held locks. If the
/// driver was initialised before the fork, the child cannot use it, as with NVIDIA's driver. Otherwise the child gets a
/// new driver.
extern "C" fn forked() {
    if INITIALISED.load(Ordering::Relaxed) {
        FORKED.store(true, Ordering::Relaxed);
    } else {
        CURRENT.store(ptr::null_mut(), Ordering::Relaxed);
    }
}

impl Simulator {
    /// Sets the configuration, if there is none yet.
    pub(crate) fn start(config: Config) {
        let _ = CONFIG.set(config);
        Simulator::get();
    }

    /// Returns the driver. If the driver was opened as a library without an installation, the environment configures
    /// it.
    pub(crate) fn get() -> &'static Simulator {
        static ONCE: Once = Once::new();
        // SAFETY: `forked` only stores to atomics. The driver exists as long as the process.
        unsafe {
            if let Some(simulator) = CURRENT.load(Ordering::Acquire).as_ref() {
                return simulator;
            }
            let config = Simulator::config();
            ONCE.call_once(|| _ = libc::pthread_atfork(None, None, Some(forked)));
            let new = Box::into_raw(Box::new(Simulator {
                version: config.version,
                state: Mutex::new(State::new(config.clone())),
            }));
            match CURRENT.compare_exchange(ptr::null_mut(), new, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => &*new,
                Err(other) => {
                    drop(Box::from_raw(new));
                    &*other
                }
            }
        }
    }

    /// Returns the driver, or an error in a child process that was forked after `cuInit`.
    pub(crate) fn of_this_process() -> Answer<&'static Simulator> {
        if FORKED.load(Ordering::Relaxed) { Err(Code::NOT_INITIALIZED) } else { Ok(Simulator::get()) }
    }

    /// Returns whether the driver of this process was initialised.
    pub(crate) fn is_initialised() -> bool {
        INITIALISED.load(Ordering::Relaxed)
    }

    /// Notes that child processes that are forked from now on cannot use the driver.
    pub(crate) fn note_initialised() {
        INITIALISED.store(true, Ordering::Relaxed);
    }

    /// Returns the configuration of this process: the installed one, or otherwise the one from the environment.
    pub(crate) fn config() -> &'static Config {
        CONFIG.get_or_init(Config::from_environment)
    }

    pub(crate) fn lock(&'static self) -> Locked {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Locks the state for a driver function that requires `cuInit`.
pub(crate) fn begin() -> Answer<Locked> {
    let state = Simulator::of_this_process()?.lock();
    if state.initialised { Ok(state) } else { Err(Code::NOT_INITIALIZED) }
}

/// Locks the state for a driver function with a stream, and finds the stream that the caller's handle means.
pub(crate) fn begin_with(stream: Handle) -> Answer<(Locked, Handle)> {
    let mut state = begin()?;
    let stream = state.stream(stream)?;
    Ok((state, stream))
}

/// Waits for a change of the state, with its lock released. If kernels of this thread have printed, writes that
/// instead.
pub(crate) fn wait_for_change(state: Locked) -> Locked {
    let wakeup = state.wakeup.clone();
    let text = texts::take_own();
    if !text.is_empty() {
        drop(state);
        print!("{text}");
        return Simulator::get().lock();
    }
    wakeup.wait(state)
}
