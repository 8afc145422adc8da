//! Defines a warp: 32 threads that run together as long as they are at the same instruction.
//!
//! Threads that diverge become splits, each at its own instruction. The split in the innermost call runs
//! first, and among those the one at the lowest instruction, so that threads reconverge at the end of an `if`
//! or a loop. A split that has waited too long gets a turn out of this order. Otherwise a thread that spins
//! would never see the value that another thread of the warp is about to write.

use std::ops::Range;

use crate::op::Tally;
use crate::program::{Function, Program};
use crate::races::{Races, Work};
use crate::run::block::{Barrier, Block};
use crate::run::fault::FaultKind;
use crate::run::memory::Memory;
use crate::run::poll::Poll;
use crate::run::spin::Spin;
use crate::slot::{Rows, Slot};
use crate::types::{Row, row};

pub(crate) struct Warp {
    /// The rank of the warp's block in the cluster.
    pub block: usize,
    /// The special registers of the warp.
    pub special: [Row; 10],
    /// The registers of all active calls, beginning with the outermost call.
    pub rows: Vec<Row>,
    /// Local memory, lane by lane.
    pub local: Vec<u8>,
    /// The size of a lane's local memory in bytes.
    pub local_size: u64,
    pub splits: Vec<Split>,
    /// The mask of lanes that are threads of the block.
    all: u32,
    /// The mask of threads that haven't ended.
    pub live: u32,
    /// How many choices in a row have left a ready split waiting.
    pub timeout: u32,
    pub spin: Spin,
    /// The loops of groups of threads, if someone else chooses who runs.
    pub polls: Vec<Poll>,
    /// How often loops that count could go on because nobody else could.
    pub releases: u32,
    /// Whether an instruction has written what others see.
    pub has_shown: bool,
    /// Whether an instruction had an effect since anyone asked, if someone else chooses who runs.
    pub had_effect: bool,
}

/// The state outside of a warp that the warp's instructions can access.
pub(crate) struct Context<'a> {
    pub program: &'a Program,
    /// The special registers of the grid, and the constants of the program.
    pub grid: &'a [Row],
    pub memory: &'a dyn Memory,
    pub arguments: &'a mut [u8],
    /// The blocks of the cluster.
    pub blocks: &'a mut [Block],
    pub barrier: &'a mut Barrier,
    /// Finds races, if that is asked for.
    pub watch: Option<Watch<'a>>,
}

/// The detector, and the grid as it knows it.
pub(crate) struct Watch<'a> {
    pub races: &'a mut Races,
    pub grid: Work,
    /// The number of the block in the grid.
    pub block: u32,
}

/// A fault, with the lane and the instruction that caused it.
pub(crate) struct Stopped {
    pub at: usize,
    pub lane: usize,
    pub kind: FaultKind,
}

/// Whether a split may go on after an instruction, or the scheduler must choose again.
pub(crate) enum Next {
    /// The split continues with a later instruction.
    Continue,
    /// The split took a backward branch.
    BackEdge,
    /// The split waits, has ended, entered or left a function, or diverged.
    Yield,
}

/// A result whose error names the lane. The caller adds the instruction.
pub(crate) type Lane<T> = Result<T, (usize, FaultKind)>;

/// Threads of a warp that are at the same instruction, in the same calls.
pub(crate) struct Split {
    pub at: usize,
    pub lanes: u32,
    pub function: usize,
    /// The index of the first register of the running function.
    pub base: usize,
    /// The offset of the running function's frame in local memory.
    pub local: u64,
    /// The active calls, the outermost first.
    pub calls: Vec<Call>,
    pub wait: Wait,
    /// The generation of the cluster's barrier at which these threads arrived.
    pub arrived: u64,
    /// The value of `spin.now` when the split last began to run.
    pub ran: u64,
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
    /// Waits until other lanes of the warp arrive at an instruction that they execute together.
    Lanes,
    /// Waits until a barrier passes this generation. Then a register gets the result of the vote.
    Barrier {
        id: usize,
        generation: u64,
        vote: Option<(Slot, Tally)>,
    },
    Cluster,
}

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
            timeout: 0,
            spin: Spin::default(),
            polls: Vec::new(),
            releases: 0,
            has_shown: false,
            had_effect: false,
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
        self.timeout = 0;
        self.spin = Spin::default();
        self.polls.clear();
        (self.releases, self.has_shown) = (0, false);
    }

    /// Allocates registers up to this number.
    pub(crate) fn reserve(&mut self, registers: usize) {
        if self.rows.len() < registers {
            self.rows.resize_with(registers, || row(0));
        }
    }

    /// Returns the `threadIdx` of a lane.
    pub(crate) fn thread(&self, lane: usize) -> [u32; 3] {
        [0, 1, 2].map(|axis| self.special[axis][lane].get() as u32)
    }

    /// Splits lanes off from a split. They continue at the instruction `at`.
    pub(crate) fn split_off(&mut self, index: usize, lanes: u32, at: usize) {
        let split = &mut self.splits[index];
        split.lanes &= !lanes;
        let parted = Split { at, lanes, calls: split.calls.clone(), wait: Wait::No, ..*split };
        self.splits.push(parted);
    }

    /// Ends the threads of a split.
    pub(crate) fn end(&mut self, index: usize, context: &mut Context<'_>) {
        let ended = self.splits.swap_remove(index).lanes;
        self.live &= !ended;
        context.blocks[self.block].end(ended.count_ones());
        let live = context.blocks.iter().map(|block| block.live).sum();
        context.barrier.pass(live);
        // Collectives that waited for the ended lanes are tried again.
        self.splits
            .iter_mut()
            .filter(|split| split.wait == Wait::Lanes)
            .for_each(|split| split.wait = Wait::No);
        self.spin.restart();
    }

    #[inline(always)]
    pub(crate) fn row<'r>(&'r self, context: &'r Context<'_>, base: usize, slot: Slot) -> &'r Row {
        match slot.rows() {
            Rows::Register => &self.rows[base + slot.index()],
            Rows::Grid => &context.grid[slot.index()],
            Rows::Block => &context.blocks[self.block].rows[slot.index()],
            Rows::Warp => &self.special[slot.index()],
        }
    }

    /// Notes a backward jump over the instructions in `body`. Ignores loops that only wait for a clock,
    /// because those end by themselves.
    #[inline]
    pub(crate) fn note_back_edge(&mut self, program: &Program, body: Range<usize>) {
        if self.spin.is_due() && !program.is_delay(body) {
            let hash = self.hash(program);
            self.spin.compare(hash);
        }
    }

    /// Returns a hash of all threads' positions and registers, without the registers that depend on a clock.
    fn hash(&self, program: &Program) -> u64 {
        let mut hash = 0u64;
        let mut add = |value: u64| hash = (hash.rotate_left(5) ^ value).wrapping_mul(0x517c_c1b7_2722_0a95);
        for split in &self.splits {
            add(split.at as u64);
            add(u64::from(split.lanes));
            let timed = &program.functions[split.function].timed;
            let outer = self.rows[..split.base].iter();
            let own =
                self.rows[split.base..].iter().zip(timed).filter(|(_, timed)| !**timed).map(|(row, _)| row);
            outer.chain(own).flatten().for_each(|lane| add(lane.get()));
        }
        hash
    }
}

/// Returns the mask of the lanes for which `holds` is true.
pub(crate) fn mask(holds: impl Fn(usize) -> bool) -> u32 {
    (0..32).fold(0, |set, lane| set | u32::from(holds(lane)) << lane)
}
