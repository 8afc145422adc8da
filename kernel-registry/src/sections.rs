//! Keeps loading and launching away from resident kernels. A section is the time in which a resident kernel runs;
//! kernel-registry-resident begins and ends it. During a section this library loads nothing in the section's contexts, and
//! launches nothing in the stream of the resident kernel.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

use cudarc::driver::{CudaContext, CudaStream};
use kernel_registry_cuda::rules::{self, Reader, Rule};
use kernel_registry_cuda::stream_mark;

use crate::driver::ContextId;
use crate::lock::lock;

/// The error for a call that would wait for a resident kernel, and therefore was not made.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WouldWait {
    /// The driver's function.
    pub call: &'static str,
    /// Why the call would wait.
    pub because: &'static str,
    /// How to avoid the wait.
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

/// A set of contexts in which loading and freeing wait for each other's kernels. The primary context of a device and the
/// contexts of the device's parts are one family. Every other context is a family alone. Loading, freeing, setting the stack
/// limit and synchronizing in one family do not wait for kernels of another family (H200, driver 580.159).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// The family of the primary context of the device with this number.
    Primary(usize),
    /// The family of the context with this id, which is not a primary context.
    Other(ContextId),
}

impl Family {
    /// Returns the family of a context.
    pub fn new(context: &CudaContext, id: ContextId) -> Self {
        if context.is_primary() { Family::Primary(context.ordinal()) } else { Family::Other(id) }
    }
}

/// A section that has begun and not ended.
struct Live {
    number: u64,
    within: Family,
    /// The path of the resident kernel.
    kernel: &'static str,
    /// The address of the resident kernel's stream, once the kernel is launched.
    stream: Option<usize>,
}

struct State {
    live: Vec<Live>,
    last: u64,
    /// The families in which this library is loading. A family occurs once for each load.
    loading: Vec<Family>,
}

static STATE: Mutex<State> = Mutex::new(State { live: Vec::new(), last: 0, loading: Vec::new() });

/// The marks (a bit each) of the streams in which resident kernels run. A launch reads only this word unless its stream's bit
/// is set.
static MARKS: AtomicU64 = AtomicU64::new(0);

fn state() -> MutexGuard<'static, State> {
    lock(&STATE)
}

impl State {
    /// Refuses a call that waits for the kernels of these contexts, if a resident kernel runs in them.
    fn refuse(&self, within: Family, call: &'static str, rule: &Rule) -> Result<(), Box<WouldWait>> {
        let mut residents = self.live.iter().filter(|live| live.within == within);
        residents.next().map_or(Ok(()), |live| Err(would_wait(live.kernel, call, rule)))
    }

    fn mark_streams(&self) {
        let streams = self.live.iter().filter_map(|live| live.stream);
        MARKS.store(streams.fold(0, |marks, stream| marks | stream_mark(stream as u64)), Ordering::Relaxed);
    }
}

fn would_wait(resident: &'static str, call: &'static str, rule: &Rule) -> Box<WouldWait> {
    Box::new(WouldWait {
        call,
        because: rule.because,
        remedy: rule.remedy_for(Reader::KernelRegistry),
        resident,
    })
}

/// Begins a section, and returns its number. Returns `None` if this library is loading in these contexts.
pub fn begin(within: Family, kernel: &'static str) -> Option<u64> {
    let mut state = state();
    if state.loading.contains(&within) {
        return None;
    }
    state.last += 1;
    let number = state.last;
    state.live.push(Live { number, within, kernel, stream: None });
    Some(number)
}

/// Records that the kernel of a section was launched in this stream. Everything launched in the stream later waits for the
/// kernel.
pub fn launched(number: u64, stream: &CudaStream) {
    let mut state = state();
    if let Some(live) = state.live.iter_mut().find(|live| live.number == number) {
        live.stream = Some(stream.cu_stream().addr());
    }
    state.mark_streams();
}

/// Ends a section.
pub fn end(number: u64) {
    let mut state = state();
    state.live.retain(|live| live.number != number);
    state.mark_streams();
}

/// Refuses a call that waits for the kernels of these contexts, if a resident kernel runs in them.
pub(crate) fn refuse(within: Family, call: &'static str, rule: &Rule) -> Result<(), Box<WouldWait>> {
    state().refuse(within, call, rule)
}

/// The mark that this library is loading code in these contexts. No section begins there until this is dropped.
#[derive(Debug)]
pub struct Loading(Family);

/// Begins to load. Refuses if a resident kernel runs in these contexts.
pub fn loading(within: Family, call: &'static str, rule: &Rule) -> Result<Loading, Box<WouldWait>> {
    let mut state = state();
    state.refuse(within, call, rule)?;
    state.loading.push(within);
    Ok(Loading(within))
}

impl Drop for Loading {
    fn drop(&mut self) {
        let mut state = state();
        if let Some(index) = state.loading.iter().position(|family| *family == self.0) {
            state.loading.swap_remove(index);
        }
    }
}

/// Refuses a launch in the stream of a resident kernel.
#[inline]
pub fn check_stream(stream: &CudaStream) -> Result<(), Box<WouldWait>> {
    let stream = stream.cu_stream().addr();
    if MARKS.load(Ordering::Relaxed) & stream_mark(stream as u64) == 0 {
        Ok(())
    } else {
        check_marked(stream)
    }
}

/// Checks a stream whose bit is set. Another stream can have the same bit.
#[cold]
fn check_marked(stream: usize) -> Result<(), Box<WouldWait>> {
    let state = state();
    let Some(live) = state.live.iter().find(|live| live.stream == Some(stream)) else { return Ok(()) };
    Err(would_wait(live.kernel, "cuLaunchKernelEx", &rules::BEHIND_RESIDENT))
}
