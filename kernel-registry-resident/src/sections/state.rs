//! Defines the state of the sections, which one lock guards: the resident kernels of the process, and the
//! delayed frees.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard};

use kernel_registry::__private_0_1::resident::{Family, lock};

use super::{Processors, ResidentGrid};

/// A resident kernel whose section has begun, but not ended.
pub(super) struct Live {
    /// The number of the kernel's section.
    pub(super) number: u64,
    pub(super) within: Family,
    pub(super) grid: ResidentGrid,
}

pub(super) struct State {
    pub(super) live: Vec<Live>,
    /// The contexts of this library's frees in progress; `None` is a free that waits for all contexts.
    pub(super) freeing: Vec<Option<Family>>,
    pub(super) delayed: VecDeque<Delayed>,
}

static STATE: Mutex<State> =
    Mutex::new(State { live: Vec::new(), freeing: Vec::new(), delayed: VecDeque::new() });

pub(super) fn lock_state() -> MutexGuard<'static, State> {
    lock(&STATE)
}

/// A free that is delayed until all sections in the contexts `within` have ended, or all sections if that's
/// `None`.
pub(super) struct Delayed {
    pub(super) within: Option<Family>,
    pub(super) free: Box<dyn FnOnce() + Send>,
}

impl State {
    /// Returns the resident kernels on any of these multiprocessors.
    pub(super) fn find_on(&self, processors: Processors) -> Vec<ResidentGrid> {
        let grids = self.live.iter().map(|live| live.grid);
        grids.filter(|grid| grid.on.overlap(processors)).collect()
    }
}

/// Returns the resident kernels on any of these multiprocessors.
pub(crate) fn residents(processors: Processors) -> Vec<ResidentGrid> {
    lock_state().find_on(processors)
}
