//! Finds races: accesses of two threads to the same memory, one of them a write, that nothing orders.
//!
//! A race is found whichever of the accesses came first in this run, because it's the orders of PTX's memory model that
//! are compared, and not times. Every thread has a vector clock ([`clock`]), which barriers, fences, strong accesses,
//! and the ends of grids pass on ([`threads`]); every word of memory remembers its last accesses ([`shadow`]).
//!
//! What isn't checked: accesses of the host, of matrix instructions, of `printf`, and grids with clusters. Copies by
//! `cp.async` count as done by the thread that began them, at once.

mod clock;
mod race;
mod shadow;
mod threads;
mod what;

use std::collections::{HashMap, HashSet};
use std::mem;
use std::ops::Range;
use std::sync::Arc;

use crate::order::{Order, Scope};
use crate::program::Module;
pub use clock::Knowledge;
pub(crate) use clock::Place;
use clock::Work;
pub use race::{Race, Remedy, Side};
use shadow::{Access, Shadow, Word};
use threads::{Block, Flag, Lane, each};
pub use what::What;

/// The races of a device's memory.
#[derive(Default)]
pub struct Races {
    works: HashMap<Work, OfWork>,
    next: Work,
    global: Shadow,
    /// What strong stores to global memory pass on, by address.
    flags: HashMap<u64, Flag>,
    devices: Devices,
    /// What the host knows.
    host: Knowledge,
    /// What stores at the scope of the system have passed on, which the host may have seen.
    shown: Knowledge,
    /// Both, which a kernel takes from a word that the host may have stored, until one of them changes.
    by_host: Option<Flag>,
    found: Vec<Race>,
    /// Each pair of instructions is reported once.
    reported: HashSet<Pair>,
}

/// The number of what the host does.
const HOST: Work = Work::MAX;

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
    pub what: What,
    pub order: Order,
    pub line: u32,
    /// The values that a store writes.
    pub values: [u32; 32],
}

impl Races {
    /// Begins a grid, or other work that accesses memory, after everything that is known when it begins.
    pub(crate) fn begin_grid(
        &mut self,
        name: &str,
        module: &Arc<Module>,
        sizes: [[u32; 3]; 2],
        begins: Knowledge,
    ) -> Work {
        self.add(OfWork {
            name: name.to_owned(),
            source: module.program().number,
            module: Some(module.clone()),
            sizes,
            begins: Arc::new(begins),
            blocks: HashMap::new(),
        })
    }

    /// Does work that isn't a kernel's, such as a copy: reads and writes ranges of global memory, after everything that is
    /// known when it begins.
    pub fn touch(
        &mut self,
        (kind, place): (&'static str, &str),
        begins: &Knowledge,
        reads: Range<u64>,
        writes: Range<u64>,
    ) -> Work {
        let begins = Arc::new(begins.clone());
        let sizes = [[1; 3]; 2];
        let work = OfWork {
            name: format!("{kind} in {place}"),
            source: kind.as_ptr().addr() as u64,
            module: None,
            sizes,
            begins: begins.clone(),
            blocks: HashMap::new(),
        };
        let number = self.add(work);
        let at = Place { grid: number, block: 0, warp: 0 };
        let thread = Lane { clock: 1, known: begins, fenced: None, seen: Vec::new() };
        for (range, what) in [(reads, What::Read), (writes, What::Write)] {
            let mut found = Vec::new();
            for_each_word(range.start, range.end.saturating_sub(range.start), |number, bytes| {
                let access = Access { at, lanes: 1, clock: 1, line: 0, bytes, strong: None, what, value: 0 };
                if let Some(other) = compare(self.global.word(number), access, &thread, &self.devices) {
                    found.push((number * 4, other, access));
                }
            });
            if what == What::Write {
                self.flags.retain(|at, _| !range.contains(at));
            }
            for (address, first, second) in found {
                self.report(Target::Global, address, first, second);
            }
        }
        number
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

    /// Forgets all accesses: everything that begins later begins after them.
    pub fn settle(&mut self) {
        self.global = Shadow::default();
        self.flags = HashMap::new();
        self.works.retain(|_, work| !work.blocks.is_empty());
    }

    fn add(&mut self, work: OfWork) -> Work {
        let number = self.next;
        self.next += 1;
        self.works.insert(number, work);
        number
    }

    /// Ends work. Whoever waits for it adds it to what is [known](Knowledge).
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
        self.flags.retain(|at, _| !(address..address + bytes).contains(at));
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
            block.end(at.warp, lanes);
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
            thread.fence(at, lane, order, |by| devices.include(order.scope, at, by));
        }
    }

