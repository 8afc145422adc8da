//! One trial: a kernel stays, another one is launched, and either runs or waits.

use std::thread;
use std::time::{Duration, Instant};

use kernel_registry_cuda::fit::{Residency, Room, beside, residency};

use crate::gpu::{Area, Gpu, Loaded, Outcome};
use crate::pair::Pair;
use crate::ptx::{Role, Word};

/// The computed answers for a pair, and what the device did.
pub(crate) struct Trial {
    pub(crate) index: u64,
    pub(crate) pair: Pair,
    pub(crate) stays: Figures,
    pub(crate) passes: Figures,
    pub(crate) residency: Residency,
    pub(crate) room: Room,
    /// Blocks of the kernel that stays that were there at once.
    pub(crate) arrived: u32,
    /// Whether the other kernel ran beside it. `None` if it was not tried, because the grid was not there as a whole.
    pub(crate) ran: Option<bool>,
    pub(crate) milliseconds: u128,
}

/// What the driver says of a kernel, and the blocks on a multiprocessor by our arithmetic.
pub(crate) struct Figures {
    pub(crate) registers: u32,
    pub(crate) static_shared: u32,
    pub(crate) local: u32,
    pub(crate) occupancy: u32,
    pub(crate) computed_occupancy: u32,
}

/// The modules of a pair that cannot be tried stay loaded.
pub(crate) fn run(gpu: &Gpu, index: u64, pair: &Pair) -> Outcome<Trial> {
    let begun = Instant::now();
    let (stays, passes) = (gpu.load(pair.stays, Role::Stays)?, gpu.load(pair.passes, Role::Passes)?);
    let computed = (
        residency(&gpu.device, &stays.launch(pair.grid))?,
        beside(&gpu.device, &stays.launch(pair.grid), &passes.launch(1))?,
    );
    let (arrived, ran) = attempt(gpu, pair.grid, &stays, &passes)?;
    let trial = Trial {
        index,
        pair: *pair,
        stays: figures(gpu, &stays)?,
        passes: figures(gpu, &passes)?,
        residency: computed.0,
        room: computed.1,
        arrived,
        ran,
        milliseconds: begun.elapsed().as_millis(),
    };
    gpu.unload(stays)?;
    gpu.unload(passes)?;
    Ok(trial)
}

fn figures(gpu: &Gpu, kernel: &Loaded) -> Outcome<Figures> {
    let Loaded { registers, static_shared, local, occupancy, .. } = *kernel;
    let computed_occupancy = residency(&gpu.device, &kernel.launch(1))?.per_processor;
    Ok(Figures { registers, static_shared, local, occupancy, computed_occupancy })
}

/// Returns the blocks that arrived, and whether the other kernel ran, if they all had.
pub(crate) fn attempt(gpu: &Gpu, grid: u32, stays: &Loaded, passes: &Loaded) -> Outcome<(u32, Option<bool>)> {
    if !gpu.has_words_for(grid) {
        return Err(format!("a grid of {grid} blocks is too large").into());
    }
    // If a block left before it was told to, the attempt says nothing.
    for _ in 0..5 {
        if let Some(seen) = attempt_once(gpu, grid, stays, passes)? {
            return Ok(seen);
        }
    }
    Err("the kernel left before it was told to, again and again; is the host busy?".into())
}

/// `None` if a block left early.
fn attempt_once(
    gpu: &Gpu,
    grid: u32,
    stays: &Loaded,
    passes: &Loaded,
) -> Outcome<Option<(u32, Option<bool>)>> {
    let number = gpu.next_number();
    gpu.launch(stays, grid, gpu.stays, Area::First, number)?;
    let arrived = all_arrived(gpu, Area::First, grid, number);
    let launched = (arrived == grid).then(|| gpu.launch(passes, 1, gpu.passes, Area::First, number));
    let ran = matches!(launched, Some(Ok(())))
        .then(|| within(gpu.window, || gpu.is_set(Area::First, Word::Done, number)));
    let left_early = gpu.is_set(Area::First, Word::Over, number);
    gpu.set(Area::First, Word::Flag, number);
    gpu.synchronize()?;
    launched.transpose()?;
    if gpu.arrived(Area::First, grid, number) < grid
        || ran.is_some() && !gpu.is_set(Area::First, Word::Done, number)
    {
        return Err("a kernel has ended without its work".into());
    }
    Ok((!left_early).then_some((arrived, ran)))
}

/// Waits until all blocks have arrived, or none has for a while, once the first has. Returns how many have.
pub(crate) fn all_arrived(gpu: &Gpu, area: Area, grid: u32, number: u32) -> u32 {
    let (mut arrived, mut since) = (0, Instant::now());
    while arrived < grid && since.elapsed() < if arrived == 0 { gpu.limit / 2 } else { gpu.pause } {
        thread::sleep(Duration::from_micros(50));
        let now = gpu.arrived(area, grid, number);
        if now != arrived {
            (arrived, since) = (now, Instant::now());
        }
    }
    arrived
}

/// Waits for a condition. Returns whether it came true in time.
pub(crate) fn within(time: Duration, is_true: impl Fn() -> bool) -> bool {
    let begun = Instant::now();
    while !is_true() {
        if begun.elapsed() > time {
            return false;
        }
        thread::sleep(Duration::from_micros(20));
    }
    true
}
