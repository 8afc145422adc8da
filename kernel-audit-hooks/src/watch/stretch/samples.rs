//! Samples of the program's threads in a stretch. A tick's length is the time since the tick before.

use std::collections::HashMap;
use std::time::Duration;

use super::answer::{Position, Reader};
use super::threads::{SOON, Threads};
use crate::record::{Image, InProgress, Slot, Spending};
use crate::watch::known::handles;
use crate::watch::record::call;
use crate::watch::record::recording::now;
use crate::watch::record::slots;

/// Limits a stretch's distinct stacks, and its samples.
const STACKS: usize = 8192;
const SAMPLES: usize = 1 << 20;

/// Limits the threads that are asked per tick.
const THREADS: usize = 128;

/// The maximum length of a tick in nanoseconds. Until then, samples without any known position are skipped:
/// threads that wait for a processor don't move.
const LONGEST: u64 = 10_000_000;

pub(super) struct Stretch {
    pub(super) name: String,
    pub(super) number: u32,
    pub(super) begun: u64,
    /// The latest possible end.
    pub(super) ends: u64,
}

/// The activity of a thread, and its position.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Activity {
    pub(super) what: Spending,
    /// The driver call, as an index into the table of hooks.
    pub(super) call: Option<u32>,
    pub(super) position: Position,
}

impl Activity {
    fn is_known(&self) -> bool {
        self.call.is_some() || self.position != Position::default()
    }
}

/// The samples of a stretch.
#[derive(Default)]
pub(super) struct Samples {
    /// The time of the last tick.
    last: u64,
    /// The length of each tick in nanoseconds.
    pub(super) ticks: Vec<u32>,
    /// The ticks of each activity.
    pub(super) seen: HashMap<Activity, Vec<u32>>,
    count: usize,
    /// The nanoseconds of ticks that are incomplete, because a limit was reached.
    pub(super) lost: u64,
}

impl Samples {
    /// Creates the samples of a stretch that started at this time.
    pub(super) fn from(begun: u64) -> Self {
        Samples { last: begun, ..Samples::default() }
    }

    /// Shortens the last tick to end with the stretch, which took this many nanoseconds.
    pub(super) fn end(&mut self, took: u64) {
        let ticks: u64 = self.ticks.iter().map(|tick| u64::from(*tick)).sum();
        if let Some(last) = self.ticks.last_mut() {
            *last -= u32::try_from(ticks.saturating_sub(took)).unwrap_or(u32::MAX).min(*last);
        }
    }

    /// Takes a sample of all threads.
    pub(super) fn take(&mut self, reader: &mut Reader, threads: &mut Threads) {
        let seen = sample_threads(reader, threads);
        let time = now();
        let length = u32::try_from(time.saturating_sub(self.last)).unwrap_or(u32::MAX);
        let is_unknown = !seen.is_empty() && !seen.iter().any(Activity::is_known);
        if is_unknown && u64::from(length) < LONGEST {
            return;
        }
        (self.last, self.count) = (time, self.count + seen.len().max(1));
        let tick = self.ticks.len() as u32;
        self.ticks.push(length);
        let mut has_room = self.count < SAMPLES;
        for activity in if has_room { seen } else { Vec::new() } {
            if self.seen.len() < STACKS || self.seen.contains_key(&activity) {
                self.seen.entry(activity).or_default().push(tick);
            } else {
                has_room = false;
            }
        }
        if !has_room {
            self.lost += u64::from(length);
        }
    }
}

