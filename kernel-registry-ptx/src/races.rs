//! Finds races: accesses of two threads to the same memory, one of them a write, that nothing orders.
//!
//! A race is found whichever of the accesses came first in this run, because it's the orders of PTX's memory model that
//! are compared, and not times. Every thread has a vector clock ([`clock`]), which barriers, fences, strong accesses,
//! and the ends of grids pass on ([`threads`]); every word of memory remembers its last accesses ([`shadow`]).
//!
//! What isn't checked: stores of the host, loads of the host that aren't told of, accesses of matrix instructions, of `printf`, and grids with clusters. Copies by
//! `cp.async` count as done by the thread that began them, at once.

mod clock;
mod compare;
mod kind;
mod meetings;
mod race;
mod shadow;
mod threads;
mod touch;

use std::collections::{HashMap, HashSet};
use std::mem;
use std::ops::Range;
use std::sync::Arc;

use crate::order::{Order, Scope};
use crate::program::Module;
pub use clock::Knowledge;
pub(crate) use clock::Place;
pub use clock::Work;
use compare::{Devices, HOST, compare, for_each_word};
pub use kind::AccessKind;
use meetings::{Meeting, Meetings};
pub use race::{Race, Remedy, Side};
use shadow::{Access, Shadow};
use threads::{Block, Flag, Lane, each};
use touch::touch;

/// The races of a device's memory.
#[derive(Default)]
pub struct Races {
    works: HashMap<Work, OfWork>,
    /// The number of each stream's next work.
    next: HashMap<u32, u32>,
    global: Shadow,
    /// What strong stores to global memory pass on, by address.
    flags: HashMap<u64, Flag>,
    devices: Devices,
    /// What the host knows.
    host: Knowledge,
    /// Everything released at system scope: the host may have acquired it.
    shown: Knowledge,
    /// Both, which a kernel takes from a word that the host may have stored, until one of them changes.
    by_host: Option<Flag>,
    found: Vec<Race>,
    /// Each pair of instructions is reported once.
    reported: HashSet<Pair>,
    /// The instructions before which the order matters, if they're asked for.
    meetings: Option<Meetings>,
}

/// What stands for the source of the host's accesses.
const HOST_SOURCE: u64 = u64::MAX;

/// Two instructions, each by its source and its line.
type Pair = [(u64, u32); 2];

/// A grid, or other work.
struct OfWork {
    name: String,
    /// Tells programs, and kinds of other work, apart.
    source: u64,
    /// The program of a grid.
    module: Option<Arc<Module>>,
    sizes: [[u32; 3]; 2],
    begins: Arc<Knowledge>,
    blocks: HashMap<u32, Block>,
}

/// Where an access is: in global memory, or in the shared memory of the thread's block.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Target {
    Global,
    Shared,
}

/// An instruction of some lanes of a warp that accesses memory.
pub(crate) struct Accesses<'a> {
    pub at: Place,
    pub lanes: u32,
    pub target: Target,
    pub addresses: &'a [u64; 32],
    pub size: u64,
    /// The size of an element of a vector, or the whole size.
    pub element: u64,
    pub what: AccessKind,
    pub order: Order,
    pub line: u32,
    /// Whether the warp has diverged.
    pub is_diverged: bool,
    /// Returns the value of an element that a lane stores.
    pub stored: Option<&'a dyn Fn(usize, u64) -> u64>,
}

impl Accesses<'_> {
    /// Returns the value that a lane stores into a word, as far as it does.
    fn value(&self, lane: usize, word: u64) -> Option<u32> {
        let (stored, address) = (self.stored?, self.addresses[lane]);
        if self.element == 4 && address.is_multiple_of(4) {
            return Some(stored(lane, word - address / 4) as u32);
        }
        let mut value = 0;
        for byte in 0..4 {
            let place = (word * 4 + byte).wrapping_sub(address);
            if place < self.size {
                let element = stored(lane, place / self.element) >> (8 * (place % self.element));
                value |= (element as u32 & 0xff) << (8 * byte);
            }
        }
        Some(value)
    }

    /// Returns the addresses of the elements that a lane accesses.
    fn elements(&self, lane: usize) -> impl Iterator<Item = u64> + use<> {
        let (address, element) = (self.addresses[lane], self.element.max(1));
        // A bulk copy has no elements that pass anything on.
        let count = if self.size <= 64 { self.size / element } else { 0 };
        (0..count).map(move |index| address + index * element)
    }
}

