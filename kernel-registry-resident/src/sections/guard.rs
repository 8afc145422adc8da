//! Defines `Guard`: while it exists, calls that would wait for its resident kernel are refused or delayed.

use std::mem;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use cudarc::driver::CudaStream;
use kernel_registry::__private_0_1::resident::{self as core, Family};

use super::ResidentGrid;
use super::frees::free_due;
use super::state::{Live, lock_state};

/// How long a new section waits for frees in progress. These only wait for kernels that aren't resident.
const FREES_TIMEOUT: Duration = Duration::from_millis(100);

/// Guards a resident kernel until the guard is dropped.
#[derive(Debug)]
pub(crate) struct Guard {
    /// The number of the kernel's section.
    number: u64,
}

/// Why a section didn't begin.
#[derive(Debug)]
pub(crate) enum NotBegun<E> {
    /// This library is loading or freeing in these contexts.
    Busy,
    /// The check returned this error.
    Refused(E),
}

impl Guard {
    /// Begins a section if `check` allows it. `check` gets the resident kernels that already run on the
    /// grid's multiprocessors. The lock is held during the check, so that two threads can't both use the last
    /// free room.
    pub(crate) fn begin<E>(
        within: Family,
        grid: ResidentGrid,
        check: impl FnOnce(&[ResidentGrid]) -> Result<(), E>,
    ) -> Result<Guard, NotBegun<E>> {
        let begun = Instant::now();
        let mut state = lock_state();
        while state.freeing.iter().any(|freeing| freeing.is_none_or(|freeing| freeing == within)) {
            if begun.elapsed() > FREES_TIMEOUT {
                return Err(NotBegun::Busy);
            }
            drop(state);
            thread::sleep(Duration::from_micros(50));
            state = lock_state();
        }
        check(&state.find_on(grid.on)).map_err(NotBegun::Refused)?;
        let number = core::begin(within, grid.kernel).ok_or(NotBegun::Busy)?;
        state.live.push(Live { number, within, grid });
        Ok(Guard { number })
    }

    /// Records that the kernel was launched in this stream, where every later launch waits for it.
    pub(crate) fn launched(&self, stream: &CudaStream) {
        core::launched(self.number, stream);
    }

    /// Keeps the guard until `has_ended` returns true, which a separate thread polls.
    pub(crate) fn outlive(self, has_ended: impl Fn() -> bool + Send + 'static) {
        const PAUSE: Duration = Duration::from_millis(2);
        let number = self.number;
        let thread = thread::Builder::new().name("kernel-registry".to_owned());
        let shared = Arc::new(Mutex::new(Some(has_ended)));
        let kept = shared.clone();
        let guarded = thread.spawn(move || {
            let has_ended = shared.lock().unwrap_or_else(PoisonError::into_inner).take();
            while has_ended.as_ref().is_some_and(|has_ended| !has_ended()) {
                thread::sleep(PAUSE);
            }
            // Dropped first, so that the audit makes its deferred calls before the guard allows new ones.
            drop(has_ended);
            drop(Guard { number });
        });
        // If no thread could be started, the kernel's end goes unnoticed, so it stays guarded forever. It stays so for the
        // audit, too, which makes its deferred calls when `has_ended` is dropped.
        match guarded {
            Ok(_) => drop(kept),
            Err(_) => mem::forget(kept),
        }
        mem::forget(self);
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        let mut state = lock_state();
        state.live.retain(|live| live.number != self.number);
        core::end(self.number);
        drop(state);
        free_due();
    }
}
