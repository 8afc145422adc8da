//! Runs launches on the PTX interpreter, and turns the interpreter's faults into driver errors.

use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kernel_registry_image::Signature;
use kernel_registry_ptx::{Fault, FaultKind, Grid, Group, Knowledge, LaunchParameters, Races, Status, Work};

use super::shape::Launch;
use crate::driver::memory::blocks::{Block, Kind, Shared};
use crate::driver::memory::view::View;
use crate::driver::report::failures::report_at_once;
use crate::driver::result::Code;

/// Returns the most blocks of a grid that run at once. The memory and the speed of this machine limit the number.
fn most_blocks(launch: &Launch) -> u64 {
    const MOST_THREADS: u64 = 256 << 10;
    const MOST_STACK: u64 = 64 << 20;
    let threads = launch.threads_of_block().max(1);
    let stack = u64::from(launch.kernel().frame) * threads;
    (MOST_THREADS / threads).min(MOST_STACK / stack.max(1)).min(launch.blocks()).max(1)
}

/// Returns the message for a launch that keeps the interpreter busy for minutes or longer, and would otherwise look like a hang.
fn length_message(kernel: &str, blocks: u64, threads_of_block: u64) -> Option<String> {
    /// With a few instructions per thread, these threads take about a minute.
    const MANY_THREADS: u64 = 1 << 28;
    (blocks.saturating_mul(threads_of_block) > MANY_THREADS).then(|| {
        format!(
            "the launch of `{kernel}` has {blocks} blocks of {threads_of_block} threads, which take minutes or hours here, where a GPU \
             takes milliseconds; launch a smaller grid in tests"
        )
    })
}

/// Reports the first long launch of the process.
fn report_if_long(launch: &Launch) {
    static REPORTED: AtomicBool = AtomicBool::new(false);
    let words = length_message(launch.source_name(), launch.blocks(), launch.threads_of_block());
    if let Some(words) = words
        && !REPORTED.swap(true, Ordering::Relaxed)
    {
        report_at_once(&words);
    }
}

/// Locks the detector of races.
pub(crate) fn lock(races: &Mutex<Races>) -> MutexGuard<'_, Races> {
    races.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A running kernel.
pub(crate) struct Execution {
    grid: Grid,
    /// The kernel's rank in the order of starts.
    order: u64,
    /// The most blocks that run at once, see [`most_blocks`]. `None` for a cooperative launch: all of its blocks run at
    /// once.
    most: Option<u64>,
    budget: u64,
    /// The detector of races, and the kernel's number in it.
    watched: Option<(Arc<Mutex<Races>>, Option<Work>)>,
    _barrier: Option<GridBarrier>,
}

/// The memory of the grid barrier of a cooperative launch. It belongs to the launch, and not to a context.
struct GridBarrier {
    memory: Shared,
    address: usize,
}

impl GridBarrier {
    fn new(memory: &Shared, device: usize) -> Result<Self, String> {
        let block = Block { bytes: 64, kind: Kind::Variable, context: 0, device };
        let address = memory.lock().allocate(block);
        let address = address.map_err(|_| "no memory is left for the barrier of the grid")?;
        Ok(GridBarrier { memory: memory.clone(), address })
    }
}

impl Drop for GridBarrier {
    fn drop(&mut self) {
        self.memory.lock().free(self.address);
    }
}

/// The result of a turn of a kernel.
pub(crate) enum Step {
    Done,
    Running { progressed: bool },
    Fault { code: Code, words: String },
}

/// The instructions of a turn, which take about a millisecond.
const BUDGET: u64 = 50_000;

/// The instructions of a turn of a kernel that only spun in its last turn: enough to find out whether it still spins.
const SHORT_BUDGET: u64 = 300;

impl Execution {
    /// Starts a launch on the device with this number. No block begins before there is [room](Self::set_room) for it.
    pub(crate) fn new(launch: &Launch, device: usize, order: u64, memory: &Shared) -> Result<Self, String> {
        let shape = launch.shape;
        let barrier = if shape.cooperative { Some(GridBarrier::new(memory, device)?) } else { None };
        let parameters = LaunchParameters {
            grid: shape.grid,
            block: shape.block,
            cluster: shape.cluster,
            dynamic_shared: shape.shared,
            stack: launch.stack,
            resident: u32::MAX,
            barrier: barrier.as_ref().map_or(0, |barrier| barrier.address as u64),
            arguments: launch.arguments.to_vec(),
        };
        let grid = Grid::new(&launch.code.0, &launch.kernel().name, parameters);
        let most = (!shape.cooperative).then(|| most_blocks(launch));
        let grid = grid.map_err(|error| error.to_string())?;
        report_if_long(launch);
        Ok(Execution { grid, order, most, budget: BUDGET, watched: None, _barrier: barrier })
    }

