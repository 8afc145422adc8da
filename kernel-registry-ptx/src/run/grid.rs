//! Runs a launch of a kernel in steps: starts blocks, and gives their warps turns.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::address::{MOST_LOCAL, MOST_SHARED, RESERVED};
use crate::error::LaunchError;
use crate::program::Module;
use crate::races::{Knowledge, Races, Work};
use crate::run::block::{Barrier, Block};
use crate::run::explored::Explored;
use crate::run::fault::Fault;
use crate::run::memory::Memory;
use crate::run::warp::{Context, Stopped, Warp, Watch};
use crate::slot::{DYNAMIC_SHARED, GRID};
use crate::types::{Row, row};

/// How many instructions a warp runs in a turn.
const TURN: u64 = 1024;

/// The parameters of a launch.
#[derive(Clone, Debug)]
pub struct LaunchParameters {
    /// The size of the grid in blocks.
    pub grid: [u32; 3],
    /// The size of a block in threads.
    pub block: [u32; 3],
    /// The size of a cluster in blocks. The default is the size that the kernel declares, or one block.
    pub cluster: Option<[u32; 3]>,
    /// Bytes of dynamic shared memory.
    pub dynamic_shared: u32,
    /// Bytes of local memory that a thread of a kernel with recursive calls has for the frames of called
    /// functions.
    pub stack: u64,
    /// The most blocks that run at once. In a cooperative launch, all blocks must. Only whole clusters are
    /// started, but at least one.
    pub resident: u32,
    /// The address of 64 bytes of zeros that the blocks of a cooperative launch synchronize through. 0 for
    /// other launches.
    pub barrier: u64,
    /// The arguments, each at its offset in [`Program::parameters`](crate::Program::parameters).
    pub arguments: Vec<u8>,
}

/// The state of a grid after [`Grid::step`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Status {
    /// All threads have ended.
    Done,
    /// Some threads haven't ended.
    Running {
        /// Whether any warp made progress. A warp makes no progress while it waits for another warp, or while
        /// it spins: it writes no memory, and all registers that don't depend on a clock repeat. Then only
        /// time, or a write by someone else, can end the loop.
        ///
        /// A warp must have spun for some hundred instructions before this is noticed.
        progressed: bool,
    },
    /// A thread had a fault, which ended the grid.
    Fault(Box<Fault>),
}

/// A launch of a kernel that runs in steps.
///
/// Dropping it ends the launch. Registers and shared memory keep their values from one block to the next, as
/// on a device.
pub struct Grid {
    pub(crate) module: Arc<Module>,
    kernel: usize,
    pub(crate) launch: LaunchParameters,
    pub(crate) cluster: [u32; 3],
    /// Bytes of shared memory of a block.
    shared: u64,
    /// Bytes of local memory of a thread.
    local: u64,
    /// How many bytes at the end of shared memory are reserved.
    reserved: u64,
    /// The special registers of the grid, and the constants of the program.
    rows: Vec<Row>,
    pub(crate) running: VecDeque<Cluster>,
    /// Clusters that have ended and are kept to reuse their memory.
    pub(crate) spare: Vec<Cluster>,
    /// How many clusters have started.
    pub(crate) started: u64,
    pub(crate) clusters: u64,
    /// The grid's number in a detector of races.
    pub(crate) watched: Option<Work>,
    /// Who runs next, if someone else chooses that.
    pub(crate) explored: Option<Explored>,
}

/// A cluster: blocks that can access each other's shared memory.
pub(crate) struct Cluster {
    pub(crate) blocks: Vec<Block>,
    pub(crate) warps: Vec<Warp>,
    barrier: Barrier,
    /// The index of the warp that has the next turn.
    turn: usize,
}

