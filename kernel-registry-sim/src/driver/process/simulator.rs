//! The driver of this process: its configuration, the lock of its state, and fork.

use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::sync::{Mutex, MutexGuard, Once, OnceLock, PoisonError};

use super::state::State;
use crate::driver::config::Config;
use crate::driver::handles::Handle;
use crate::driver::report::texts;
use crate::driver::result::{Answer, Code};

/// The driver of this process.
pub(crate) struct Simulator {
    /// The version in its configuration.
    pub(crate) version: i32,
    state: Mutex<State>,
}

pub(crate) type Locked = MutexGuard<'static, State>;

static CONFIG: OnceLock<Config> = OnceLock::new();
static CURRENT: AtomicPtr<Simulator> = AtomicPtr::new(ptr::null_mut());

/// Set by `cuInit`.
static INITIALISED: AtomicBool = AtomicBool::new(false);

/// Set in a child that was forked after `cuInit`.
static FORKED: AtomicBool = AtomicBool::new(false);

/// Runs in a forked child, which has neither the worker thread nor the threads that held locks. As with NVIDIA's
/// driver, the child cannot use a driver that was initialised before. Otherwise it gets a new one.
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

    /// The driver. If it was opened as a library and not installed, the environment configures it.
    pub(crate) fn get() -> &'static Simulator {
        static ONCE: Once = Once::new();
        // SAFETY: the function that is called in a child only stores to atomics. The driver lasts as long as the process.
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

    /// The driver, or an error in a child that was forked after `cuInit`.
    pub(crate) fn of_this_process() -> Answer<&'static Simulator> {
        if FORKED.load(Ordering::Relaxed) { Err(Code::NOT_INITIALIZED) } else { Ok(Simulator::get()) }
    }

    /// Notes that a forked child cannot use the driver from now on.
    pub(crate) fn note_initialised() {
        INITIALISED.store(true, Ordering::Relaxed);
    }

    /// The configuration of this process: as installed, or else as the environment says.
    pub(crate) fn config() -> &'static Config {
        CONFIG.get_or_init(Config::from_environment)
    }

    pub(crate) fn lock(&'static self) -> Locked {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Locks the state, for functions that need `cuInit` before.
pub(crate) fn begin() -> Answer<Locked> {
    let state = Simulator::of_this_process()?.lock();
    if state.initialised { Ok(state) } else { Err(Code::NOT_INITIALIZED) }
}

/// Locks the state for functions of a stream, and finds the stream that the caller's handle means.
pub(crate) fn begin_with(stream: Handle) -> Answer<(Locked, Handle)> {
    let mut state = begin()?;
    let stream = state.stream(stream)?;
    Ok((state, stream))
}

/// Waits for a change of the state, without its lock, and writes what kernels of the thread have printed.
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
