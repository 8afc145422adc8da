//! Executes collectives of a warp: shuffles, votes, matches and reductions.

use crate::op::{Collective, Op, Shuffle, Vote};
use crate::run::warp::{Context, Next, mask};
use crate::run::warp::{Wait, Warp};
use crate::slot::Slot;
use crate::types::{Row, each};

type Operation = (Collective, Slot, Option<Slot>, [Slot; 3], Slot);

impl Warp {
    /// Executes a collective for those lanes whose members have all arrived. The other lanes wait.
    pub(crate) fn together(&mut self, index: usize, context: &mut Context<'_>, operation: Operation) -> Next {
        let (what, to, also, operands, members) = operation;
        let (at, base) = (self.splits[index].at, self.splits[index].base);
        let mut left = self.splits[index].lanes;
        let mut done = 0;
        while left != 0 {
            let row = self.row(context, base, members);
            let wanted = row[left.trailing_zeros() as usize].get() as u32;
            let group = left & mask(|lane| row[lane].get() as u32 == wanted);
            left &= !group;
            if matches!(what, Collective::Sync) && wanted & self.live & !group != 0 {
                done |= self.sync_elsewhere(context, index, wanted, group);
            } else if wanted & self.live & !group == 0 {
                let row = |slot| self.row(context, base, slot);
                act(what, group, row(to), also.map(row), operands.map(row));
                done |= group;
            }
        }
        let lanes = self.splits[index].lanes;
        if done != 0 && done != lanes {
            self.split_off(index, done, at + 1);
        } else if done == lanes {
            self.splits[index].at += 1;
            return Next::Continue;
        }
        self.splits[index].wait = Wait::Lanes;
        Next::Yield
    }

    /// Executes `bar.warp.sync`, whose lanes may arrive at different instructions. Releases the waiting lanes
    /// if the last one has arrived, and returns the lanes of `group` that may continue.
    fn sync_elsewhere(&mut self, context: &Context<'_>, index: usize, wanted: u32, group: u32) -> u32 {
        let waiting: Vec<usize> = (0..self.splits.len())
            .filter(|&other| {
                let split = &self.splits[other];
                let Op::Collective { what: Collective::Sync, members, .. } =
                    context.program.instructions[split.at].op
                else {
                    return false;
                };
                let row = self.row(context, split.base, members);
                other != index
                    && split.wait == Wait::Lanes
                    && mask(|lane| row[lane].get() as u32 == wanted) & split.lanes == split.lanes
            })
            .collect();
        let there = waiting.iter().fold(group, |lanes, &other| lanes | self.splits[other].lanes);
        if wanted & self.live & !there != 0 {
            return 0;
        }
        for other in waiting {
            self.splits[other].wait = Wait::No;
            self.splits[other].at += 1;
        }
        group
    }
}

fn act(what: Collective, lanes: u32, to: &Row, also: Option<&Row>, [a, b, c]: [&Row; 3]) {
    // The result may share a row with an operand, so all values are read first.
    let values: [u64; 32] = std::array::from_fn(|lane| a[lane].get());
    let set = |row: &Row, value: u64| each(lanes, |lane| row[lane].set(value));
    let yes = lanes & mask(|lane| values[lane] & 1 == 1);
    match what {
        Collective::Sync => {}
        Collective::Elect => {
            let first = lanes.trailing_zeros();
            set(to, u64::from(first));
            each(lanes, |lane| {
                also.into_iter().for_each(|row| row[lane].set(u64::from(lane as u32 == first)))
            });
        }
        Collective::Shuffle(mode) => {
            each(lanes, |lane| {
                let (from, inside) = source(mode, lane as u32, b[lane].get() as u32, c[lane].get() as u32);
                to[lane].set(values[from as usize & 31]);
                if let Some(also) = also {
                    also[lane].set(u64::from(inside));
                }
            });
        }
        Collective::Vote(Vote::All) => set(to, u64::from(yes == lanes)),
        Collective::Vote(Vote::Any) => set(to, u64::from(yes != 0)),
        Collective::Vote(Vote::Uniform) => set(to, u64::from(yes == lanes || yes == 0)),
        Collective::Vote(Vote::Ballot) => set(to, u64::from(yes)),
        Collective::Match { all, wide } => {
            let value = |lane: usize| if wide { values[lane] } else { values[lane] & 0xffff_ffff };
            each(lanes, |lane| {
                let same = lanes & mask(|other| value(other) == value(lane));
                to[lane].set(u64::from(if !all || same == lanes { same } else { 0 }));
                if let Some(also) = also {
                    also[lane].set(u64::from(same == lanes));
                }
            });
        }
        Collective::Reduce(update) => {
            let mut result = None;
            each(lanes, |lane| {
                result = Some(result.map_or(values[lane], |found| update(found, values[lane], 0)));
            });
            set(to, result.unwrap_or(0));
        }
    }
}

/// Returns the source lane of a shuffle, and whether it is inside the segment.
fn source(mode: Shuffle, lane: u32, by: u32, bounds: u32) -> (u32, bool) {
    let (clamp, segment, by) = (bounds & 31, bounds >> 8 & 31, by & 31);
    let last = lane & segment | clamp & !segment;
    let (from, inside) = match mode {
        Shuffle::Up => (lane.wrapping_sub(by), lane as i32 - by as i32 >= last as i32),
        Shuffle::Down => (lane + by, lane + by <= last),
        Shuffle::Butterfly => (lane ^ by, lane ^ by <= last),
        Shuffle::Index => {
            let from = lane & segment | by & !segment;
            (from, from <= last)
        }
    };
    (if inside { from } else { lane }, inside)
}
