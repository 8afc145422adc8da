//! Runs a grid in an order that someone else chooses, instruction by instruction where the order matters.
//!
//! Threads of a warp that run together stop before each *visible* instruction: an access that other threads can see the order
//! of. Everything else runs at once, because no order of it makes a difference that isn't a race.

use std::mem::take;

use crate::op::Op;
use crate::order::Scope;
use crate::races::Races;
use crate::run::explored::{Explored, Visible};
use crate::run::fault::Fault;
use crate::run::grid::{Cluster, Grid, Status, number};
use crate::run::memory::Memory;
use crate::run::poll::{Poll, Polling};
use crate::run::stuck::Stuck;
use crate::run::warp::{Context, Next, Stopped, Wait, Warp};

/// Threads of a warp that run together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Group {
    /// The number of the block in the grid.
    pub block: u32,
    /// The number of the warp in the block.
    pub warp: u32,
    /// The lowest lane of the threads.
    pub lane: u32,
}

/// The most instructions between two choices, after which others get a chance.
const BUDGET: u64 = 1 << 20;

/// So often a block may repeat a loop with a barrier without an effect, each time twice as often, before it counts as stuck.
const MOST_ROUNDS: u32 = 6;

/// The most blocks among which the next one is chosen.
const CHOICES: usize = 8;

impl Grid {
    /// Makes the grid run in an order that the caller chooses, before any step: by [`start_block`](Self::start_block) and
    /// [`advance`](Self::advance). The instructions of lines for which `is_visible` holds are visible, and those whose accesses
    /// have the scope of the system.
    pub fn explore(&mut self, is_visible: impl Fn(u32) -> bool) {
        let instructions = self.module.program().instructions.iter();
        let visible = instructions.map(|instruction| {
            let shown = instruction.order.is_strong() && instruction.order.scope == Scope::System;
            match &instruction.op {
                Op::Load { address, .. } | Op::Store { address, .. } | Op::Atomic { address, .. } => {
                    let visible = is_visible(instruction.line) || shown && address.space.may_be_global();
                    if visible { Visible::Yes } else { Visible::No }
                }
                // Who comes first counts: a barrier of some threads may be passed without the others.
                Op::Barrier { count, waits, .. } if count.is_some() || !waits => Visible::Yes,
                Op::Exit | Op::Return => Visible::AtTheEnd,
                _ => Visible::No,
            }
        });
        let visible = visible.collect();
        self.explored = Some(Explored { visible, unstarted: (0..self.clusters).collect() });
    }

    /// Returns the blocks of which one has to start now, because there's room: of many, some.
    pub fn blocks_to_start(&self) -> Vec<u32> {
        let Some(Explored { unstarted, .. }) = &self.explored else { return Vec::new() };
        if self.running.len() >= self.room() {
            return Vec::new();
        }
        let blocks = unstarted.iter().take(CHOICES - 1).chain(unstarted.iter().skip(CHOICES - 1).next_back());
        let size = self.cluster.iter().product::<u32>();
        // Blocks that all have room may as well start one after the other.
        let has_all = self.room() - self.running.len() >= unstarted.len();
        blocks.take(if has_all { 1 } else { CHOICES }).map(|cluster| *cluster as u32 * size).collect()
    }

    /// Returns how many blocks haven't started.
    pub fn unstarted(&self) -> usize {
        let clusters = self.explored.as_ref().map_or(0, |explored| explored.unstarted.len());
        clusters * self.cluster.iter().product::<u32>() as usize
    }

    /// Starts a block.
    pub fn start_block(&mut self, block: u32, memory: &dyn Memory, races: &mut Races) -> Status {
        let index = u64::from(block / self.cluster.iter().product::<u32>());
        if !self.explored.as_mut().is_some_and(|explored| explored.unstarted.remove(&index)) {
            return Status::Running { progressed: false };
        }
        self.start_cluster(index, Some(races));
        let place = self.running.len() - 1;
        self.settle(place, memory, races)
    }

