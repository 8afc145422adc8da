//! The resident kernels of the process, and what waits for them, behind one lock.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard};

use kernel_registry_cuda::rules::Rule;

use super::{Family, Processors, ResidentGrid, WouldWait};
use crate::lock::lock;

/// A resident kernel that is on a device.
pub(super) struct Live {
    pub(super) number: u64,
    pub(super) within: Family,
    pub(super) grid: ResidentGrid,
    /// The driver's handle of its stream, once it is launched.
    pub(super) stream: Option<usize>,
}

pub(super) struct State {
    pub(super) live: Vec<Live>,
    pub(super) last: u64,
    /// Where this library loads at the moment.
    pub(super) loading: Vec<Family>,
    /// Where it frees.
    pub(super) freeing: Vec<Option<Family>>,
    pub(super) delayed: VecDeque<Delayed>,
}

static STATE: Mutex<State> = Mutex::new(State {
    live: Vec::new(),
    last: 0,
    loading: Vec::new(),
    freeing: Vec::new(),
    delayed: VecDeque::new(),
});

pub(super) fn state() -> MutexGuard<'static, State> {
    lock(&STATE)
}

/// A free that is delayed until the sections of these contexts, or of all, have ended.
pub(super) struct Delayed {
    pub(super) within: Option<Family>,
    pub(super) free: Box<dyn FnOnce() + Send>,
}

impl State {
    pub(super) fn on(&self, processors: Processors) -> Vec<ResidentGrid> {
        let grids = self.live.iter().map(|live| live.grid);
        grids.filter(|grid| grid.on.overlap(processors)).collect()
    }

    /// The driver's handles of the streams in which they run.
    pub(super) fn streams(&self) -> impl Iterator<Item = usize> {
        self.live.iter().filter_map(|live| live.stream)
    }

    /// The path of a resident kernel in these contexts.
    pub(super) fn within(&self, within: Family) -> Option<&'static str> {
        self.live.iter().find(|live| live.within == within).map(|live| live.grid.kernel)
    }
}

/// The resident kernels on any of these multiprocessors.
pub(crate) fn residents(processors: Processors) -> Vec<ResidentGrid> {
    state().on(processors)
}

/// The path of the resident kernel in this stream.
pub(super) fn in_stream(stream: usize) -> Option<&'static str> {
    state().live.iter().find(|live| live.stream == Some(stream)).map(|live| live.grid.kernel)
}

pub(super) fn would_wait(resident: &'static str, call: &'static str, rule: &Rule) -> Box<WouldWait> {
    Box::new(WouldWait { call, because: rule.because, remedy: rule.remedy_in(true), resident })
}

pub(super) fn take_one<T: PartialEq>(all: &mut Vec<T>, one: &T) {
    if let Some(place) = all.iter().position(|other| other == one) {
        all.swap_remove(place);
    }
}
