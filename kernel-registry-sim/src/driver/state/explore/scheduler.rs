//! Lets one party after the other take a step, on the thread that otherwise does the work of streams.

use std::collections::BTreeMap;
use std::mem;
use std::thread;
use std::time::{Duration, Instant};

use kernel_registry_ptx::Group;
use kernel_registry_schedule::{Entry, Kind, Party, Point};

use super::choices::Scheduler;
use super::host::{Doing as Thread, Host};
use super::hosts::belong_to_scheduler;
use super::rest::rest;
use super::words;
use crate::driver::clock;
use crate::driver::config::races::with_source_names;
use crate::driver::handles::Handle;
use crate::driver::launch::execution::{Execution, Step, lock};
use crate::driver::memory::view::View;
use crate::driver::state::State;
use crate::driver::state::simulator::{Locked, Simulator};
use crate::driver::stream::queue::{Doing, Item, Work};

/// The longest that loops that look at a clock are given, in simulated time, before they count as stuck.
const LONGEST: Duration = Duration::from_secs(3600);

/// How long, when nothing else can be done, threads of the host may wait for each other.
const GRACE: Duration = Duration::from_secs(1);

/// How long threads of the host may poll then.
const POLLS: Duration = Duration::from_secs(3);

/// How long to wait then for threads that something outside of the program blocks. For those that sleep it's twice as long.
const PATIENCE: Duration = Duration::from_secs(5);

/// How often threads of the host that poll look without a pause when nothing else can be done.
const MANY: u32 = 10_000;

/// The scheduler's endless loop.
pub(crate) fn run() -> ! {
    belong_to_scheduler();
    // SAFETY: the call has no arguments, and returns the id of the calling thread.
    let own = unsafe { libc::gettid() };
    let mut state = Simulator::get().lock();
    state.watched.iter().for_each(|watched| lock(&watched.races).find_meetings());
    let (mut idle, mut others, mut may_have_moved) = (Idle::default(), BTreeMap::new(), true);
    loop {
        if may_have_moved {
            (state, others) = rest(state, own);
        }
        if let Some(scheduler) = &mut state.scheduler {
            scheduler.hosts.number();
        }
        state.memory.lock().give_back();
        let options = state.options();
        if options.is_empty() {
            state = idle.wait(state, &others);
            may_have_moved = true;
            continue;
        }
        clock::begin_step();
        state.name_all(&options);
        let Some(scheduler) = &mut state.scheduler else { continue };
        let frees_polls = mem::take(&mut scheduler.frees_polls);
        let party = scheduler.choose(&options);
        // A step of a kernel lets no thread of the host go on.
        may_have_moved = !matches!(party, Party::Block { .. } | Party::Threads { .. });
        if state.take_step(party) {
            state.scheduler.iter_mut().for_each(|scheduler| scheduler.changes += 1);
            if !frees_polls {
                idle = Idle::default();
            }
        }
        state.end_if_failed();
        state.wakeup.notify();
    }
}

/// For how long no party could take a step.
#[derive(Default)]
struct Idle {
    /// How far time has jumped, for loops that look at a clock.
    jumped: Duration,
    since: Option<Instant>,
    /// How often threads that poll have looked once more.
    looks: u32,
}

impl Idle {
    /// Lets threads of the host that poll look once more: they may give up after some time, or do something else.
    fn frees_polls(&mut self, state: &mut Locked) -> bool {
        let Some(scheduler) = &mut state.scheduler else { return false };
        if !scheduler.hosts.all.values().any(Host::polls) {
            return false;
        }
        self.looks += 1;
        if self.looks > MANY {
            thread::sleep(Duration::from_millis(1));
        }
        scheduler.frees_polls = true;
        true
    }

    /// Lets those go on that wait for a time, or ends the run because of a deadlock.
    fn wait(&mut self, mut state: Locked, others: &BTreeMap<i32, Thread>) -> Locked {
        let since = *self.since.get_or_insert_with(Instant::now);
        if state.release(false) || since.elapsed() < POLLS && self.frees_polls(&mut state) {
            return state;
        }
        let has_work = state.has_work();
        let may_change = |doing: &Thread| match doing {
            Thread::Runs => true,
            Thread::Sleeps => !has_work || since.elapsed() < 2 * PATIENCE,
            Thread::External => !has_work || since.elapsed() < PATIENCE,
            Thread::Limited => !has_work || since.elapsed() < GRACE,
            Thread::Blocked => !has_work && since.elapsed() < GRACE,
        };
        if others.values().any(may_change) {
            let wakeup = state.wakeup.clone();
            return wakeup.wait_for(state, Duration::from_millis(5));
        }
        let jump = (self.jumped * 2).max(Duration::from_millis(1));
        if jump < LONGEST && state.release(true) {
            self.jumped = jump;
            clock::jump(jump);
            return state;
        }
        let text = words::deadlock(&state, others);
        if let Some(scheduler) = &mut state.scheduler {
            scheduler.recorder.end(Kind::Deadlock, text);
        }
        state
    }
}