    /// Returns the threads that can run now, in the order of their numbers.
    pub fn ready(&mut self, memory: &dyn Memory) -> Vec<Group> {
        let mut ready = Vec::new();
        for place in 0..self.running.len() {
            let Some(mut cluster) = self.running.remove(place) else { continue };
            for warp in 0..cluster.warps.len() {
                self.within(&mut cluster, warp, memory, None, |warp, context| warp.end_polls(context));
                let (block, its) = (self.number_of(&cluster, warp), &cluster.warps[warp]);
                let can_run =
                    |index: &usize| its.splits[*index].wait == Wait::No && its.polls(*index).is_none();
                ready.extend((0..its.splits.len()).filter(can_run).map(|index| Group {
                    block,
                    warp: its.number(),
                    lane: its.splits[index].lanes.trailing_zeros(),
                }));
            }
            self.running.insert(place, cluster);
        }
        ready.sort_unstable();
        ready
    }

    /// Runs threads that are [ready](Self::ready): the instruction before which they stand, and all up to the next visible one.
    /// That's progress if any of it had an effect.
    pub fn advance(&mut self, group: Group, memory: &dyn Memory, races: &mut Races) -> Status {
        let found = self.find(group);
        let Some(((place, warp, split), mut cluster)) =
            found.and_then(|found| Some((found, self.running.remove(found.0)?)))
        else {
            return Status::Running { progressed: false };
        };
        let crossed = self.within(&mut cluster, warp, memory, Some(races), |warp, context| {
            let op = &context.program.instructions[warp.splits[split].at].op;
            warp.has_shown |= matches!(op, Op::Store { .. } | Op::Atomic { .. });
            warp.cross(split, context)
        });
        if let Err(stopped) = crossed {
            return self.fail(&cluster, warp, stopped);
        }
        self.running.insert(place, cluster);
        self.settle(place, memory, races)
    }

    /// Lets threads go on that count how often they have looked, or, if `timed`, those that look at a clock. Returns whether
    /// there are any.
    pub fn release(&mut self, timed: bool) -> bool {
        let is_released = |poll: &Poll| if timed { poll.is_timed } else { poll.polling == Polling::Counting };
        let mut any = false;
        for warp in self.running.iter_mut().flat_map(|cluster| &mut cluster.warps) {
            let before = warp.polls.len();
            let is_stuck = |poll: &Poll| poll.has_barrier && !timed && warp.releases >= MOST_ROUNDS;
            warp.polls.retain(|poll| poll.polling == Polling::No || !is_released(poll) || is_stuck(poll));
            let released = warp.polls.len() != before;
            warp.releases += u32::from(released && !timed);
            any |= released;
        }
        any
    }

    /// Returns what each group of threads that hasn't ended waits for.
    pub fn stuck(&self) -> Vec<Stuck> {
        let program = self.module.program();
        let warps =
            self.running.iter().flat_map(|cluster| cluster.warps.iter().map(move |warp| (cluster, warp)));
        let all = warps.flat_map(|(cluster, warp)| {
            let block = cluster.blocks[warp.block].index;
            (0..warp.splits.len()).map(move |index| Stuck::new(program, warp, index, block))
        });
        all.collect()
    }

    /// Returns where threads stand.
    pub fn at(&self, group: Group) -> Option<Stuck> {
        let (place, warp, split) = self.find(group)?;
        let cluster = &self.running[place];
        let warp = &cluster.warps[warp];
        Some(Stuck::new(self.module.program(), warp, split, cluster.blocks[warp.block].index))
    }

    /// Returns the place of the cluster of threads among those that run, their warp in it, and their split.
    fn find(&self, group: Group) -> Option<(usize, usize, usize)> {
        let is_it = |cluster: &Cluster, warp: &usize| {
            self.number_of(cluster, *warp) == group.block && cluster.warps[*warp].number() == group.warp
        };
        let mut found = self.running.iter().enumerate().filter_map(|(place, cluster)| {
            (0..cluster.warps.len()).find(|warp| is_it(cluster, warp)).map(|warp| (place, warp))
        });
        let (place, warp) = found.next()?;
        let splits = &self.running[place].warps[warp].splits;
        let split = splits.iter().position(|split| split.lanes.trailing_zeros() == group.lane)?;
        Some((place, warp, split))
    }

