//! Runs the worker thread, which does the work at the heads of the streams and runs kernels in turns. During a turn,
//! the thread does not hold the lock of the state.

use std::thread;
use std::time::{Duration, Instant};

use super::explore::hosts::wait_until;
use super::explore::{self, scheduler};
use super::simulator::{Locked, Simulator};
use super::{State, deadlock};
use crate::driver::caller::arguments::HostFunction;
use crate::driver::clock;
use crate::driver::config::races::Noted;
use crate::driver::handles::Handle;
use crate::driver::launch::execution::{Execution, Step};
use crate::driver::memory::blocks::Gone;
use crate::driver::memory::view::View;
use crate::driver::report::texts::{self, Launcher, TIMEOUT};
use crate::driver::result::{Answer, Code};
use crate::driver::stream::queue::{Doing, Item, Source, Stream, Work};
use crate::driver::wait::Seq;

/// How long the worker thread sleeps when it has nothing to do. Nothing wakes it when a word in memory changes.
const PAUSE: Duration = Duration::from_micros(200);

/// Implements `cuInit`: starts the worker thread.
pub(crate) fn start(simulator: &'static Simulator) -> Answer {
    let mut state = simulator.lock();
    if state.devices.is_empty() {
        return Err(Code::NO_DEVICE);
    }
    if !state.initialised {
        Simulator::note_initialised();
        let is_explored = state.scheduler.is_some();
        if is_explored {
            explore::start();
        }
        let run = move || if is_explored { scheduler::run() } else { run() };
        thread::Builder::new().spawn(run).map_err(|_| Code::OPERATING_SYSTEM)?;
        state.initialised = true;
        state.config.races.note(Noted::Begun);
    }
    Ok(())
}

/// The worker thread's endless loop.
fn run() {
    let simulator = Simulator::get();
    let mut state = simulator.lock();
    let mut turns_taken = 0;
    loop {
        let mut moved = false;
        state.memory.lock().give_back();
        let streams: Vec<Handle> = state.streams.iter().map(|(handle, _)| handle).collect();
        for stream in streams {
            while state.advance(stream) {
                moved = true;
            }
        }
        if moved {
            state.wakeup.notify();
        }
        let turns = state.take_turns();
        if !turns.is_empty() {
            let (memory, timing) = (state.memory.clone(), state.config.timing);
            state.in_turn = true;
            drop(state);
            let stepped: Vec<_> = turns
                .into_iter()
                .map(|mut turn| {
                    if let Some(timing) = timing {
                        turns_taken += 1;
                        thread::sleep(timing.delay("turn", turns_taken));
                    }
                    let mut view = View::new(&memory, turn.context, turn.device);
                    (view.clock, view.launcher) = (turn.clock, turn.launcher.clone());
                    let step = turn.execution.step(&view);
                    (turn, step)
                })
                .collect();
            state = simulator.lock();
            state.in_turn = false;
            state.turns += 1;
            state.wakeup.notify();
            for (turn, step) in stepped {
                moved |= state.end_turn(turn, step);
            }
        }
        if !moved {
            deadlock::report_deadlocks(&mut state);
            state = pause(state);
        }
    }
}

/// Waits for the end of the current turn. After it, no kernel uses memory that was freed before this call.
pub(crate) fn after_turn(state: Locked) {
    // Wakes the worker thread even if there is no work, so that it unmaps freed pages.
    state.wakeup.notify();
    let turn = state.turns;
    drop(wait_until(state, move |state| !state.in_turn || state.turns != turn));
}

fn pause(mut state: Locked) -> Locked {
    state.failures.retain(|failure| failure.write_old());
    let leaves_texts = texts::write_old() || !state.failures.is_empty();
    let is_idle = state.streams.iter().all(|(_, stream)| stream.queue.is_empty());
    let wakeup = state.wakeup.clone();
    let begun = Instant::now();
    let state = match (is_idle, leaves_texts) {
        (true, false) => wakeup.wait(state),
        (true, true) => wakeup.wait_for(state, TIMEOUT / 5),
        (false, _) => wakeup.wait_for(state, PAUSE),
    };
    clock::add_pause(begun.elapsed().min(PAUSE));
    state
}

/// A kernel in its turn.
struct Turn {
    stream: Handle,
    seq: Seq,
    context: Handle,
    device: usize,
    /// The device's clock in MHz.
    clock: u32,
    launcher: Launcher,
    execution: Box<Execution>,
}

impl State {
    /// Does the work at the head of a stream, if the work can begin now. Returns whether the next work may begin too.
    pub(crate) fn advance(&mut self, handle: Handle) -> bool {
        let Ok(stream) = self.streams.get(handle) else { return false };
        let Some(item) = stream.queue.front() else { return false };
        if !matches!(item.state, Doing::Waiting) || !self.can_begin(stream, item) {
            return false;
        }
        if matches!(item.work, Work::Launch(_)) {
            self.start(handle);
            return false;
        }
        let head = self.streams.get_mut(handle).ok().and_then(|stream| stream.queue.front_mut());
        // The work is moved out, because a clone could copy many bytes.
        let work = head.map(|item| std::mem::replace(&mut item.work, Work::Nothing));
        if let (Some(work), true) = (&work, self.watched.is_some()) {
            self.watch_work(handle, work);
        }
        work.is_some_and(|work| self.perform(handle, work))
    }

    pub(crate) fn can_begin(&self, stream: &Stream, item: &Item) -> bool {
        let is_behind = item.behind.is_some_and(|behind| self.streams.is_busy(stream.device, behind.until));
        !is_behind
            && !self.streams.waits_for_others(stream, item)
            && self.has_room(stream, item)
            && self.holds(item)
    }