impl State {
    /// Does everything that needs no choice, and returns who can take a step.
    fn options(&mut self) -> Vec<Party> {
        loop {
            self.make_room();
            let mut moved = false;
            for (handle, _) in self.heads() {
                let is_plain =
                    |item: &Item| matches!(item.work, Work::Nothing | Work::WaitFor { .. } | Work::Record(_));
                let head = self.streams.get(handle).ok().and_then(|stream| stream.queue.front());
                moved |= head.is_some_and(is_plain) && self.advance(handle);
            }
            let mut starts = Vec::new();
            for (handle, _) in self.running_heads() {
                let (grid, blocks) = self
                    .with_execution(handle, |execution, _, seq| (seq, execution.grid().blocks_to_start()));
                match blocks[..] {
                    [] => {}
                    [block] => {
                        self.run_kernel(handle, |execution, view| execution.start_block(block, view));
                        moved = true;
                    }
                    _ => starts.extend(blocks.into_iter().map(|block| Party::Block { grid, block })),
                }
            }
            if moved {
                self.scheduler.iter_mut().for_each(|scheduler| scheduler.changes += 1);
                self.end_if_failed();
                continue;
            }
            return if starts.is_empty() { self.parties() } else { starts };
        }
    }

    /// Writes the names of parties, if steps are described.
    fn name_all(&mut self, parties: &[Party]) {
        if !self.scheduler.as_ref().is_some_and(|scheduler| scheduler.is_detailed) {
            return;
        }
        for party in parties {
            let name = words::name(self, *party);
            self.scheduler.iter_mut().for_each(|scheduler| scheduler.name(*party, name.clone()));
        }
    }

    fn parties(&mut self) -> Vec<Party> {
        let mut parties = Vec::new();
        let hosts =
            self.scheduler.as_mut().map(|scheduler| mem::take(&mut scheduler.hosts)).unwrap_or_default();
        parties.extend(hosts.all.values().filter(|host| host.can_continue(self)).filter_map(Host::party));
        if let Some(scheduler) = &mut self.scheduler {
            scheduler.hosts = hosts;
        }
        for (handle, number) in self.heads() {
            let Ok(stream) = self.streams.get(handle) else { continue };
            let Some(item) = stream.queue.front() else { continue };
            if !self.can_begin(stream, item) {
                continue;
            }
            parties.push(Party::Stream(number));
            let may_have_little = self.scheduler.as_ref().is_some_and(|scheduler| scheduler.has_little_room);
            if let Work::Launch(launch) = &item.work
                && may_have_little
                && !launch.shape.cooperative
                && launch.blocks() > 1
            {
                parties.push(Party::Room(number));
            }
        }
        for (handle, _) in self.running_heads() {
            let (grid, groups) =
                self.with_execution(handle, |execution, view, seq| (seq, execution.grid().ready(view)));
            let threads = |Group { block, warp, lane }| Party::Threads { grid, block, warp, lane };
            parties.extend(groups.into_iter().map(threads));
        }
        parties
    }

    /// Returns the streams whose next work hasn't begun, with their numbers.
    pub(crate) fn heads(&mut self) -> Vec<(Handle, u32)> {
        self.streams_with(|state| matches!(state, Doing::Waiting))
    }

    fn running_heads(&mut self) -> Vec<(Handle, u32)> {
        self.streams_with(|state| matches!(state, Doing::Running(_)))
    }

    fn streams_with(&mut self, does: impl Fn(&Doing) -> bool) -> Vec<(Handle, u32)> {
        let heads = self.streams.iter().filter_map(|(handle, stream)| Some((handle, stream.queue.front()?)));
        let handles: Vec<_> = heads.filter(|(_, item)| does(&item.state)).map(|(handle, _)| handle).collect();
        let Some(watched) = &mut self.watched else { return Vec::new() };
        handles.into_iter().map(|handle| (handle, watched.number(handle))).collect()
    }

