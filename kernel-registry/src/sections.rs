//! Sections: the time in which a resident kernel is on a device. Calls of this library that would wait for it are refused, and what
//! it frees is freed afterwards.

use std::fmt;
use std::mem;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use cudarc::driver::{CudaContext, CudaStream};
use kernel_registry_format::fit;
use kernel_registry_format::rules::{self, Rule};

use crate::driver::{ContextId, GreenId};
use crate::lock::lock;

/// A call that would wait for a resident kernel, and was not made.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WouldWait {
    /// The driver's function.
    pub call: &'static str,
    /// When it waits.
    pub because: &'static str,
    /// What prevents that.
    pub remedy: &'static str,
    /// The path of the resident kernel.
    pub resident: &'static str,
}

impl fmt::Display for WouldWait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let WouldWait { call, because, remedy, resident } = self;
        write!(f, "`{call}` would wait for `{resident}`, which is still on the device: {because}; {remedy}")
    }
}

impl std::error::Error for WouldWait {}

/// Contexts whose calls wait for each other's kernels: the primary context of a device with its parts, or any other context alone.
/// Calls in unrelated contexts of one device do not wait for each other's kernels (H200, driver 580.159).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    /// Of the device with this number.
    Primary(usize),
    Other(ContextId),
}

impl Family {
    pub(crate) fn of(context: &CudaContext, id: ContextId) -> Self {
        if context.is_primary() { Family::Primary(context.ordinal()) } else { Family::Other(id) }
    }
}

/// The multiprocessors on which a kernel stays: those of a device, or of a part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) device: usize,
    pub(crate) part: Option<GreenId>,
}

impl Place {
    /// Whether kernels in both can be on one multiprocessor.
    fn meets(self, other: Place) -> bool {
        let apart = self.part.zip(other.part).is_some_and(|(part, other)| part != other);
        self.device == other.device && !apart
    }
}

/// A resident kernel that is on a device.
struct Live {
    number: u64,
    within: Family,
    kernel: &'static str,
    place: Place,
    launch: fit::Launch,
    /// The driver's handle of its stream, once it is launched.
    stream: Option<usize>,
    /// Whether it has ended, asked of the driver; only if its section ended before.
    has_ended: Option<Box<dyn Fn() -> bool + Send>>,
}

#[derive(Default)]
struct State {
    live: Vec<Live>,
    last: u64,
    /// Where this library loads at the moment.
    loading: Vec<Family>,
    /// Where it frees.
    freeing: Vec<Option<Family>>,
    later: Vec<Later>,
}

/// What waits for the end of some sections, or of all.
struct Later {
    within: Option<Family>,
    free: Box<dyn FnOnce() + Send>,
}

static STATE: Mutex<State> = Mutex::new(State {
    live: Vec::new(),
    last: 0,
    loading: Vec::new(),
    freeing: Vec::new(),
    later: Vec::new(),
});

/// A bit for each stream of a resident kernel, and the lowest one while there is a section. A launch reads this word only.
static MARKS: AtomicU64 = AtomicU64::new(0);

const SECTION: u64 = 1;

/// The bit of a stream, never the lowest one.
fn mark(stream: usize) -> u64 {
    const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
    1 << ((stream as u64).wrapping_mul(SPREAD) >> 58).max(1)
}

/// Frees that this library is making when a section begins end soon, because nothing stays on the device yet.
const MOMENT: Duration = Duration::from_millis(100);

/// The right to have a resident kernel on a device, until it is dropped.
#[derive(Debug)]
pub(crate) struct Section {
    number: u64,
}

/// This library loads code in these contexts, so no section can begin there.
#[derive(Debug)]
pub(crate) struct Loads;

impl Section {
    /// Begins a section if `check` allows it, which gets the kernels that already stay there.
    pub(crate) fn begin<E: From<Loads>>(
        within: Family,
        place: Place,
        kernel: &'static str,
        launch: fit::Launch,
        check: impl FnOnce(&[Stays]) -> Result<(), E>,
    ) -> Result<Section, E> {
        let begun = Instant::now();
        let mut state = swept();
        while state.freeing.iter().any(|freeing| freeing.is_none_or(|freeing| freeing == within))
            && begun.elapsed() < MOMENT
        {
            drop(state);
            thread::sleep(Duration::from_micros(50));
            state = lock(&STATE);
        }
        if state.loading.contains(&within) {
            return Err(E::from(Loads));
        }
        check(&state.on_place(place))?;
        state.last += 1;
        let number = state.last;
        state.live.push(Live { number, within, kernel, place, launch, stream: None, has_ended: None });
        state.update_marks();
        Ok(Section { number })
    }

    /// The kernel was launched in this stream: what follows there waits for it.
    pub(crate) fn launched(&self, stream: &CudaStream) {
        let mut state = lock(&STATE);
        if let Some(live) = state.live.iter_mut().find(|live| live.number == self.number) {
            live.stream = Some(stream.cu_stream().addr());
        }
        state.update_marks();
    }

    /// Leaves the section as it is until the kernel has ended after all.
    pub(crate) fn abandon(self, has_ended: impl Fn() -> bool + Send + 'static) {
        let mut state = lock(&STATE);
        if let Some(live) = state.live.iter_mut().find(|live| live.number == self.number) {
            live.has_ended = Some(Box::new(has_ended));
        }
        drop(state);
        mem::forget(self);
    }
}

