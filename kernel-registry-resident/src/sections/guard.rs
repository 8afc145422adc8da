//! A section, as a value: what may not happen beside its resident kernel.

use std::mem;
use std::thread;
use std::time::{Duration, Instant};

use cudarc::driver::CudaStream;
use kernel_registry::__private_0_1::resident::{self as core, Family};

use super::ResidentGrid;
use super::frees::free_due;
use super::state::{Live, lock_state};

/// How long a section waits for frees that this library is making. These wait for ordinary kernels only: no resident one is there.
const MOMENT: Duration = Duration::from_millis(100);

/// Guards a resident kernel, until it is dropped.
#[derive(Debug)]
pub(crate) struct Guard {
    /// The number of its section.
    number: u64,
}

/// Why no section begins.
#[derive(Debug)]
pub(crate) enum NotBegun<E> {
    /// This library loads or frees in these contexts.
    Busy,
    /// The check's error.
    Refused(E),
}

impl Guard {
    /// Begins a section if `check` allows it. `check` gets the resident kernels that are on these multiprocessors already. The lock is held meanwhile: two
    /// threads cannot both take the last room.
    pub(crate) fn begin<E>(
        within: Family,
        grid: ResidentGrid,
        check: impl FnOnce(&[ResidentGrid]) -> Result<(), E>,
    ) -> Result<Guard, NotBegun<E>> {
        let begun = Instant::now();
        let mut state = lock_state();
        while state.freeing.iter().any(|freeing| freeing.is_none_or(|freeing| freeing == within)) {
            if begun.elapsed() > MOMENT {
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

    /// The kernel was launched in this stream: what follows there waits for it.
    pub(crate) fn launched(&self, stream: &CudaStream) {
        core::launched(self.number, stream);
    }

    /// Polls `has_ended` in a thread, and ends the guard then.
    pub(crate) fn outlive(self, has_ended: impl Fn() -> bool + Send + 'static) {
        const PAUSE: Duration = Duration::from_millis(2);
        let number = self.number;
        let thread = thread::Builder::new().name("kernel-registry".to_owned());
        let guarded = thread.spawn(move || {
            while !has_ended() {
                thread::sleep(PAUSE);
            }
            drop(has_ended);
            drop(Guard { number });
        });
        // Without a thread the kernel stays guarded, because nobody knows when it ends.
        drop(guarded);
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