    /// Lets a party take a step. Returns whether that may have changed something for others.
    fn take_step(&mut self, party: Party) -> bool {
        let is_detailed = self.scheduler.as_ref().is_some_and(|scheduler| scheduler.is_detailed);
        if is_detailed {
            let text = words::step(self, party);
            self.scheduler.as_mut().into_iter().for_each(|scheduler| scheduler.describe(party, text.clone()));
        }
        match party {
            Party::Host(number) => {
                let Some(Scheduler { hosts, .. }) = self.scheduler.as_deref_mut() else { return false };
                let is_it = |(_, host): &(&i32, &mut Host<State>)| host.number == Some(number);
                if let Some((id, host)) = hosts.all.iter_mut().find(is_it) {
                    (host.is_stopped, host.condition) = (false, None);
                    hosts.latest = Some(*id);
                }
            }
            Party::Stream(number) | Party::Room(number) => {
                let Some((handle, _)) = self.heads().into_iter().find(|(_, its)| *its == number) else {
                    return false;
                };
                self.advance(handle);
                if matches!(party, Party::Room(_)) && self.is_running(handle) {
                    self.with_execution(handle, |execution, _, _| execution.limit(1));
                }
            }
            Party::Block { grid, block } => {
                if let Some(handle) = self.running_grid(grid) {
                    self.run_kernel(handle, |execution, view| execution.start_block(block, view));
                }
            }
            Party::Threads { grid, block, warp, lane } => {
                let group = Group { block, warp, lane };
                return self.running_grid(grid).is_some_and(|handle| {
                    self.run_kernel(handle, |execution, view| execution.advance(group, view))
                });
            }
        }
        true
    }

    fn is_running(&self, handle: Handle) -> bool {
        let head = self.streams.get(handle).ok().and_then(|stream| stream.queue.front());
        head.is_some_and(|item| matches!(item.state, Doing::Running(_)))
    }

    /// Returns the stream that runs the grid with this number, which is its position in the order of submission.
    pub(crate) fn running_grid(&self, grid: u32) -> Option<Handle> {
        let is_it = |item: &Item| item.seq as u32 == grid;
        let mut streams = self.streams.iter();
        streams.find_map(|(handle, stream)| stream.queue.front().is_some_and(is_it).then_some(handle))
    }

    /// Calls a function with a running kernel, its memory, and its number.
    pub(crate) fn with_execution<R: Default>(
        &mut self,
        handle: Handle,
        call: impl FnOnce(&mut Execution, &View<'_>, u32) -> R,
    ) -> R {
        let memory = self.memory.clone();
        let Ok(stream) = self.streams.get_mut(handle) else { return R::default() };
        let (context, device) = (stream.context, stream.device);
        let Some(item) = stream.queue.front_mut() else { return R::default() };
        let Doing::Running(execution) = &mut item.state else { return R::default() };
        let mut view = View::new(&memory, context, device);
        (view.clock, view.launcher) = (self.devices[device].kind.speed.clock, item.launcher.clone());
        call(execution, &view, item.seq as u32)
    }

    /// Runs a part of a kernel. Returns whether that made progress.
    fn run_kernel(&mut self, handle: Handle, run: impl FnOnce(&mut Execution, &View<'_>) -> Step) -> bool {
        let step = self.with_execution(handle, |execution, view, _| Some(run(execution, view)));
        step.is_some_and(|step| self.end_step(handle, step))
    }

    fn release(&mut self, timed: bool) -> bool {
        let mut any = false;
        for (handle, _) in self.running_heads() {
            any |= self.with_execution(handle, |execution, _, _| execution.grid().release(timed));
        }
        any
    }

    /// Returns whether a thread has stopped at a call, or a stream has work.
    fn has_work(&self) -> bool {
        let mut hosts = self.scheduler.iter().flat_map(|scheduler| scheduler.hosts.all.values());
        hosts.any(|host| host.is_stopped) || self.streams.iter().any(|(_, stream)| !stream.queue.is_empty())
    }

    /// Writes the instructions before which the order was found to matter, and ends the run if there was a race.
    fn end_if_failed(&mut self) {
        self.report_races();
        let (Some(scheduler), Some(watched)) = (&mut self.scheduler, &mut self.watched) else { return };
        for (kernel, line) in lock(&watched.races).take_meetings() {
            if !scheduler.visible.get(&kernel).is_some_and(|lines| lines.contains(&line)) {
                scheduler.recorder.write(&Entry::Point(Point { kernel, line }));
            }
        }
        if let Some(race) = watched.take().first() {
            scheduler.recorder.end(Kind::Race, with_source_names(race).to_string());
        }
    }
}
