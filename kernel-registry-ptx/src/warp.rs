//! 32 threads that run together as long as they are at the same place.
//!
//! Threads that part become splits, each with a place of its own. The split in the innermost call goes first, and there
//! the one at the lowest place: so threads that part meet again at the end of an `if` or of a loop, where compilers
//! put the code behind it. A split that waits for others too long gets a turn out of order, or a thread that spins
//! would never see what its neighbour is about to write.

use crate::execute::{Context, Next, Stopped};
use crate::op::{Slot, Tally};
use crate::program::Function;
use crate::spin::Spin;
use crate::types::{Row, each, row};

pub(crate) struct Warp {
    /// The rank of its block in the cluster.
    pub block: usize,
    /// Its special registers.
    pub special: [Row; 10],
    /// The registers of all calls, the outermost first.
    pub rows: Vec<Row>,
    /// Local memory, lane by lane.
    pub local: Vec<u8>,
    /// Bytes of local memory a lane.
    pub local_size: u64,
    pub splits: Vec<Split>,
    /// The lanes that are threads of the block.
    all: u32,
    /// Those that have not ended.
    pub live: u32,
    /// Decisions in a row that left a split waiting.
    patience: u32,
    pub spin: Spin,
}

/// Threads at the same place, in the same calls.
pub(crate) struct Split {
    pub at: usize,
    pub lanes: u32,
    pub function: usize,
    /// Where the registers of the running function begin.
    pub base: usize,
    /// Where its frame begins.
    pub local: u64,
    /// The calls that lead here.
    pub calls: Vec<Call>,
    pub wait: Wait,
    /// The generation of the cluster's barrier at which these threads arrived.
    pub arrived: u64,
    /// When it last began to run.
    ran: u64,
}

#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Call {
    pub at: usize,
    pub function: usize,
    pub base: usize,
    pub local: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wait {
    No,
    /// For lanes of the warp, at the instruction where the split is.
    Lanes,
    /// For a barrier to get beyond a generation; then votes go to a register.
    Barrier {
        id: usize,
        generation: u64,
        vote: Option<(Slot, Tally)>,
    },
    Cluster,
}

/// How often the lowest split may go first while another one waits.
const PATIENCE: u32 = 256;

impl Warp {
    pub(crate) fn new(block: usize, number: u32, sizes: [u32; 3], local: u64) -> Self {
        let threads = sizes.iter().product::<u32>() - number * 32;
        let all = if threads >= 32 { u32::MAX } else { (1 << threads) - 1 };
        let special = [const { 0 }; 10].map(row);
        for lane in 0..32 {
            let thread = number * 32 + lane;
            let values = [
                thread % sizes[0],
                thread / sizes[0] % sizes[1],
                thread / sizes[0] / sizes[1],
                lane,
                number,
                1 << lane,
                u32::MAX >> (31 - lane),
                (1 << lane) - 1,
                u32::MAX << lane,
                (u32::MAX << lane) & !(1 << lane),
            ];
            for (row, value) in special.iter().zip(values) {
                row[lane as usize].set(u64::from(value));
            }
        }
        Self {
            block,
            special,
            rows: Vec::new(),
            local: vec![0; 32 * local as usize],
            local_size: local,
            splits: Vec::new(),
            all,
            live: 0,
            patience: 0,
            spin: Spin::default(),
        }
    }

    pub(crate) fn start(&mut self, kernel: usize, function: &Function) {
        self.reserve(function.registers);
        self.live = self.all;
        self.splits = vec![Split {
            at: function.start as usize,
            lanes: self.all,
            function: kernel,
            base: 0,
            local: 0,
            calls: Vec::new(),
            wait: Wait::No,
            arrived: 0,
            ran: 0,
        }];
        self.patience = 0;
        self.spin = Spin::default();
    }

    /// Makes room for that many registers.
    pub(crate) fn reserve(&mut self, registers: usize) {
        if self.rows.len() < registers {
            self.rows.resize_with(registers, || row(0));
        }
    }

