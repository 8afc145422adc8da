//! The driver of a process, its lock, and what becomes of it in a process that was forked.

use std::collections::BTreeSet;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::sync::{Mutex, MutexGuard, Once, OnceLock, PoisonError};

use super::config::Config;
use super::handles::Handle;
use super::result::{Answer, Code};
use super::state::State;

/// The driver of this process.
pub(super) struct Simulator {
    /// As in its configuration.
    pub(super) version: i32,
    state: Mutex<State>,
    /// What was said to be lacking.
    pub(super) said: Mutex<BTreeSet<&'static str>>,
}

pub(super) type Locked = MutexGuard<'static, State>;

static CONFIG: OnceLock<Config> = OnceLock::new();
static CURRENT: AtomicPtr<Simulator> = AtomicPtr::new(ptr::null_mut());

/// Somebody called `cuInit`.
static INITIALISED: AtomicBool = AtomicBool::new(false);

/// This process is the child of one in which somebody had.
static FORKED: AtomicBool = AtomicBool::new(false);

/// In a child of this process there is neither the thread that does the work nor whoever has a lock. NVIDIA's driver does not work
/// there if it was initialised before; otherwise everything begins anew.
extern "C" fn forked() {
    if INITIALISED.load(Ordering::Relaxed) {
        FORKED.store(true, Ordering::Relaxed);
    } else {
        CURRENT.store(ptr::null_mut(), Ordering::Relaxed);
    }
}

impl Simulator {
    /// Says what is simulated, if nobody has yet.
    pub(super) fn start(config: Config) {
        let _ = CONFIG.set(config);
        Simulator::get();
    }

    /// Whoever has an address of the driver's has installed it, or opened it as a library: then it is as the environment says.
    pub(super) fn get() -> &'static Simulator {
        static ONCE: Once = Once::new();
        // SAFETY: what is called in a child does nothing but store to atomics. The driver lasts as long as the process.
        unsafe {
            if let Some(simulator) = CURRENT.load(Ordering::Acquire).as_ref() {
                return simulator;
            }
            let config = Simulator::config();
            ONCE.call_once(|| _ = libc::pthread_atfork(None, None, Some(forked)));
            let new = Box::into_raw(Box::new(Simulator {
                version: config.version,
                state: Mutex::new(State::new(config.clone())),
                said: Mutex::default(),
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

    /// The driver, but not in a child of the process that has initialised it.
    pub(super) fn of_this_process() -> Answer<&'static Simulator> {
        if FORKED.load(Ordering::Relaxed) { Err(Code::NOT_INITIALIZED) } else { Ok(Simulator::get()) }
    }

    /// `cuInit` succeeded: no child of this process can use the driver.
    pub(super) fn note_initialised() {
        INITIALISED.store(true, Ordering::Relaxed);
    }

    /// The configuration of this process: as installed, or else as the environment says.
    pub(super) fn config() -> &'static Config {
        CONFIG.get_or_init(Config::from_environment)
    }

    pub(super) fn lock(&'static self) -> Locked {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What every function that needs `cuInit` begins with.
pub(super) fn begin() -> Answer<Locked> {
    let state = Simulator::of_this_process()?.lock();
    if state.initialised { Ok(state) } else { Err(Code::NOT_INITIALIZED) }
}

/// The same for what is about a stream, as the caller means it.
pub(super) fn begin_with(stream: Handle) -> Answer<(Locked, Handle)> {
    let mut state = begin()?;
    let stream = state.stream(stream)?;
    Ok((state, stream))
}

/// Waits for a change of the state, without its lock.
pub(super) fn wait_for_change(state: Locked) -> Locked {
    let wakeup = state.wakeup.clone();
    wakeup.wait(state)
}