    /// Runs a cluster until all of its threads stand before a visible instruction, wait, or poll.
    fn settle(&mut self, place: usize, memory: &dyn Memory, races: &mut Races) -> Status {
        let Some(mut cluster) = self.running.remove(place) else {
            return Status::Running { progressed: false };
        };
        let Some(explored) = self.explored.take() else { return Status::Running { progressed: false } };
        let mut left = BUDGET;
        let mut failed = None;
        loop {
            let before = left;
            for warp in 0..cluster.warps.len() {
                let settled = self.within(&mut cluster, warp, memory, Some(races), |warp, context| {
                    warp.settle(&explored.visible, context, &mut left)
                });
                if let Err(stopped) = settled {
                    failed = Some((warp, stopped));
                    break;
                }
            }
            if failed.is_some() || left == before || left == 0 {
                break;
            }
        }
        self.explored = Some(explored);
        let mut progressed = false;
        for warp in &mut cluster.warps {
            progressed |= take(&mut warp.had_effect);
        }
        if let Some((warp, stopped)) = failed {
            return self.fail(&cluster, warp, stopped);
        }
        if cluster.blocks.iter().any(|block| block.live > 0) {
            self.running.insert(place, cluster);
        } else {
            self.retire(cluster, Some(races));
        }
        match (&self.explored, self.watched) {
            (Some(explored), work) if explored.unstarted.is_empty() && self.running.is_empty() => {
                work.into_iter().for_each(|work| races.end(work));
                Status::Done
            }
            _ => Status::Running { progressed },
        }
    }

    fn fail(&mut self, cluster: &Cluster, warp: usize, stopped: Stopped) -> Status {
        let fault: Fault = self.fault(cluster, warp, stopped);
        self.running.clear();
        if let Some(explored) = &mut self.explored {
            explored.unstarted.clear();
        }
        Status::Fault(Box::new(fault))
    }

    fn number_of(&self, cluster: &Cluster, warp: usize) -> u32 {
        number(cluster.blocks[cluster.warps[warp].block].index, self.launch.grid)
    }
}

impl Warp {
    /// The number of the warp in its block.
    pub(crate) fn number(&self) -> u32 {
        self.special[4][0].get() as u32
    }

    /// Runs all splits until each stands before a visible instruction, waits, or polls.
    fn settle(
        &mut self,
        visible: &[Visible],
        context: &mut Context<'_>,
        left: &mut u64,
    ) -> Result<(), Stopped> {
        while *left > 0 {
            let chosen = self
                .choose(context, |warp, index| !warp.stands(index, visible) && warp.polls(index).is_none());
            let Some(index) = chosen else { break };
            self.splits[index].ran = self.spin.now;
            loop {
                *left -= 1;
                let lanes = self.splits[index].lanes;
                let next = self.cross(index, context)?;
                let goes_on = matches!(next, Next::Continue)
                    && *left > 0
                    && self.splits.get(index).is_some_and(|split| split.lanes == lanes)
                    && !self.stands(index, visible);
                if !goes_on || self.splits.len() > 1 {
                    break;
                }
            }
        }
        // Splits that now stand at the same instruction are one.
        self.choose(context, |_, _| true);
        Ok(())
    }

    /// Returns whether a split stands before a visible instruction.
    fn stands(&self, index: usize, visible: &[Visible]) -> bool {
        let split = &self.splits[index];
        match visible[split.at] {
            Visible::No => false,
            Visible::Yes => true,
            Visible::AtTheEnd => self.has_shown && split.calls.is_empty(),
        }
    }

    /// Executes the next instruction of a split, visible or not, and notes what a loop reads.
    fn cross(&mut self, index: usize, context: &mut Context<'_>) -> Result<Next, Stopped> {
        let (at, lanes) = (self.splits[index].at, self.splits[index].lanes);
        self.note_reads(index, context);
        self.spin.now += 1;
        let next = self.execute_watched(index, context)?;
        if self.spin.had_effect() {
            if matches!(context.program.instructions[at].op, Op::Barrier { .. }) {
                self.note_barrier(lanes);
            } else {
                self.had_effect = true;
                self.forget_polls(lanes);
            }
        }
        if let (Next::BackEdge, Some(to)) = (&next, self.splits.get(index).map(|split| split.at))
            && !context.program.is_delay(to..at)
        {
            self.note_jump(index, context.program);
            self.tell_polls(index, context);
        }
        Ok(next)
    }

    /// Tells the detector of the reads of a split that polls: others can see their order.
    fn tell_polls(&self, index: usize, context: &mut Context<'_>) {
        if let (Some(poll), Some(watch)) = (self.polls(index), &mut context.watch) {
            poll.reads.iter().for_each(|read| watch.races.polls(watch.grid, read.line));
        }
    }
}
