//! The threads of running blocks: what each knows, and how barriers, fences and flags pass that on.

use std::collections::HashMap;
use std::sync::Arc;

use super::clock::{Knowledge, Place};
use super::shadow::Shadow;
use crate::order::{Order, Scope};

/// A thread.
#[derive(Clone)]
pub(crate) struct Lane {
    /// Rises with everything that passes on what the thread did.
    pub clock: u32,
    pub known: Arc<Knowledge>,
    /// What its later strong stores pass on.
    pub fenced: Option<Fenced>,
    /// What strong loads since the last fence have seen, by whom it was stored, and at which scope.
    pub seen: Vec<Seen>,
}

/// What a thread knew at its last fence. Most fences pass on nothing, so its own clock isn't added before it's needed.
#[derive(Clone)]
pub(crate) struct Fenced {
    known: Arc<Knowledge>,
    /// The thread's own clock at the fence, unless it's in `known`.
    own: Option<u32>,
    scope: Scope,
}

/// What a thread has seen of another warp's flags, and what the last one passed on.
#[derive(Clone)]
pub(crate) struct Seen {
    flag: Flag,
    last: Arc<Knowledge>,
}

/// What a strong store passes on to those who see it.
#[derive(Clone)]
pub(crate) struct Flag {
    pub knowledge: Arc<Knowledge>,
    pub by: Place,
    pub scope: Scope,
}

pub(crate) struct Warp {
    pub lanes: Vec<Lane>,
    /// The lanes that are no threads, or have ended.
    pub ended: u32,
    /// The lanes that wait at a `bar.warp.sync`, by its members.
    syncs: HashMap<u32, u32>,
}

/// A running block.
pub(crate) struct Block {
    pub warps: Vec<Warp>,
    pub shared: Shadow,
    /// The flags in shared memory.
    pub flags: HashMap<u64, Flag>,
    barriers: HashMap<usize, Vec<Arrival>>,
}

/// Lanes that have arrived at a barrier.
struct Arrival {
    warp: u8,
    lanes: u32,
    waits: bool,
    /// The lanes' clocks and knowledge at the arrival.
    clocks: [u32; 32],
    known: Vec<Arc<Knowledge>>,
}

impl Seen {
    /// Adds this to what was seen before, of each warp once.
    fn add_to(&self, all: &mut Vec<Seen>) {
        match all.iter_mut().find(|seen| (seen.flag.by, seen.flag.scope) == (self.flag.by, self.flag.scope)) {
            // Most often the thread polls the same word.
            Some(seen) if Arc::ptr_eq(&seen.last, &self.last) => {}
            Some(seen) => {
                Knowledge::add_shared(&mut seen.flag.knowledge, &self.flag.knowledge);
                seen.last = self.last.clone();
            }
            None => all.push(self.clone()),
        }
    }
}

impl Lane {
    /// Returns what the thread knows together with what it did, and begins a new time for it.
    pub(crate) fn publish(&mut self, at: Place, lane: usize) -> Arc<Knowledge> {
        let mut knowledge = (*self.known).clone();
        let mut clocks = [0; 32];
        clocks[lane] = self.clock;
        knowledge.add_lanes(at, 1 << lane, &clocks);
        self.clock += 1;
        Arc::new(knowledge)
    }

    /// Executes a fence. `includes` says whether its scope includes another thread.
    pub(crate) fn fence(&mut self, order: Order, includes: impl Fn(Place) -> bool) {
        if order.acquires() {
            for Seen { flag, .. } in std::mem::take(&mut self.seen) {
                if includes(flag.by) {
                    Knowledge::add_shared(&mut self.known, &flag.knowledge);
                }
            }
        }
        if order.releases() {
            self.fenced =
                Some(Fenced { known: self.known.clone(), own: Some(self.clock), scope: order.scope });
            self.clock += 1;
        }
    }

    /// Takes what a strong load has seen.
    pub(crate) fn see(&mut self, flag: &Flag, order: Order) {
        if order.acquires() {
            Knowledge::add_shared(&mut self.known, &flag.knowledge);
            return;
        }
        Seen { flag: flag.clone(), last: flag.knowledge.clone() }.add_to(&mut self.seen);
    }