impl Drop for Section {
    fn drop(&mut self) {
        let ended = lock(&STATE).remove(|live| live.number == self.number);
        drop(ended);
        free_now();
    }
}

impl State {
    fn on_place(&self, place: Place) -> Vec<Stays> {
        let there = self.live.iter().filter(|live| live.place.meets(place));
        there.map(|live| Stays { kernel: live.kernel, launch: live.launch }).collect()
    }

    /// Takes out kernels that are no longer on the device.
    fn remove(&mut self, ended: impl Fn(&Live) -> bool) -> Vec<Live> {
        let (ended, live) = mem::take(&mut self.live).into_iter().partition(ended);
        self.live = live;
        self.update_marks();
        ended
    }

    fn update_marks(&self) {
        let streams = self.live.iter().filter_map(|live| live.stream).map(mark);
        let marks = if self.live.is_empty() { 0 } else { streams.fold(SECTION, |marks, mark| marks | mark) };
        MARKS.store(marks, Ordering::Relaxed);
    }

    /// A resident kernel in these contexts, or in any.
    fn on(&self, within: Option<Family>) -> Option<&'static str> {
        let on_it = |live: &&Live| within.is_none_or(|within| live.within == within);
        self.live.iter().find(on_it).map(|live| live.kernel)
    }
}

/// The state, without kernels that ended after their section.
fn swept() -> MutexGuard<'static, State> {
    loop {
        let mut state = lock(&STATE);
        let ended = state.remove(|live| live.has_ended.as_ref().is_some_and(|has_ended| has_ended()));
        if ended.is_empty() {
            return state;
        }
        // What they own is freed, which locks the state.
        drop(state);
        drop(ended);
        free_now();
    }
}

/// A kernel that stays, as far as it decides what fits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Stays {
    pub(crate) kernel: &'static str,
    pub(crate) launch: fit::Launch,
}

/// The kernels that stay on multiprocessors of this place.
pub(crate) fn residents(place: Place) -> Vec<Stays> {
    swept().on_place(place)
}

fn would_wait(resident: &'static str, call: &'static str, rule: &Rule) -> Box<WouldWait> {
    Box::new(WouldWait { call, because: rule.because, remedy: rule.remedy, resident })
}

/// Refuses a call that waits for the kernels of these contexts, if a resident kernel is there.
pub(crate) fn refuse(within: Family, call: &'static str, rule: &Rule) -> Result<(), Box<WouldWait>> {
    if MARKS.load(Ordering::Relaxed) == 0 {
        return Ok(());
    }
    let resident = swept().on(Some(within));
    resident.map_or(Ok(()), |resident| Err(would_wait(resident, call, rule)))
}

/// Says that this library loads code in these contexts, until the result is dropped. No section begins there meanwhile.
pub(crate) fn loading(within: Family, call: &'static str, rule: &Rule) -> Result<Loading, Box<WouldWait>> {
    let mut state = swept();
    if let Some(resident) = state.on(Some(within)) {
        return Err(would_wait(resident, call, rule));
    }
    state.loading.push(within);
    Ok(Loading(within))
}

/// See [`loading`].
#[derive(Debug)]
pub(crate) struct Loading(Family);

impl Drop for Loading {
    fn drop(&mut self) {
        take_one(&mut lock(&STATE).loading, &self.0);
    }
}

fn take_one<T: PartialEq>(all: &mut Vec<T>, one: &T) {
    if let Some(place) = all.iter().position(|other| other == one) {
        all.swap_remove(place);
    }
}

/// Refuses a launch in the stream of a resident kernel.
#[inline]
pub(crate) fn in_stream(stream: &CudaStream) -> Result<(), Box<WouldWait>> {
    let marks = MARKS.load(Ordering::Relaxed);
    if marks == 0 || marks & mark(stream.cu_stream().addr()) == 0 {
        return Ok(());
    }
    look(stream.cu_stream().addr())
}

#[cold]
fn look(stream: usize) -> Result<(), Box<WouldWait>> {
    let state = swept();
    let Some(live) = state.live.iter().find(|live| live.stream == Some(stream)) else { return Ok(()) };
    Err(would_wait(live.kernel, "cuLaunchKernelEx", &rules::BEHIND_RESIDENT))
}

/// Frees something now, or when no resident kernel is left in these contexts, or in any.
pub(crate) fn free(within: Option<Family>, free: impl FnOnce() + Send + 'static) {
    swept().later.push(Later { within, free: Box::new(free) });
    free_now();
}

/// Frees what no longer has to wait, in order.
fn free_now() {
    loop {
        let mut state = lock(&STATE);
        let State { live, later, freeing, .. } = &mut *state;
        let waits = |of: Option<Family>| live.iter().any(|live| of.is_none_or(|of| live.within == of));
        let (stay, go): (Vec<_>, Vec<_>) =
            mem::take(later).into_iter().partition(|later| waits(later.within));
        *later = stay;
        freeing.extend(go.iter().map(|go| go.within));
        drop(state);
        if go.is_empty() {
            return;
        }
        for Later { within, free } in go {
            free();
            take_one(&mut lock(&STATE).freeing, &within);
        }
    }
}