    /// Some lanes access memory: compares each access with those that the memory remembers.
    pub(crate) fn access(&mut self, accesses: &Accesses<'_>) {
        let at = accesses.at;
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
            if accesses.order.is_strong() && accesses.what.reads() {
                let is_system = accesses.order.scope == Scope::System;
                let flag = match flags.get(&address) {
                    None if is_system => Some(&*by_host.get_or_insert_with(|| of_host(host, shown))),
                    flag => flag,
                };
                let sees = |flag: &&Flag| {
                    devices.include(flag.scope, flag.by, at)
                        && devices.include(accesses.order.scope, at, flag.by)
                };
                if let Some(flag) = flag.filter(sees) {
                    thread.see(flag, accesses.order);
                }
            }
            let access = access(at, lane, thread, accesses);
            for_each_word(address, accesses.size, |number, bytes| {
                let access = Access { bytes, ..access };
                if let Some(other) = compare(shadow.word(number), access, thread, devices) {
                    found.push((number * 4, other, access));
                }
            });
            if accesses.what.writes() {
                if store_flag(flags, address, (at, lane), thread, accesses, shown) {
                    *by_host = None;
                }
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
            read.what == What::Read && other.what == What::Update && self.is_compared(read)
        };
        if is_guess(first, second) || is_guess(second, first) || !self.reported.insert(pair) {
            return;
        }
        let (Some(one), Some(two)) = (self.side(first), self.side(second)) else { return };
        self.found.push(Race::new(target == Target::Shared, address, (one, first), (two, second)));
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

/// The devices of grids that aren't on the first one.
#[derive(Default)]
struct Devices(HashMap<Work, u32>);

impl Devices {
    /// Returns whether a scope, as seen by one thread, includes another.
    fn include(&self, scope: Scope, of: Place, other: Place) -> bool {
        match scope {
            Scope::Block | Scope::Cluster => (of.grid, of.block) == (other.grid, other.block),
            Scope::Device => {
                other.grid != HOST && of.grid != HOST && self.0.get(&of.grid) == self.0.get(&other.grid)
            }
            Scope::System => true,
        }
    }
}

/// Returns the access of a lane, for all bytes of a word.
fn access(at: Place, lane: usize, thread: &Lane, accesses: &Accesses<'_>) -> Access {
    Access {
        at,
        lanes: 1 << lane,
        clock: thread.clock,
        line: accesses.line,
        bytes: 0xf,
        strong: accesses.order.is_strong().then_some(accesses.order.scope),
        what: accesses.what,
        value: accesses.values[lane],
    }
}

/// Calls a function with each word of a range, and with the bytes of the word that are in the range.
fn for_each_word(address: u64, size: u64, mut visit: impl FnMut(u64, u8)) {
    let end = address + size;
    for word in address / 4..end.div_ceil(4) {
        let (from, to) = (address.max(word * 4) - word * 4, end.min(word * 4 + 4) - word * 4);
        visit(word, ((1 << to) - (1 << from)) as u8);
    }
}

/// Compares an access with those that a word remembers, which then remembers it, too. Returns an access with which it races.
fn compare(word: &mut Word, access: Access, thread: &Lane, devices: &Devices) -> Option<Access> {
    let is_known = |other: &Access| {
        let is_own = other.at == access.at && other.lanes == access.lanes;
        is_own
            || thread.known.knows(
                other.at,
                other.lanes & !if other.at == access.at { access.lanes } else { 0 },
                other.clock,
            )
    };
    let races = |other: &&Access| {
        let both_strong = other.strong.zip(access.strong).is_some_and(|(one, two)| {
            devices.include(one, other.at, access.at) && devices.include(two, access.at, other.at)
        });
        // It doesn't matter which of two equal values is stored last.
        let are_equal =
            other.what == What::Write && access.what == What::Write && other.value == access.value;
        other.bytes & access.bytes != 0 && !both_strong && !are_equal && !is_known(other)
    };
    let mut found = word.writes.iter().find(races).copied();
    if access.what.writes() {
        found = found.or_else(|| word.reads.iter().find(races).copied());
        word.reads.forget(access.bytes, is_known);
        // Of strong accesses that race with nobody, a later weak access has to be compared with all.
        word.writes.forget(access.bytes, |other| {
            other.strong.is_none() || access.strong.is_none() || is_known(other)
        });
        word.writes.add(access);
    } else {
        word.reads.forget(access.bytes, is_known);
        word.reads.add(access);
    }
    found
}

/// Remembers what a store passes on. A weak store, or one that passes on nothing, ends what others passed on there.
/// Returns whether it's passed on to the host.
fn store_flag(
    flags: &mut HashMap<u64, Flag>,
    address: u64,
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
    match (released, flags.get_mut(&address)) {
        (Some((knowledge, scope)), Some(flag)) if accesses.what == What::Update => {
            Knowledge::add_shared(&mut flag.knowledge, &knowledge);
            (flag.by, flag.scope) = (by, flag.scope.max(scope));
        }
        (Some((knowledge, scope)), _) => drop(flags.insert(address, Flag { knowledge, by, scope })),
        (None, Some(_)) if accesses.what == What::Write => drop(flags.remove(&address)),
        (None, _) => {}
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
