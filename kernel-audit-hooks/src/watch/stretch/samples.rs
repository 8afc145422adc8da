//! Collects what the threads of the program do in a stretch: each look is a tick, which stands for the time since the tick
//! before.

use std::collections::HashMap;
use std::time::Duration;

use super::answer::{Position, Reader};
use super::threads::{SOON, Threads};
use crate::record::{InProgress, PTX, Slot, Spending};
use crate::watch::known::handles;
use crate::watch::record::call;
use crate::watch::record::recording::now;
use crate::watch::record::slots;

/// The most different stacks, and the most samples of a stretch.
const STACKS: usize = 8192;
const SAMPLES: usize = 1 << 20;

/// The most threads that are asked in a tick.
const THREADS: usize = 128;

/// How long a tick may get because no look tells what runs. A thread that waits for a processor goes on where it is.
const LONGEST: u64 = 10_000_000;

/// A stretch of time that is looked at.
pub(super) struct Stretch {
    pub(super) name: String,
    pub(super) number: u32,
    pub(super) begun: u64,
    /// When it ends at the latest.
    pub(super) ends: u64,
}

/// What a thread does, and where.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Doing {
    pub(super) what: Spending,
    /// The call of the driver, by its number in the table of hooks.
    pub(super) call: Option<u32>,
    pub(super) position: Position,
}

impl Doing {
    fn is_known(&self) -> bool {
        self.call.is_some() || self.position != Position::default()
    }
}

/// The samples of a stretch.
#[derive(Default)]
pub(super) struct Samples {
    /// The time of the last tick.
    last: u64,
    /// The nanoseconds of each tick.
    pub(super) ticks: Vec<u32>,
    /// What was seen, each with its ticks.
    pub(super) seen: HashMap<Doing, Vec<u32>>,
    count: usize,
    /// The nanoseconds of ticks in which something found no room.
    pub(super) lost: u64,
}

impl Samples {
    /// Creates the samples of a stretch that began at this time.
    pub(super) fn from(begun: u64) -> Self {
        Samples { last: begun, ..Samples::default() }
    }

    /// Ends the last tick with the stretch, which took so many nanoseconds.
    pub(super) fn end(&mut self, took: u64) {
        let ticks: u64 = self.ticks.iter().map(|tick| u64::from(*tick)).sum();
        if let Some(last) = self.ticks.last_mut() {
            *last -= u32::try_from(ticks.saturating_sub(took)).unwrap_or(u32::MAX).min(*last);
        }
    }

    /// Looks at all threads once.
    pub(super) fn look(&mut self, reader: &mut Reader, threads: &mut Threads) {
        let seen = look_at_threads(reader, threads);
        let time = now();
        let length = u32::try_from(time.saturating_sub(self.last)).unwrap_or(u32::MAX);
        let tells_nothing = !seen.is_empty() && !seen.iter().any(Doing::is_known);
        if tells_nothing && u64::from(length) < LONGEST {
            return;
        }
        (self.last, self.count) = (time, self.count + seen.len().max(1));
        let tick = self.ticks.len() as u32;
        self.ticks.push(length);
        let mut has_room = self.count < SAMPLES;
        for doing in if has_room { seen } else { Vec::new() } {
            if self.seen.len() < STACKS || self.seen.contains_key(&doing) {
                self.seen.entry(doing).or_default().push(tick);
            } else {
                has_room = false;
            }
        }
        if !has_room {
            self.lost += u64::from(length);
        }
    }
}

/// Looks at all threads. A thread whose place is not known counts only if no other thread works: it may wait for a
/// processor.
fn look_at_threads(reader: &mut Reader, threads: &mut Threads) -> Vec<Doing> {
    reader.prepare();
    let signal = Reader::signal();
    let running = threads.running(signal);
    let mut calls: HashMap<u32, &Slot> =
        slots::slots().filter_map(|(_, slot)| Some((slot.in_progress()?.thread, slot))).collect();
    let mut ask = |thread, within| signal.and_then(|signal| reader.ask(signal, thread, within));
    let running = running.iter().take(THREADS);
    let mut looked_at: Vec<_> = running
        .map(|thread| {
            let call = calls.remove(&thread.number).and_then(InCall::find);
            (thread, call, ask(thread, Duration::ZERO))
        })
        .collect();
    // The only thread that runs may share a processor with this thread. Once it comes to that, it takes the signal first, so no other thread can
    // set a handler before.
    if let [(thread, _, answer @ None)] = &mut looked_at[..] {
        *answer = ask(thread, SOON);
    }
    let mut seen = Vec::new();
    for (thread, call, answer) in looked_at {
        let position = answer.unwrap_or_else(|| reader.read_still(thread));
        // If the thread has left the call meanwhile, its stack is not that of the call.
        seen.push(doing(call.filter(InCall::goes_on), position));
    }
    // Other threads are in a call that waits.
    for (thread, slot) in calls {
        let Some(call) = InCall::find(slot) else { continue };
        let position = reader.read_call(slot, thread);
        if call.goes_on() {
            seen.push(doing(Some(call), position));
        }
    }
    if seen.iter().any(Doing::is_known) {
        seen.retain(Doing::is_known);
    }
    seen
}

/// A call in progress.
struct InCall<'a> {
    slot: &'a Slot,
    call: InProgress,
    what: Spending,
}

impl<'a> InCall<'a> {
    fn find(slot: &'a Slot) -> Option<Self> {
        let call = slot.in_progress()?;
        Some(InCall { slot, call, what: spending_of(call) })
    }

    /// Returns whether the thread is still in this call, whatever the call is about by now.
    fn goes_on(&self) -> bool {
        let number = |call: InProgress| (call.thread, call.call, call.sequence);
        self.slot.in_progress().is_some_and(|now| number(now) == number(self.call))
    }
}

/// Returns what a call spends its time on.
fn spending_of(call: InProgress) -> Spending {
    let compiles = |kind: &str| if kind.starts_with(PTX) { Spending::Compiling } else { Spending::Loading };
    if call.loads {
        let image = handles::image_of(call.subject);
        image.map_or(Spending::Loading, |(image, _)| compiles(&image))
    } else if let Some(loading) = handles::find_loading(call.thread) {
        compiles(loading.kind)
    } else {
        kind_of(call::name(call.call - 1))
    }
}

/// Returns what a call of the driver is for, by the name of the function.
pub(super) fn kind_of(function: &str) -> Spending {
    const BEGINNINGS: [(&str, Spending); 11] = [
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
    let of = BEGINNINGS.into_iter().find(|(beginning, _)| function.starts_with(beginning));
    of.map_or(Spending::Call, |(_, what)| what)
}

fn doing(call: Option<InCall<'_>>, position: Position) -> Doing {
    match call {
        Some(InCall { call, what, .. }) => Doing { what, call: Some(call.call - 1), position },
        None => Doing { what: Spending::Code, call: None, position },
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