impl Races {
    /// Begins a grid, or other work that accesses memory, after everything that is known when it begins.
    pub(crate) fn begin_grid(
        &mut self,
        name: &str,
        module: &Arc<Module>,
        sizes: [[u32; 3]; 2],
        (stream, device): (u32, u32),
        begins: Knowledge,
    ) -> Work {
        let work = self.add(
            stream,
            OfWork {
                name: name.to_owned(),
                source: module.program().number,
                module: Some(module.clone()),
                sizes,
                begins: Arc::new(begins),
                blocks: HashMap::new(),
            },
        );
        if device > 0 {
            self.devices.0.insert(work, device);
        }
        work
    }

    /// Does work of a stream that isn't a kernel's, such as a copy: reads and writes ranges of global memory, after
    /// everything that is known when it begins.
    pub fn touch(
        &mut self,
        (kind, stream, place): (&'static str, u32, &str),
        begins: &Knowledge,
        reads: Range<u64>,
        writes: Range<u64>,
    ) -> Work {
        let work = OfWork {
            name: format!("{kind} in {place}"),
            source: kind.as_ptr().addr() as u64,
            module: None,
            sizes: [[1; 3]; 2],
            begins: Arc::default(),
            blocks: HashMap::new(),
        };
        let work = self.add(stream, work);
        let at = Place { grid: work, block: 0, warp: 0 };
        for (range, what) in [(reads, AccessKind::Read), (writes, AccessKind::Write)] {
            let access = Access { at, lanes: 1, clock: 1, what, ..Access::default() };
            let found = touch(&mut self.global, &range, access, begins, &self.devices);
            if what == AccessKind::Write {
                self.flags.retain(|at, _| !range.contains(at));
            }
            for (address, first) in found {
                self.report(Target::Global, address, first, access);
            }
        }
        work
    }

    /// Tells what the host knows now.
    pub fn set_host(&mut self, knowledge: &Knowledge) {
        self.host = knowledge.clone();
        self.by_host = None;
    }

    /// Returns what kernels have shown to the host, by stores at the scope of the system.
    pub fn shown(&self) -> &Knowledge {
        &self.shown
    }

    /// The host reads global memory. That races with plain stores of kernels that haven't been shown to it.
    pub fn read_by_host(&mut self, range: Range<u64>) {
        let known = of_host(&self.host, &self.shown).knowledge;
        let mut found = None;
        for_each_word(range.start, range.end.saturating_sub(range.start), |word, bytes| {
            let is_unknown = |write: &&Access| {
                let shares = write.strong.is_none() && write.bytes & bytes != 0;
                shares && !known.knows(write.at, write.lanes, write.clock)
            };
            let write =
                self.global.known_word(word).and_then(|word| word.writes.iter().find(is_unknown).copied());
            found = found.or(write.map(|write| (word * 4, write)));
        });
        let Some((address, write)) = found else { return };
        let (Some(first), Some(work)) = (self.side(write), self.works.get(&write.at.grid)) else { return };
        if self.reported.insert([(HOST_SOURCE, 0), (work.source, write.line)]) {
            let remedy = Remedy::Release(Scope::System);
            self.found.push(Race { is_shared: false, address, first, second: Side::of_host(), remedy });
        }
    }

    /// Forgets all accesses: everything that begins later begins after them.
    pub fn settle(&mut self) {
        self.global = Shadow::default();
        self.flags = HashMap::new();
        self.works.retain(|_, work| !work.blocks.is_empty());
        self.devices.0.retain(|work, _| self.works.contains_key(work));
    }

    fn add(&mut self, stream: u32, its: OfWork) -> Work {
        let next = self.next.entry(stream).or_default();
        let work = Work { stream, number: *next };
        *next += 1;
        self.works.insert(work, its);
        work
    }

    /// Marks work as ended. Code that waits for it calls [`Knowledge::add_ended`].
    pub(crate) fn end(&mut self, work: Work) {
        if let Some(its) = self.works.get_mut(&work) {
            its.blocks = HashMap::new();
        }
    }

    /// Returns the races that were found since the last call, each pair of instructions once.
    pub fn take(&mut self) -> Vec<Race> {
        mem::take(&mut self.found)
    }

    /// The memory in a range is new, or is another's.
    pub fn forget(&mut self, address: u64, bytes: u64) {
        self.global.forget(address, bytes);
        let range = address..address.saturating_add(bytes);
        if bytes < self.flags.len() as u64 {
            range.for_each(|at| drop(self.flags.remove(&at)));
        } else {
            self.flags.retain(|at, _| !range.contains(at));
        }
    }

    pub(crate) fn start_block(&mut self, grid: Work, block: u32) {
        if let Some(work) = self.works.get_mut(&grid) {
            let threads = work.sizes[1].iter().product();
            work.blocks.insert(block, Block::new(threads, &work.begins));
        }
    }

    pub(crate) fn end_block(&mut self, grid: Work, block: u32) {
        if let Some(work) = self.works.get_mut(&grid) {
            work.blocks.remove(&block);
        }
    }

    fn block(&mut self, at: Place) -> Option<&mut Block> {
        self.works.get_mut(&at.grid)?.blocks.get_mut(&at.block)
    }

    /// Some lanes arrive at a barrier of their block.
    pub(crate) fn arrive(&mut self, at: Place, id: usize, lanes: u32, waits: bool) {
        if let Some(block) = self.block(at) {
            block.arrive(at, id, lanes, waits);
        }
    }

    /// A barrier lets those pass that have arrived.
    pub(crate) fn pass(&mut self, at: Place, id: usize) {
        if let Some(block) = self.block(at) {
            block.pass(at, id);
        }
    }

    /// Some lanes arrive at a `bar.warp.sync`.
    pub(crate) fn sync(&mut self, at: Place, members: u32, lanes: u32) {
        if let Some(block) = self.block(at) {
            block.sync(at, members, lanes);
        }
    }

    /// Some lanes end.
    pub(crate) fn end_lanes(&mut self, at: Place, lanes: u32) {
        if let Some(block) = self.block(at) {
            block.end(at, lanes);
        }
    }

    /// Some lanes execute a fence.
    pub(crate) fn fence(&mut self, at: Place, lanes: u32, order: Order) {
        let Races { works, devices, .. } = self;
        let Some(block) = works.get_mut(&at.grid).and_then(|work| work.blocks.get_mut(&at.block)) else {
            return;
        };
        for lane in each(lanes) {
            let thread = &mut block.warps[at.warp as usize].lanes[lane];
            thread.fence(order, |by| devices.include(order.scope, at, by));
        }
    }

    /// Begins to find the instructions before which the order of threads matters.
    pub fn find_meetings(&mut self) {
        self.meetings.get_or_insert_default();
    }

    /// Returns those that were found since the last call: the kernel's name, and the line in its PTX.
    pub fn take_meetings(&mut self) -> Vec<(String, u32)> {
        let found = self.meetings.as_mut().map(Meetings::take).unwrap_or_default();
        let named =
            found.into_iter().filter_map(|(grid, line)| Some((self.works.get(&grid)?.name.clone(), line)));
        named.collect()
    }

    /// A thread of a grid reads a word again and again, at this line.
    pub(crate) fn polls(&mut self, grid: Work, line: u32) {
        if let Some(meetings) = &mut self.meetings {
            meetings.note(grid, line);
        }
    }

    fn meet(&mut self, accesses: &Accesses<'_>) {
        let Accesses { at, line, what, .. } = *accesses;
        let (Some(meetings), Some(work)) = (&mut self.meetings, self.works.get(&at.grid)) else { return };
        let lanes = if accesses.is_diverged { accesses.lanes } else { 0 };
        let space = (accesses.target == Target::Shared).then_some((at.grid, at.block));
        for lane in each(accesses.lanes) {
            for_each_word(accesses.addresses[lane], accesses.size, |word, _| {
                meetings.add((space, word), &Meeting { at, lanes, line, what }, &work.begins);
            });
        }
    }

    /// Some lanes access memory: compares each access with those that the memory remembers.
    pub(crate) fn access(&mut self, accesses: &Accesses<'_>) {
        let at = accesses.at;
        if self.meetings.is_some() && accesses.order.is_strong() {
            self.meet(accesses);
        }
        let Races { works, global, flags, devices, host, shown, by_host, .. } = self;
        let Some(Block { warps, shared, flags: own, .. }) =
            works.get_mut(&at.grid).and_then(|work| work.blocks.get_mut(&at.block))
        else {
            return;
        };
        let (shadow, flags) = match accesses.target {
            Target::Global => (global, flags),
            Target::Shared => (shared, own),
        };
        let mut found = Vec::new();
        for lane in each(accesses.lanes) {
            let thread = &mut warps[at.warp as usize].lanes[lane];
            let address = accesses.addresses[lane];
            let sees = accesses.order.is_strong() && accesses.what.reads();
            let may_be_by_host = accesses.target == Target::Global && accesses.order.scope == Scope::System;
            for address in accesses.elements(lane).filter(|_| sees) {
                let by_host = may_be_by_host.then(|| &*by_host.get_or_insert_with(|| of_host(host, shown)));
                // The host may have stored it after the kernel that passes something on.
                for flag in flags.get(&address).into_iter().chain(by_host) {
                    if devices.include(flag.scope, flag.by, at)
                        && devices.include(accesses.order.scope, at, flag.by)
                    {
                        thread.see(flag, accesses.order);
                    }
                }
            }
            let access = Access {
                at,
                lanes: 1 << lane,
                clock: thread.clock,
                line: accesses.line,
                bytes: 0,
                strong: accesses.order.is_strong().then_some(accesses.order.scope),
                what: accesses.what,
                value: None,
            };
            for_each_word(address, accesses.size, |number, bytes| {
                let access = Access { bytes, value: accesses.value(lane, number), ..access };
                if let Some(other) = compare(shadow.word(number), access, &thread.known, devices) {
                    found.push((number * 4, other, access));
                }
            });
            if accesses.what.writes() && store_flags(flags, (at, lane), thread, accesses, shown) {
                *by_host = None;
            }
        }
        for (address, first, second) in found {
            self.report(accesses.target, address, first, second);
        }
    }

    fn report(&mut self, target: Target, address: u64, first: Access, second: Access) {
        let source = |access: Access| {
            let work = self.works.get(&access.at.grid);
            (work.map_or(0, |work| work.source), access.line)
        };
        let mut pair = [source(first), source(second)];
        pair.sort_unstable();
        let is_guess = |read: Access, other: Access| {
            read.what == AccessKind::Read && other.what == AccessKind::Update && self.is_compared(read)
        };
        if is_guess(first, second) || is_guess(second, first) || !self.reported.insert(pair) {
            return;
        }
        let (Some(one), Some(two)) = (self.side(first), self.side(second)) else { return };
        let is_one_device = self.devices.are_same(first.at, second.at);
        let is_shared = target == Target::Shared;
        self.found.push(Race::new(is_shared, address, (one, first), (two, second), is_one_device));
    }

    /// Returns whether the value of a plain read is only compared with that of memory, by `atomicCAS`: if another thread has
    /// updated it meanwhile, the thread tries again.
    fn is_compared(&self, read: Access) -> bool {
        let module = self.works.get(&read.at.grid).and_then(|work| work.module.as_ref());
        module.is_some_and(|module| module.program().is_compared(read.line))
    }

    fn side(&self, access: Access) -> Option<Side> {
        let work = self.works.get(&access.at.grid)?;
        let [grid, block] = work.sizes;
        let program = work.module.as_ref().map(|module| module.program());
        let thread = u32::from(access.at.warp) * 32 + access.lanes.trailing_zeros();
        Some(Side {
            kernel: work.name.clone(),
            block: position(access.at.block, grid),
            thread: position(thread, block),
            what: access.what,
            scope: access.strong,
            line: access.line,
            instruction: program.map_or(String::new(), |program| program.source(access.line).to_owned()),
            place: program.and_then(|program| program.place(access.line)),
        })
    }
}

/// Remembers what a store passes on. A weak store, or one that passes on nothing, ends what others passed on there.
/// Returns whether it's passed on to the host.
fn store_flags(
    flags: &mut HashMap<u64, Flag>,
    (by, lane): (Place, usize),
    thread: &mut Lane,
    accesses: &Accesses<'_>,
    shown: &mut Knowledge,
) -> bool {
    let released = accesses.order.is_strong().then(|| thread.release(by, lane, accesses.order)).flatten();
    let is_shown = matches!(released, Some((_, Scope::System)));
    if let Some((knowledge, Scope::System)) = &released {
        shown.add(knowledge);
    }
    if released.is_none() && flags.is_empty() {
        return false;
    }
    for address in accesses.elements(lane) {
        match (&released, flags.get_mut(&address)) {
            (Some((knowledge, scope)), Some(flag)) if accesses.what == AccessKind::Update => {
                Knowledge::add_shared(&mut flag.knowledge, knowledge);
                (flag.by, flag.scope) = (by, flag.scope.max(*scope));
            }
            (Some((knowledge, scope)), _) => {
                flags.insert(address, Flag { knowledge: knowledge.clone(), by, scope: *scope });
            }
            (None, Some(_)) if accesses.what == AccessKind::Write => _ = flags.remove(&address),
            (None, _) => {}
        }
    }
    is_shown
}

/// Returns what a word passes on that the host may have stored.
fn of_host(host: &Knowledge, shown: &Knowledge) -> Flag {
    let mut knowledge = host.clone();
    knowledge.add(shown);
    Flag { knowledge: Arc::new(knowledge), by: Place { grid: HOST, block: 0, warp: 0 }, scope: Scope::System }
}

/// Returns the coordinates of an element, where x changes fastest.
fn position(index: u32, [x, y, _]: [u32; 3]) -> [u32; 3] {
    [index % x, index / x % y, index / x / y]
}