impl Grid {
    /// Prepares a launch.
    ///
    /// # Errors
    ///
    /// Fails if there is no such kernel, or if the parameters don't fit the kernel.
    pub fn new(module: &Arc<Module>, kernel: &str, launch: LaunchParameters) -> Result<Self, LaunchError> {
        let program = module.program();
        let name = kernel;
        let Some(kernel) = program.kernels.get(name) else {
            return Err(LaunchError::NoKernel { kernel: name.to_owned() });
        };
        if let Some(lacking) = program.lacking(name) {
            return Err(LaunchError::Lacking { kernel: name.to_owned(), lacking: lacking.clone() });
        }
        let function = &program.functions[kernel.function];
        let declared = function.cluster.map(|sizes| sizes.map(|size| size as u32));
        let cluster = launch.cluster.or(declared).unwrap_or([1; 3]);
        let count =
            |sizes: [u32; 3]| sizes.iter().fold(1u64, |count, size| count.saturating_mul((*size).into()));
        let bound = function.max_threads.unwrap_or(1024).min(1024);
        let fits = count(launch.grid) > 0
            && (1..=bound).contains(&count(launch.block))
            && (1..=16).contains(&count(cluster))
            && declared.is_none_or(|declared| declared == cluster)
            && (0..3).all(|axis| launch.grid[axis].is_multiple_of(cluster[axis]));
        if !fits {
            return Err(LaunchError::Shape { kernel: name.to_owned() });
        }
        let expected = function.parameters.last().map_or(0, |(place, size)| (place + size) as usize);
        if launch.arguments.len() < expected {
            let found = launch.arguments.len();
            return Err(LaunchError::Arguments { kernel: name.to_owned(), expected, found });
        }

        let mut shared = kernel.reach.shared.next_multiple_of(16) + u64::from(launch.dynamic_shared);
        let reserved = if kernel.reach.reserved { RESERVED } else { 0 };
        if reserved > 0 {
            shared = shared.next_multiple_of(16) + reserved;
        }
        let stack = if kernel.reach.recursive { launch.stack } else { 0 };
        let local = kernel.reach.frames.saturating_add(stack);
        if shared > MOST_SHARED || local > MOST_LOCAL {
            return Err(LaunchError::Memory { kernel: name.to_owned(), shared, local });
        }
        let special = GRID.split(' ').map(|name| row(special(name, &launch, cluster, kernel.reach.shared)));
        let constants = program.constants.iter().map(|constant| row(module.value(kernel, *constant)));
        Ok(Self {
            rows: special.chain(constants).collect(),
            module: Arc::clone(module),
            kernel: kernel.function,
            shared,
            reserved,
            local,
            clusters: count(launch.grid) / count(cluster),
            launch,
            cluster,
            running: VecDeque::new(),
            spare: Vec::new(),
            started: 0,
            watched: None,
            explored: None,
        })
    }

    /// Changes how many blocks run at once. Running blocks continue, and at least one cluster may run.
    pub fn set_resident(&mut self, blocks: u32) {
        self.launch.resident = blocks;
    }

    /// Runs up to `budget` instructions, each for up to 32 threads.
    ///
    /// Returns early when all threads have ended, when a thread has a fault, or when no thread can continue.
    /// `memory` must be the same in every call.
    pub fn step(&mut self, budget: u64, memory: &dyn Memory) -> Status {
        self.run::<false>(budget, memory, None)
    }

    /// Begins to find races with `races`, before the first [`step_watched`](Self::step_watched). The grid is work of a stream
    /// of a device, each named by a number, and begins after everything that is known when it does. Grids with clusters
    /// aren't watched.
    ///
    /// Returns what others [add](Knowledge::add_ended) to what they know when the grid has ended.
    pub fn watch(
        &mut self,
        races: &mut Races,
        (stream, device): (u32, u32),
        begins: Knowledge,
    ) -> Option<Work> {
        let name = &self.module.program().functions[self.kernel].name;
        let sizes = [self.launch.grid, self.launch.block];
        let is_alone = self.cluster == [1; 3];
        self.watched =
            is_alone.then(|| races.begin_grid(name, &self.module, sizes, (stream, device), begins));
        self.watched
    }

    /// Does what [`step`](Self::step) does, and finds races.
    pub fn step_watched(&mut self, budget: u64, memory: &dyn Memory, races: &mut Races) -> Status {
        let status = match self.watched {
            Some(_) => self.run::<true>(budget, memory, Some(races)),
            None => self.run::<false>(budget, memory, None),
        };
        if let (Some(work), Status::Done | Status::Fault(_)) = (self.watched, &status) {
            races.end(work);
        }
        status
    }