    /// Looks for races, before the first step.
    pub(crate) fn watch(&mut self, races: Arc<Mutex<Races>>, stream: (u32, u32), known: Knowledge) {
        let number = self.grid.watch(&mut lock(&races), stream, known);
        self.watched = Some((races, number));
    }

    /// Returns the kernel's number in the detector of races, if it's watched.
    pub(crate) fn watched(&self) -> Option<Work> {
        self.watched.as_ref()?.1
    }

    pub(crate) fn order(&self) -> u64 {
        self.order
    }

    /// Sets how many of the kernel's blocks have room on the device now. Blocks that already run go on in any case.
    pub(crate) fn set_room(&mut self, blocks: u64) {
        if let Some(most) = self.most {
            self.grid.set_resident(most.min(blocks) as u32);
        }
    }

    pub(crate) fn step(&mut self, view: &View<'_>) -> Step {
        let step = caught(|| match &self.watched {
            Some((races, _)) => self.grid.step_watched(self.budget, view, &mut lock(races)),
            None => self.grid.step(self.budget, view),
        });
        if let Step::Running { progressed } = step {
            self.budget = if progressed { BUDGET } else { SHORT_BUDGET };
        }
        step
    }

    /// Runs in an order that is chosen, before the first step.
    pub(crate) fn explore(&mut self, is_visible: impl Fn(u32) -> bool) {
        self.grid.explore(is_visible);
    }

    pub(crate) fn as_grid(&self) -> &Grid {
        &self.grid
    }

    pub(crate) fn grid(&mut self) -> &mut Grid {
        &mut self.grid
    }

    /// Gives room to so many blocks at most, as next to another kernel.
    pub(crate) fn limit(&mut self, blocks: u64) {
        self.most = self.most.map(|most| most.min(blocks));
        self.set_room(blocks);
    }

    /// Starts a block, in a chosen order.
    pub(crate) fn start_block(&mut self, block: u32, view: &View<'_>) -> Step {
        let races = self.watched.as_ref().map(|(races, _)| races.clone()).unwrap_or_default();
        caught(|| self.grid.start_block(block, view, &mut lock(&races)))
    }

    /// Lets threads go on, in a chosen order.
    pub(crate) fn advance(&mut self, group: Group, view: &View<'_>) -> Step {
        let races = self.watched.as_ref().map(|(races, _)| races.clone()).unwrap_or_default();
        caught(|| self.grid.advance(group, view, &mut lock(&races)))
    }
}

/// Runs a part of a kernel. A panic of the interpreter becomes a driver error. Otherwise the program would wait forever.
fn caught(run: impl FnOnce() -> Status) -> Step {
    match panic::catch_unwind(AssertUnwindSafe(run)) {
        Ok(Status::Done) => Step::Done,
        Ok(Status::Running { progressed }) => Step::Running { progressed },
        Ok(Status::Fault(fault)) => {
            Step::Fault { code: error_code(&fault.kind), words: with_source_name(*fault) }
        }
        Err(_) => Step::Fault {
            code: Code::UNKNOWN,
            words: "the interpreter panicked, which is a defect of it; report it with the kernel".into(),
        },
    }
}

/// Returns the text of a fault, with the kernel's name as in the source: `reduce<float, 128u>`.
fn with_source_name(mut fault: Fault) -> String {
    if let Some(signature) = Signature::parse(&fault.kernel) {
        fault.kernel = signature.name;
    }
    fault.to_string()
}

/// Returns the driver's error for a fault.
fn error_code(fault: &FaultKind) -> Code {
    match fault {
        FaultKind::Global { .. } | FaultKind::Beyond { .. } | FaultKind::Free { .. } => Code::ILLEGAL_ADDRESS,
        FaultKind::Misaligned { .. } => Code::MISALIGNED_ADDRESS,
        FaultKind::Assertion { .. } => Code::ASSERT,
        FaultKind::Call { .. } => Code::INVALID_PC,
        _ => Code::LAUNCH_FAILED,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_launch_that_takes_minutes_is_announced() {
        assert_eq!(length_message("saxpy", 65_536, 256), None);
        // The grid of `over(u32::MAX)`.
        let words = length_message("saxpy", (1 << 24) + 1, 256).unwrap();
        assert!(
            words.starts_with("the launch of `saxpy` has 16777217 blocks of 256 threads, which take minutes"),
            "{words}"
        );
        assert!(length_message("saxpy", u64::MAX, 1024).is_some());
    }
}
