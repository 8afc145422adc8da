//! Schedules a warp's divergent groups of lanes: chooses which split runs next, and for how long.

use crate::run::warp::{Context, Next, Split, Stopped, Wait, Warp};
use crate::types::each;

/// How often in a row the split at the lowest instruction may run first while another split is ready.
const TIMEOUT: u32 = 256;

impl Warp {
    /// Runs up to `budget` instructions, and returns how many were run. Returns early when all threads wait
    /// or have ended.
    pub(crate) fn run<const WATCHED: bool>(
        &mut self,
        context: &mut Context<'_>,
        budget: u64,
    ) -> (u64, Result<(), Stopped>) {
        let begun = self.spin.now;
        let end = begun + budget;
        while self.spin.now < end {
            let Some(index) = self.choose(context, |_, _| true) else { break };
            if let Err(stopped) = self.run_split::<WATCHED>(index, context, end) {
                return (self.spin.now - begun, Err(stopped));
            }
        }
        (self.spin.now - begun, Ok(()))
    }

    /// Chooses the split that runs next, of those that `may_run`. `None` if no split can run.
    #[inline]
    pub(crate) fn choose(
        &mut self,
        context: &Context<'_>,
        may_run: impl Fn(&Warp, usize) -> bool,
    ) -> Option<usize> {
        self.wake(context);
        if self.splits.len() > 1 {
            self.merge();
        }
        let ready = |(index, split): &(usize, &Split)| split.wait == Wait::No && may_run(self, *index);
        let count = self.splits.iter().enumerate().filter(ready).count();
        let timeout = if count > 1 { self.timeout + 1 } else { 0 };
        let is_late = timeout > TIMEOUT;
        let candidates = self.splits.iter().enumerate().filter(ready);
        let chosen = if is_late {
            candidates.min_by_key(|(_, split)| split.ran)
        } else {
            candidates.min_by_key(|(_, split)| (usize::MAX - split.calls.len(), split.at))
        };
        let chosen = chosen.map(|(index, _)| index);
        self.timeout = if is_late { 0 } else { timeout };
        chosen
    }

    fn wake(&mut self, context: &Context<'_>) {
        let block = &context.blocks[self.block];
        for index in 0..self.splits.len() {
            let split = &self.splits[index];
            match split.wait {
                Wait::Barrier { id, generation, vote } if block.barriers[id].generation != generation => {
                    if let Some((to, tally)) = vote {
                        let result = block.barriers[id].result(tally);
                        let to = &self.rows[split.base + to.index()];
                        each(split.lanes, |lane| to[lane].set(result));
                    }
                    self.splits[index].wait = Wait::No;
                    self.spin.restart();
                }
                Wait::Cluster if context.barrier.generation != split.arrived => {
                    self.splits[index].wait = Wait::No;
                    self.spin.restart();
                }
                _ => {}
            }
        }
    }

    /// Merges splits that are at the same instruction in the same calls.
    fn merge(&mut self) {
        let free = |split: &Split| matches!(split.wait, Wait::No | Wait::Lanes);
        let mut index = 0;
        while index < self.splits.len() {
            let split = &self.splits[index];
            let same = |other: &Split| {
                other.at == split.at
                    && free(other)
                    && other.base == split.base
                    && other.arrived == split.arrived
                    && other.calls == split.calls
            };
            let next = index + 1;
            if free(split)
                && let Some(found) = self.splits[next..].iter().position(same)
            {
                let other = self.splits.swap_remove(next + found);
                let split = &mut self.splits[index];
                split.lanes |= other.lanes;
                split.wait = Wait::No;
            } else {
                index += 1;
            }
        }
    }

    /// Runs a split until it diverges, waits, ends, or catches up with another split.
    fn run_split<const WATCHED: bool>(
        &mut self,
        index: usize,
        context: &mut Context<'_>,
        end: u64,
    ) -> Result<(), Stopped> {
        let depth = self.splits[index].calls.len();
        let at = self.splits[index].at;
        let others = self.splits.iter().filter(|other| other.calls.len() == depth && other.at > at);
        let reconvergence = others.map(|other| other.at).min().unwrap_or(usize::MAX);
        // A lone split can stay in its loop. With several, each iteration is a chance to schedule another
        // one, so that a lane that spins can't starve the lane that it waits for.
        let alone = self.splits.len() == 1;
        self.splits[index].ran = self.spin.now;
        loop {
            self.spin.now += 1;
            let next =
                if WATCHED { self.execute_watched(index, context) } else { self.execute(index, context) };
            match next? {
                Next::Continue => {}
                Next::BackEdge if alone => {}
                Next::BackEdge | Next::Yield => return Ok(()),
            }
            if self.spin.now >= end || self.splits[index].at >= reconvergence {
                return Ok(());
            }
        }
    }
}
