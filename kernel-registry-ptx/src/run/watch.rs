//! Tells the detector of races what instructions do to memory, and how they order threads.

use crate::address::{LOCAL_WINDOW, MOST_SHARED, Place as Address, Space};
use crate::op::{Collective, Op};
use crate::order::{Order, Scope, Strength};
use crate::races::{AccessKind, Accesses, Place, Target};
use crate::run::warp::{Context, Next, Split, Stopped, Warp, Watch, mask};
use crate::slot::Address as Operand;
use crate::types::each;

impl Warp {
    /// Executes the next instruction of a split, and tells the detector.
    pub(crate) fn execute_watched(
        &mut self,
        index: usize,
        context: &mut Context<'_>,
    ) -> Result<Next, Stopped> {
        let Some(mut watch) = context.watch.take() else { return self.execute(index, context) };
        let lanes = self.guarded(index, context);
        let block = &context.blocks[self.block];
        let generations = block.barriers.each_ref().map(|barrier| barrier.generation);
        let live = self.live;
        if lanes != 0 {
            self.tell(index, lanes, context, &mut watch);
        }
        context.watch = Some(watch);
        let next = self.execute(index, context);
        let Some(watch) = context.watch.take() else { return next };
        let at = self.at(&watch);
        if live != self.live {
            watch.races.end_lanes(at, live & !self.live);
        }
        let block = &context.blocks[self.block];
        for (id, before) in generations.into_iter().enumerate() {
            if block.barriers[id].generation != before {
                watch.races.pass(at, id);
            }
        }
        context.watch = Some(watch);
        next
    }

    fn at(&self, watch: &Watch<'_>) -> Place {
        Place { grid: watch.grid, block: watch.block, warp: self.number() as u8 }
    }

    /// Returns the lanes of a split for which the next instruction's guard is true.
    pub(crate) fn guarded(&self, index: usize, context: &Context<'_>) -> u32 {
        let Split { at, lanes, base, .. } = self.splits[index];
        let Some((slot, negated)) = context.program.instructions[at].guard else { return lanes };
        let row = self.row(context, base, slot);
        let set = mask(|lane| row[lane].get() & 1 == 1);
        lanes & if negated { !set } else { set }
    }

    fn tell(&self, index: usize, lanes: u32, context: &Context<'_>, watch: &mut Watch<'_>) {
        let Split { at: number, base, local, .. } = self.splits[index];
        let instruction = &context.program.instructions[number];
        let (at, order) = (self.at(watch), instruction.order);
        let first = lanes.trailing_zeros() as usize;
        let is_diverged = self.splits.len() > 1;
        let mut told =
            |address: &Operand, what, order, size, element, stored: Option<&dyn Fn(usize, u64) -> u64>| {
                let addresses = self.addresses(context, address, lanes, base).0;
                let told = Told { what, order, size, element, stored, line: instruction.line, is_diverged };
                told.access(at, lanes, &addresses, address.space, local, watch);
            };
        match &instruction.op {
            Op::Load { to, kind, address } => {
                let size = kind.size() * to.len() as u64;
                told(address, AccessKind::Read, order, size, kind.size(), None);
            }
            Op::Store { from, kind, address } => {
                let size = kind.size() * from.len() as u64;
                let stored =
                    |lane: usize, part: u64| self.row(context, base, from[part as usize])[lane].get();
                told(address, AccessKind::Write, order, size, kind.size(), Some(&stored));
            }
            Op::Atomic { kind, address, .. } => {
                // What isn't ordered otherwise is relaxed.
                let weak = Order { strength: Strength::Relaxed, scope: Scope::Device };
                let order = if order.is_strong() { order } else { weak };
                told(address, AccessKind::Update, order, kind.size(), kind.size(), None);
            }
            Op::Copy { to, from, size } => {
                // The copy itself refuses more than a block can have.
                let bytes = self.row(context, base, *size)[first].get().min(MOST_SHARED);
                told(from, AccessKind::Read, Order::default(), bytes, bytes, None);
                told(to, AccessKind::Write, Order::default(), bytes, bytes, None);
            }
            Op::Fence => watch.races.fence(at, lanes, order),
            Op::Barrier { id, waits, .. } => {
                let id = self.row(context, base, *id)[first].get() as usize;
                watch.races.arrive(at, id, lanes, *waits);
            }
            Op::Collective { what: Collective::Sync, members, .. } => {
                let row = self.row(context, base, *members);
                let mut left = lanes;
                while left != 0 {
                    let members = row[left.trailing_zeros() as usize].get() as u32;
                    let group = left & mask(|lane| row[lane].get() as u32 == members);
                    watch.races.sync(at, members, group);
                    left &= !group;
                }
            }
            _ => {}
        }
    }
}

/// An instruction's accesses, before it's known in which spaces they are.
struct Told<'a> {
    what: AccessKind,
    order: Order,
    size: u64,
    element: u64,
    stored: Option<&'a dyn Fn(usize, u64) -> u64>,
    line: u32,
    is_diverged: bool,
}

impl Told<'_> {
    fn access(
        &self,
        at: Place,
        lanes: u32,
        addresses: &[u64; 32],
        space: Space,
        frame: u64,
        watch: &mut Watch<'_>,
    ) {
        let (mut global, mut shared, mut places) = (0, 0, [0; 32]);
        each(lanes, |lane| match space.place(addresses[lane], frame) {
            // No memory has a higher address: the access is about to fail.
            Address::Global(address) if address < LOCAL_WINDOW => {
                (places[lane], global) = (address, global | 1 << lane);
            }
            Address::Shared(0, offset) => (places[lane], shared) = (offset, shared | 1 << lane),
            _ => {}
        });
        for (target, lanes) in [(Target::Global, global), (Target::Shared, shared)] {
            if lanes != 0 {
                let Told { what, order, size, element, stored, line, is_diverged } = *self;
                let addresses = &places;
                let accesses = Accesses {
                    at,
                    lanes,
                    target,
                    addresses,
                    size,
                    element,
                    what,
                    order,
                    line,
                    is_diverged,
                    stored,
                };
                watch.races.access(&accesses);
            }
        }
    }
}