    fn run<const WATCHED: bool>(
        &mut self,
        budget: u64,
        memory: &dyn Memory,
        mut races: Option<&mut Races>,
    ) -> Status {
        let mut left = budget;
        let mut progressed = self.running.is_empty() && self.start(races.as_deref_mut());
        let mut idle = 0;
        while !self.running.is_empty() {
            if left == 0 || idle >= self.running.len() {
                return Status::Running { progressed };
            }
            let Some(mut cluster) = self.running.pop_front() else { break };
            let before = left;
            for _ in 0..cluster.warps.len() {
                if left == 0 {
                    break;
                }
                match self.turn::<WATCHED>(&mut cluster, TURN.min(left), memory, races.as_deref_mut()) {
                    Ok((ran, further)) => {
                        left -= ran;
                        progressed |= further;
                    }
                    Err(fault) => {
                        self.running.clear();
                        self.started = self.clusters;
                        return Status::Fault(fault);
                    }
                }
            }
            idle = if left == before { idle + 1 } else { 0 };
            if cluster.blocks.iter().any(|block| block.live > 0) {
                self.running.push_back(cluster);
                progressed |= self.start(races.as_deref_mut());
            } else {
                progressed = true;
                self.retire(cluster, races.as_deref_mut());
            }
            if self.running.is_empty() {
                self.start(races.as_deref_mut());
            }
        }
        Status::Done
    }

    /// Gives the next warp a turn. Returns how many instructions it ran, and whether it made progress.
    fn turn<const WATCHED: bool>(
        &mut self,
        cluster: &mut Cluster,
        budget: u64,
        memory: &dyn Memory,
        races: Option<&mut Races>,
    ) -> Result<(u64, bool), Box<Fault>> {
        let turn = cluster.turn;
        cluster.turn = (turn + 1) % cluster.warps.len();
        let (ran, stopped) = self.within(cluster, turn, memory, races, |warp, context| {
            let (ran, stopped) = warp.run::<WATCHED>(context, budget);
            ((ran, ran > 0 && !warp.spin.is_spinning()), stopped)
        });
        match stopped {
            Ok(()) => Ok(ran),
            Err(stopped) => Err(Box::new(self.fault(cluster, turn, stopped))),
        }
    }