    fn holds(&self, item: &Item) -> bool {
        match item.work {
            Work::WaitFor { stream, seq } => self.streams.has_done(stream, seq),
            // If the word was freed, the wait ends here, and `perform` reports the error.
            Work::WaitValue { address, value, until } => {
                let word = self.memory.lock().load_word(address);
                word.map_or(true, |word| until.holds(word, value))
            }
            _ => true,
        }
    }

    /// Starts the kernel at the head of a stream.
    fn start(&mut self, handle: Handle) {
        let order = self.id();
        let known = self.known_at_head(handle);
        let races = self.watched.as_mut().map(|watched| (watched.races(), watched.number(handle)));
        let (watched, mut unwatched) = (known.zip(races), false);
        let Ok(stream) = self.streams.get_mut(handle) else { return };
        let device = stream.device;
        let Some(Item { work: Work::Launch(launch), state, .. }) = stream.queue.front_mut() else {
            return;
        };
        match Execution::new(launch, device, order, &self.memory) {
            Ok(mut execution) => {
                if let Some(scheduler) = &self.scheduler {
                    execution.explore(scheduler.visible(&launch.kernel().name));
                }
                if let Some((known, (races, number))) = watched {
                    execution.watch(races, (number, device as u32), known);
                    unwatched = execution.watched().is_none();
                }
                *state = Doing::Running(Box::new(execution));
                stream.still_since = clock::now();
            }
            Err(words) => self.break_context_of(handle, Code::LAUNCH_FAILED, &words),
        }
        if unwatched {
            self.config.races.note(Noted::Unwatched);
        }
    }

    fn perform(&mut self, handle: Handle, work: Work) -> bool {
        let mut memory = self.memory.lock();
        let done = match work {
            Work::Copy { to, from: Source::Address(from), bytes } => memory.copy(to, from, bytes),
            Work::Copy { to, from: Source::Bytes(from), .. } => memory.write(to, &from),
            Work::Fill { to, pattern, width, count } => memory.fill(to, pattern, width, count),
            Work::WriteValue { address, value } => memory.store_word(address, value),
            Work::WaitValue { address, .. } => memory.load_word(address).map(drop),
            Work::Free(address) => {
                memory.free(address);
                Ok(())
            }
            Work::Appear(allocation, is_there) => {
                memory.appear(allocation.address(), is_there);
                Ok(())
            }
            Work::Record(event) => {
                if let Ok(event) = self.events.get_mut(event) {
                    event.at = Some(Instant::now());
                }
                Ok(())
            }
            Work::Nothing | Work::WaitFor { .. } | Work::Launch(_) => Ok(()),
            Work::Call { function, data } => {
                drop(memory);
                self.call(handle, function, data);
                return false;
            }
        };
        drop(memory);
        match done {
            Ok(()) => self.streams.pop(handle),
            Err(Gone(address)) => {
                let words = format!(
                    "memory at {address:#x} was freed before stream {handle:#x} was done with it; keep it until then"
                );
                self.break_context_of(handle, Code::ILLEGAL_ADDRESS, &words);
            }
        }
        true
    }

    /// Calls a host function in a thread of its own, because it may block.
    fn call(&mut self, handle: Handle, function: HostFunction, data: usize) {
        let Ok(stream) = self.streams.get_mut(handle) else { return };
        let Some(item) = stream.queue.front_mut() else { return };
        item.state = Doing::Stepping;
        let seq = item.seq;
        let called = thread::Builder::new().spawn(move || {
            function.call(data);
            let mut state = Simulator::get().lock();
            if !state.streams.has_done(handle, seq) {
                state.streams.pop(handle);
            }
            state.wakeup.notify();
        });
        if let Err(error) = called {
            let words = format!("a function of the host needs a thread: {error}; allow more threads");
            self.break_context_of(handle, Code::OPERATING_SYSTEM, &words);
        }
    }

    fn take_turns(&mut self) -> Vec<Turn> {
        self.make_room();
        let mut turns = Vec::new();
        for (handle, stream) in self.streams.iter_mut() {
            let (context, device) = (stream.context, stream.device);
            let Some(item) = stream.queue.front_mut() else { continue };
            if !matches!(item.state, Doing::Running(_)) {
                continue;
            }
            if let Doing::Running(execution) = std::mem::replace(&mut item.state, Doing::Stepping) {
                let (clock, launcher) = (self.devices[device].kind.speed.clock, item.launcher.clone());
                turns.push(Turn {
                    stream: handle,
                    seq: item.seq,
                    context,
                    device,
                    clock,
                    launcher,
                    execution,
                });
            }
        }
        turns
    }

    /// Stores the result of a turn. Returns whether the kernel made progress.
    fn end_turn(&mut self, turn: Turn, step: Step) -> bool {
        let Ok(stream) = self.streams.get_mut(turn.stream) else { return true };
        let Some(item) = stream.queue.front_mut().filter(|item| item.seq == turn.seq) else { return true };
        item.state = Doing::Running(turn.execution);
        if matches!(step, Step::Running { progressed: true }) {
            stream.still_since = clock::now();
        }
        self.end_step(turn.stream, step)
    }

    /// Ends the kernel at the head of a stream if it's done. Returns whether it made progress.
    pub(crate) fn end_step(&mut self, handle: Handle, step: Step) -> bool {
        match step {
            Step::Running { progressed } => return progressed,
            Step::Done => {
                let head = self.streams.get(handle).ok().and_then(|stream| stream.queue.front());
                let work = match head.map(|item| &item.state) {
                    Some(Doing::Running(execution)) => execution.watched(),
                    _ => None,
                };
                self.streams.pop(handle);
                self.work_ended(handle, work);
                self.wakeup.notify();
            }
            Step::Fault { code, words } => self.break_context_of(handle, code, &words),
        }
        true
    }
}