    /// Returns what a strong store of the thread passes on, with its scope.
    pub(crate) fn release(
        &mut self,
        at: Place,
        lane: usize,
        order: Order,
    ) -> Option<(Arc<Knowledge>, Scope)> {
        if order.releases() {
            return Some((self.publish(at, lane), order.scope));
        }
        let Fenced { known, own, scope } = self.fenced.as_mut()?;
        if let Some(clock) = own.take() {
            let mut clocks = [0; 32];
            clocks[lane] = clock;
            Arc::make_mut(known).add_lanes(at, 1 << lane, &clocks);
        }
        Some((known.clone(), order.scope.min(*scope)))
    }
}

impl Block {
    pub(crate) fn new(threads: u32, begins: &Arc<Knowledge>) -> Self {
        let lane = Lane { clock: 1, known: begins.clone(), fenced: None, seen: Vec::new() };
        let warp = |first: u32| Warp {
            lanes: vec![lane.clone(); 32],
            ended: if threads - first >= 32 { 0 } else { u32::MAX << (threads - first) },
            syncs: HashMap::new(),
        };
        Block {
            warps: (0..threads).step_by(32).map(warp).collect(),
            shared: Shadow::default(),
            flags: HashMap::new(),
            barriers: HashMap::new(),
        }
    }

    /// Lanes arrive at a barrier of the block.
    pub(crate) fn arrive(&mut self, at: Place, id: usize, lanes: u32, waits: bool) {
        let warp = &mut self.warps[at.warp as usize];
        let (mut clocks, mut known) = ([0; 32], Vec::new());
        for lane in each(lanes) {
            let thread = &mut warp.lanes[lane];
            clocks[lane] = thread.clock;
            thread.clock += 1;
            add_distinct(&mut known, &thread.known);
        }
        let arrival = Arrival { warp: at.warp, lanes, waits, clocks, known };
        self.barriers.entry(id).or_default().push(arrival);
    }

    /// A barrier is passed: all that arrived is known to those who waited. Fences before it count as if those who
    /// waited had made them, because devices do as much, and programs rely on it.
    pub(crate) fn pass(&mut self, at: Place, id: usize) {
        let arrivals = self.barriers.remove(&id).unwrap_or_default();
        let mut distinct: Vec<Arc<Knowledge>> = Vec::new();
        let mut there = vec![0; self.warps.len()];
        let mut last = 0;
        for arrival in &arrivals {
            arrival.known.iter().for_each(|known| add_distinct(&mut distinct, known));
            there[arrival.warp as usize] |= arrival.lanes;
            last = last.max(arrival.clocks.into_iter().max().unwrap_or(0));
        }
        for warp in &self.warps {
            // A thread that has ended counts as arrived.
            for lane in each(warp.ended) {
                add_distinct(&mut distinct, &warp.lanes[lane].known);
                last = last.max(warp.lanes[lane].clock);
            }
        }
        let mut all = joined(&distinct);
        let are_all = self.warps.iter().zip(&there).all(|(warp, there)| warp.ended | there == u32::MAX);
        // A thread that doesn't wait may have gone on at a lower clock.
        if are_all && arrivals.iter().all(|arrival| arrival.waits) {
            all.add_block(at.grid, at.block, last);
        } else {
            for arrival in &arrivals {
                all.add_lanes(Place { warp: arrival.warp, ..at }, arrival.lanes, &arrival.clocks);
            }
        }
        let (fenced, seen) = self.fences_of(at, &arrivals);
        let all = Arc::new(all);
        for arrival in arrivals.iter().filter(|arrival| arrival.waits) {
            for lane in each(arrival.lanes) {
                let thread = &mut self.warps[arrival.warp as usize].lanes[lane];
                thread.known = all.clone();
                thread.clock = last + 1;
                thread.fenced.clone_from(&fenced);
                thread.seen.clone_from(&seen);
            }
        }
    }