    /// Calls a function with a warp of a cluster, and with everything that its instructions can access.
    #[inline]
    pub(crate) fn within<R>(
        &mut self,
        cluster: &mut Cluster,
        turn: usize,
        memory: &dyn Memory,
        races: Option<&mut Races>,
        run: impl FnOnce(&mut Warp, &mut Context<'_>) -> R,
    ) -> R {
        let warp = &mut cluster.warps[turn];
        let block = number(cluster.blocks[warp.block].index, self.launch.grid);
        let watch = races.zip(self.watched).map(|(races, grid)| Watch { races, grid, block });
        let mut context = Context {
            program: self.module.program(),
            grid: &self.rows,
            memory,
            arguments: &mut self.launch.arguments,
            blocks: &mut cluster.blocks,
            barrier: &mut cluster.barrier,
            watch,
        };
        run(warp, &mut context)
    }

    /// Describes a fault of a warp.
    pub(crate) fn fault(&self, cluster: &Cluster, warp: usize, stopped: Stopped) -> Fault {
        let (program, warp) = (self.module.program(), &cluster.warps[warp]);
        let line = program.instructions[stopped.at].line;
        Fault {
            kernel: program.functions[self.kernel].name.clone(),
            block: cluster.blocks[warp.block].index,
            thread: warp.thread(stopped.lane),
            kind: stopped.kind,
            line,
            instruction: program.source(line).to_owned(),
            place: program.place(line),
        }
    }

    /// Starts a cluster if there is room for one. Returns whether it did.
    ///
    /// Clusters are started one at a time, so that only a few are in progress and their registers stay in the
    /// CPU's caches. If a warp waits for a block that has room but isn't started, the block is started in a
    /// later turn.
    fn start(&mut self, races: Option<&mut Races>) -> bool {
        if self.started == self.clusters || self.running.len() >= self.room() {
            return false;
        }
        self.start_cluster(self.started, races);
        true
    }

    /// Returns how many clusters have room.
    pub(crate) fn room(&self) -> usize {
        let size = self.cluster.iter().product::<u32>();
        (self.launch.resident / size).max(1) as usize
    }

    pub(crate) fn start_cluster(&mut self, index: u64, races: Option<&mut Races>) {
        let mut cluster = self.spare.pop().unwrap_or_else(|| self.make());
        self.place(&mut cluster, index);
        if let (Some(grid), Some(races)) = (self.watched, races) {
            races.start_block(grid, number(cluster.blocks[0].index, self.launch.grid));
        }
        self.running.push_back(cluster);
        self.started += 1;
    }

    /// Keeps a cluster that has ended for the next one.
    pub(crate) fn retire(&mut self, cluster: Cluster, races: Option<&mut Races>) {
        if let (Some(grid), Some(races)) = (self.watched, races) {
            races.end_block(grid, number(cluster.blocks[0].index, self.launch.grid));
        }
        self.spare.push(cluster);
    }

    fn make(&self) -> Cluster {
        let blocks = self.cluster.iter().product::<u32>() as usize;
        let warps = self.launch.block.iter().product::<u32>().div_ceil(32);
        Cluster {
            blocks: (0..blocks).map(|_| Block::new(self.shared as usize)).collect(),
            warps: (0..blocks)
                .flat_map(|block| (0..warps).map(move |warp| (block, warp)))
                .map(|(block, warp)| Warp::new(block, warp, self.launch.block, self.local))
                .collect(),
            barrier: Barrier::default(),
            turn: 0,
        }
    }

    /// Sets the position of a cluster in the grid, and starts its blocks and warps there.
    fn place(&self, cluster: &mut Cluster, index: u64) {
        let clusters = [0, 1, 2].map(|axis| self.launch.grid[axis] / self.cluster[axis]);
        let [x, y, z] = position(index, clusters);
        for (rank, block) in cluster.blocks.iter_mut().enumerate() {
            let [a, b, c] = position(rank as u64, self.cluster);
            let index = [x * self.cluster[0] + a, y * self.cluster[1] + b, z * self.cluster[2] + c];
            let special = [index[0], index[1], index[2], x, y, z, a, b, c, rank as u32];
            block.start(index, special, self.launch.block.iter().product(), self.reserved as usize);
        }
        let function = &self.module.program().functions[self.kernel];
        for warp in &mut cluster.warps {
            warp.start(self.kernel, function);
        }
        cluster.barrier = Barrier::default();
        cluster.turn = 0;
    }
}

/// Returns the coordinates of the element with this index, where x changes fastest.
fn position(index: u64, sizes: [u32; 3]) -> [u32; 3] {
    let [x, y, _] = sizes.map(u64::from);
    [(index % x) as u32, (index / x % y) as u32, (index / x / y) as u32]
}

/// Returns the index of the element with these coordinates.
pub(crate) fn number([x, y, z]: [u32; 3], sizes: [u32; 3]) -> u32 {
    x.wrapping_add(sizes[0].wrapping_mul(y.wrapping_add(sizes[1].wrapping_mul(z))))
}

/// Returns the value of a special register that is the same in all blocks of a grid.
fn special(name: &str, launch: &LaunchParameters, cluster: [u32; 3], shared: u64) -> u64 {
    let axis = match name.as_bytes().last() {
        Some(b'y') => 1,
        Some(b'z') => 2,
        _ => 0,
    };
    let dynamic = shared.next_multiple_of(16);
    let reserved = dynamic + u64::from(launch.dynamic_shared).next_multiple_of(16);
    u64::from(match name.split('.').next().unwrap_or(name) {
        "%ntid" => launch.block[axis],
        "%nctaid" => launch.grid[axis],
        "%nclusterid" => launch.grid[axis] / cluster[axis],
        "%cluster_nctaid" => cluster[axis],
        "%cluster_nctarank" => cluster.iter().product(),
        "%dynamic_smem_size" => launch.dynamic_shared,
        "%reserved_smem_offset_begin" | "%reserved_smem_offset_0" => return reserved,
        "%reserved_smem_offset_1" => return reserved + RESERVED / 2,
        "%reserved_smem_offset_end" => return reserved + RESERVED,
        "%reserved_smem_offset_cap" => return RESERVED,
        "%total_smem_size" | "%aggr_smem_size" => return dynamic + u64::from(launch.dynamic_shared),
        "%nwarpid" => 32,
        "%is_explicit_cluster" => u32::from(cluster != [1; 3]),
        "%nsmid" => 1,
        "%envreg1" => (launch.barrier >> 32) as u32,
        "%envreg2" => launch.barrier as u32,
        DYNAMIC_SHARED => return dynamic,
        _ => 0,
    })
}