    /// The `threadIdx` of a lane.
    pub(crate) fn thread(&self, lane: usize) -> [u32; 3] {
        [0, 1, 2].map(|axis| self.special[axis][lane].get() as u32)
    }

    /// Whether it goes in circles.
    pub(crate) fn spins(&self) -> bool {
        self.spin.found()
    }

    /// Runs up to so many instructions, and answers how many. It ends early when all threads wait or have ended.
    pub(crate) fn run(&mut self, context: &mut Context<'_>, budget: u64) -> (u64, Result<(), Stopped>) {
        let begun = self.spin.now;
        let end = begun + budget;
        while self.spin.now < end {
            let Some(index) = self.choose(context) else { break };
            if let Err(stopped) = self.run_split(index, context, end) {
                return (self.spin.now - begun, Err(stopped));
            }
        }
        (self.spin.now - begun, Ok(()))
    }

    /// The split that goes next, if one can.
    fn choose(&mut self, context: &Context<'_>) -> Option<usize> {
        self.wake(context);
        if self.splits.len() > 1 {
            self.merge();
        }
        let ready = |split: &Split| split.wait == Wait::No;
        let count = self.splits.iter().filter(|split| ready(split)).count();
        self.patience = if count > 1 { self.patience + 1 } else { 0 };
        let candidates = self.splits.iter().enumerate().filter(|(_, split)| ready(split));
        let chosen = if self.patience > PATIENCE {
            self.patience = 0;
            candidates.min_by_key(|(_, split)| split.ran)
        } else {
            candidates.min_by_key(|(_, split)| (usize::MAX - split.calls.len(), split.at))
        };
        chosen.map(|(index, _)| index)
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

    /// Joins splits that are at the same place.
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
            let place = index + 1;
            if free(split)
                && let Some(found) = self.splits[place..].iter().position(same)
            {
                let other = self.splits.swap_remove(place + found);
                let split = &mut self.splits[index];
                split.lanes |= other.lanes;
                split.wait = Wait::No;
            } else {
                index += 1;
            }
        }
    }

    /// Runs one split until it parts, waits, ends, or comes to where another one is.
    fn run_split(&mut self, index: usize, context: &mut Context<'_>, end: u64) -> Result<(), Stopped> {
        let depth = self.splits[index].calls.len();
        let at = self.splits[index].at;
        let others = self.splits.iter().filter(|other| other.calls.len() == depth && other.at > at);
        let meeting = others.map(|other| other.at).min().unwrap_or(usize::MAX);
        // Alone, a split needs no decisions; else each loop is one.
        let alone = self.splits.len() == 1;
        self.splits[index].ran = self.spin.now;
        loop {
            self.spin.now += 1;
            match self.execute(index, context)? {
                Next::Goes => {}
                Next::Loops if alone => {}
                Next::Loops | Next::Parts => return Ok(()),
            }
            if self.spin.now >= end || self.splits[index].at >= meeting {
                return Ok(());
            }
        }
    }

    /// Leaves lanes of a split behind, at the next instruction.
    pub(crate) fn part(&mut self, index: usize, lanes: u32, at: usize) {
        let split = &mut self.splits[index];
        split.lanes &= !lanes;
        let parted = Split {
            at,
            lanes,
            function: split.function,
            base: split.base,
            local: split.local,
            calls: split.calls.clone(),
            wait: Wait::No,
            arrived: split.arrived,
            ran: split.ran,
        };
        self.splits.push(parted);
    }

    /// Ends the threads of a split.
    pub(crate) fn end(&mut self, index: usize, context: &mut Context<'_>) {
        let ended = self.splits.swap_remove(index).lanes;
        self.live &= !ended;
        context.blocks[self.block].end(ended.count_ones());
        let live = context.blocks.iter().map(|block| block.live).sum();
        context.barrier.pass(live);
        // Who waited for these lanes waits no more.
        self.splits
            .iter_mut()
            .filter(|split| split.wait == Wait::Lanes)
            .for_each(|split| split.wait = Wait::No);
        self.spin.restart();
    }
}