    /// Returns what the fences of arrived threads pass on together, and what their loads have seen.
    fn fences_of(&self, at: Place, arrivals: &[Arrival]) -> (Option<Fenced>, Vec<Seen>) {
        let (mut scope, mut distinct, mut seen) = (None, Vec::new(), Vec::new());
        // The clocks of threads at their own fences, by warp.
        let mut own: Vec<(u8, u32, [u32; 32])> = Vec::new();
        for arrival in arrivals {
            let (mut lanes, mut clocks) = (0, [0; 32]);
            for lane in each(arrival.lanes) {
                let thread = &self.warps[arrival.warp as usize].lanes[lane];
                if let Some(fenced) = &thread.fenced {
                    scope = scope.max(Some(fenced.scope));
                    add_distinct(&mut distinct, &fenced.known);
                    if let Some(clock) = fenced.own {
                        (clocks[lane], lanes) = (clock, lanes | 1 << lane);
                    }
                }
                thread.seen.iter().for_each(|its| its.add_to(&mut seen));
            }
            own.push((arrival.warp, lanes, clocks));
        }
        let fenced = scope.map(|scope| {
            let mut known = joined(&distinct);
            let all = own.iter().map(|(_, lanes, _)| lanes.count_ones()).sum::<u32>();
            let threads = self.warps.iter().map(|warp| warp.ended.count_zeros()).sum::<u32>();
            if all == threads && own.len() >= self.warps.len() {
                // They all know what all did up to the first of these clocks.
                let first =
                    own.iter().flat_map(|(_, lanes, clocks)| each(*lanes).map(|lane| clocks[lane])).min();
                known.add_block(at.grid, at.block, first.unwrap_or(0));
            }
            for (warp, lanes, clocks) in &own {
                known.add_lanes(Place { warp: *warp, ..at }, *lanes, clocks);
            }
            Fenced { known: Arc::new(known), own: None, scope }
        });
        (fenced, seen)
    }

    /// Lanes arrive at a `bar.warp.sync` with these members. The last ones let all pass.
    pub(crate) fn sync(&mut self, at: Place, members: u32, lanes: u32) {
        let warp = &mut self.warps[at.warp as usize];
        *warp.syncs.entry(members).or_default() |= lanes;
        warp.pass(at, members);
    }

    pub(crate) fn end(&mut self, at: Place, lanes: u32) {
        let warp = &mut self.warps[at.warp as usize];
        warp.ended |= lanes;
        let waiting: Vec<u32> = warp.syncs.keys().copied().collect();
        waiting.into_iter().for_each(|members| warp.pass(at, members));
    }
}

impl Warp {
    /// Lets the lanes pass a `bar.warp.sync` if all of its members have arrived or ended.
    fn pass(&mut self, at: Place, members: u32) {
        let there = self.syncs.get(&members).copied().unwrap_or_default();
        if members & !self.ended & !there != 0 {
            return;
        }
        self.syncs.remove(&members);
        let (mut clocks, mut distinct) = ([0; 32], Vec::new());
        let all = there | members & self.ended;
        for lane in each(all) {
            clocks[lane] = self.lanes[lane].clock;
            add_distinct(&mut distinct, &self.lanes[lane].known);
        }
        let mut known = joined(&distinct);
        known.add_lanes(at, all, &clocks);
        let (known, last) = (Arc::new(known), clocks.into_iter().max().unwrap_or(0));
        for lane in each(there) {
            (self.lanes[lane].known, self.lanes[lane].clock) = (known.clone(), last + 1);
        }
    }
}

/// Returns the numbers of the lanes of a mask.
pub(crate) fn each(lanes: u32) -> impl Iterator<Item = usize> {
    (0..32).filter(move |lane| lanes & 1 << lane != 0)
}

fn add_distinct(all: &mut Vec<Arc<Knowledge>>, one: &Arc<Knowledge>) {
    if !all.iter().any(|other| Arc::ptr_eq(other, one)) {
        all.push(one.clone());
    }
}

fn joined(all: &[Arc<Knowledge>]) -> Knowledge {
    let mut joined = all.first().map(|first| (**first).clone()).unwrap_or_default();
    all.iter().skip(1).for_each(|other| joined.add(other));
    joined
}
