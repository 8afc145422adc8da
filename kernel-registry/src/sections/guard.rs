//! The resident kernels of the process, and what may not happen beside them.

use std::mem;
use std::thread;
use std::time::{Duration, Instant};

use cudarc::driver::CudaStream;
use kernel_registry_cuda::rules::Rule;

use super::frees::free_due;
use super::state::{Live, state, take_one, would_wait};
use super::{Family, ResidentGrid, WouldWait, streams};

/// How long a section waits for frees that this library is making. They wait for kernels that run, but not for resident ones.
const MOMENT: Duration = Duration::from_millis(100);

/// Guards a resident kernel, until it is dropped.
#[derive(Debug)]
pub(crate) struct Guard {
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
    /// Begins a section if `check` allows it, which gets the resident kernels that are on these multiprocessors already.
    pub(crate) fn begin<E>(
        within: Family,
        grid: ResidentGrid,
        check: impl FnOnce(&[ResidentGrid]) -> Result<(), E>,
    ) -> Result<Guard, NotBegun<E>> {
        let begun = Instant::now();
        let mut state = state();
        loop {
            let frees = state.freeing.iter().any(|freeing| freeing.is_none_or(|freeing| freeing == within));
            if state.loading.contains(&within) || frees && begun.elapsed() > MOMENT {
                return Err(NotBegun::Busy);
            }
            if !frees {
                break;
            }
            drop(state);
            thread::sleep(Duration::from_micros(50));
            state = super::state::state();
        }
        check(&state.on(grid.on)).map_err(NotBegun::Refused)?;
        state.last += 1;
        let number = state.last;
        state.live.push(Live { number, within, grid, stream: None });
        Ok(Guard { number })
    }

    /// The kernel was launched in this stream: what follows there waits for it.
    pub(crate) fn launched(&self, stream: &CudaStream) {
        let mut state = state();
        if let Some(live) = state.live.iter_mut().find(|live| live.number == self.number) {
            live.stream = Some(stream.cu_stream().addr());
        }
        streams::set(state.streams());
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
        let mut state = state();
        state.live.retain(|live| live.number != self.number);
        streams::set(state.streams());
        drop(state);
        free_due();
    }
}

/// Refuses a call that waits for the kernels of these contexts, if a resident kernel is there.
pub(crate) fn refuse(within: Family, call: &'static str, rule: &Rule) -> Result<(), Box<WouldWait>> {
    let resident = state().within(within);
    resident.map_or(Ok(()), |resident| Err(would_wait(resident, call, rule)))
}

/// This library loads code in these contexts, until it is dropped: no section begins there.
#[derive(Debug)]
pub(crate) struct Loading(Family);

/// Begins to load, if no resident kernel is in these contexts.
pub(crate) fn loading(within: Family, call: &'static str, rule: &Rule) -> Result<Loading, Box<WouldWait>> {
    let mut state = state();
    if let Some(resident) = state.within(within) {
        return Err(would_wait(resident, call, rule));
    }
    state.loading.push(within);
    Ok(Loading(within))
}

impl Drop for Loading {
    fn drop(&mut self) {
        take_one(&mut state().loading, &self.0);
    }
}