/// Returns all threads' activities. Unknown ones, perhaps waiting for a processor, only if there are no others.
fn sample_threads(reader: &mut Reader, threads: &mut Threads) -> Vec<Activity> {
    reader.prepare();
    let signal = Reader::signal();
    let running = threads.running(signal);
    let mut calls: HashMap<u32, &Slot> =
        slots::slots().filter_map(|(_, slot)| Some((slot.in_progress()?.thread, slot))).collect();
    let mut ask = |thread, within| signal.and_then(|signal| reader.ask(signal, thread, within));
    let running = running.iter().take(THREADS);
    let mut sampled: Vec<_> = running
        .map(|thread| {
            let call = calls.remove(&thread.number).and_then(OngoingCall::find);
            (thread, call, ask(thread, Duration::ZERO))
        })
        .collect();
    // A single running thread may share our processor. Once it gets it, it takes the signal first, so no
    // other thread can install a handler before.
    if let [(thread, _, answer @ None)] = &mut sampled[..] {
        *answer = ask(thread, SOON);
    }
    let mut seen = Vec::new();
    for (thread, call, answer) in sampled {
        let position = answer.unwrap_or_else(|| reader.read_still(thread));
        // If the thread has left the call by now, the stack doesn't belong to the call.
        seen.push(activity(call.filter(OngoingCall::is_current), position));
    }
    // The remaining calls belong to threads that wait.
    for (thread, slot) in calls {
        let Some(call) = OngoingCall::find(slot) else { continue };
        let position = reader.read_call(slot, thread);
        if call.is_current() {
            seen.push(activity(Some(call), position));
        }
    }
    if seen.iter().any(Activity::is_known) {
        seen.retain(Activity::is_known);
    }
    seen
}

/// A driver call in progress.
struct OngoingCall<'a> {
    slot: &'a Slot,
    call: InProgress,
    what: Spending,
}

impl<'a> OngoingCall<'a> {
    fn find(slot: &'a Slot) -> Option<Self> {
        let call = slot.in_progress()?;
        Some(OngoingCall { slot, call, what: spending_of(call) })
    }

    /// Returns whether the thread is still in this call.
    fn is_current(&self) -> bool {
        let number = |call: InProgress| (call.thread, call.call, call.sequence);
        self.slot.in_progress().is_some_and(|now| number(now) == number(self.call))
    }
}

/// Classifies a call in progress.
fn spending_of(call: InProgress) -> Spending {
    let compiles = |image: Image| match image.format.is_compiled() {
        true => Spending::Compiling,
        false => Spending::Loading,
    };
    if call.loads {
        let image = handles::image_of(call.subject);
        image.map_or(Spending::Loading, compiles)
    } else if let Some(loading) = handles::find_loading(call.thread) {
        compiles(loading)
    } else {
        kind_of(call::name(call.call - 1))
    }
}

/// Classifies a function of the driver by its name.
pub(super) fn kind_of(function: &str) -> Spending {
    const PREFIXES: [(&str, Spending); 11] = [
        ("cuLink", Spending::Compiling),
        ("cuModule", Spending::Loading),
        ("cuLibrary", Spending::Loading),
        ("cuStreamSynchronize", Spending::Waiting),
        ("cuEventSynchronize", Spending::Waiting),
        ("cuCtxSynchronize", Spending::Waiting),
        ("cuMemcpy", Spending::Call),
        ("cuMem", Spending::Allocating),
        ("cuIpcCloseMemHandle", Spending::Allocating),
        ("cuArray", Spending::Allocating),
        ("cuMipmappedArray", Spending::Allocating),
    ];
    let found = PREFIXES.into_iter().find(|(prefix, _)| function.starts_with(prefix));
    found.map_or(Spending::Call, |(_, what)| what)
}

fn activity(call: Option<OngoingCall<'_>>, position: Position) -> Activity {
    match call {
        Some(OngoingCall { call, what, .. }) => Activity { what, call: Some(call.call - 1), position },
        None => Activity { what: Spending::Code, call: None, position },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_told_by_their_names() {
        for (function, what) in [
            ("cuMemcpyDtoH_v2", Spending::Call),
            ("cuMemAlloc_v2", Spending::Allocating),
            ("cuMemFreeAsync_ptsz", Spending::Allocating),
            ("cuArray3DCreate_v2", Spending::Allocating),
            ("cuStreamSynchronize_ptsz", Spending::Waiting),
            ("cuLinkComplete", Spending::Compiling),
            ("cuLaunchKernel", Spending::Call),
        ] {
            assert_eq!(kind_of(function), what, "{function}");
        }
    }
}
