//! Makes one trial: launches a resident kernel, then a probe kernel, and finds out whether the probe runs or
//! waits.

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
    pub(crate) resident: Figures,
    pub(crate) probe: Figures,
    pub(crate) residency: Residency,
    pub(crate) room: Room,
    /// How many blocks of the resident kernel were on the device at the same time.
    pub(crate) arrived: u32,
    /// Whether the probe kernel ran. `None` if it wasn't launched, because the resident grid was incomplete.
    pub(crate) ran: Option<bool>,
    pub(crate) milliseconds: u128,
}

/// The driver's figures for a kernel, and the number of blocks per multiprocessor that this project computes.
pub(crate) struct Figures {
    pub(crate) registers: u32,
    pub(crate) static_shared: u32,
    pub(crate) local: u32,
    pub(crate) occupancy: u32,
    pub(crate) computed_occupancy: u32,
}

/// Makes a trial with a pair. After an error the pair's modules stay loaded.
pub(crate) fn run(gpu: &Gpu, index: u64, pair: &Pair) -> Outcome<Trial> {
    let begun = Instant::now();
    let (resident, probe) = (gpu.load(pair.resident, Role::Resident)?, gpu.load(pair.probe, Role::Probe)?);
    let computed = (
        residency(&gpu.device, &resident.launch(pair.grid))?,
        beside(&gpu.device, &resident.launch(pair.grid), &probe.launch(1))?,
    );
    let (arrived, ran) = attempt(gpu, pair.grid, &resident, &probe)?;
    let trial = Trial {
        index,
        pair: *pair,
        resident: figures(gpu, &resident)?,
        probe: figures(gpu, &probe)?,
        residency: computed.0,
        room: computed.1,
        arrived,
        ran,
        milliseconds: begun.elapsed().as_millis(),
    };
    gpu.unload(resident)?;
    gpu.unload(probe)?;
    Ok(trial)
}

fn figures(gpu: &Gpu, kernel: &Loaded) -> Outcome<Figures> {
    let Loaded { registers, static_shared, local, occupancy, .. } = *kernel;
    let computed_occupancy = residency(&gpu.device, &kernel.launch(1))?.per_processor;
    Ok(Figures { registers, static_shared, local, occupancy, computed_occupancy })
}

/// Returns how many resident blocks arrived and, if all of them did, whether the probe kernel ran.
pub(crate) fn attempt(
    gpu: &Gpu,
    grid: u32,
    resident: &Loaded,
    probe: &Loaded,
) -> Outcome<(u32, Option<bool>)> {
    if !gpu.has_words_for(grid) {
        return Err(format!("a grid of {grid} blocks is too large").into());
    }
    // An attempt in which a block ended early proves nothing.
    for _ in 0..5 {
        if let Some(seen) = attempt_once(gpu, grid, resident, probe)? {
            return Ok(seen);
        }
    }
    Err("the kernel left before it was told to, again and again; is the host busy?".into())
}

/// Makes one attempt. Returns `None` if a block ended before it was told to.
fn attempt_once(
    gpu: &Gpu,
    grid: u32,
    resident: &Loaded,
    probe: &Loaded,
) -> Outcome<Option<(u32, Option<bool>)>> {
    let number = gpu.next_number();
    gpu.launch(resident, grid, gpu.resident, Area::First, number)?;
    let arrived = all_arrived(gpu, Area::First, grid, number);
    let launched = (arrived == grid).then(|| gpu.launch(probe, 1, gpu.probe, Area::First, number));
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

/// Waits until all blocks have arrived, or until no more arrive for a while. Returns how many have.
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
