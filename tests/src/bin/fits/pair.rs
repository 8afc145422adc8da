//! Generates random pairs of a resident kernel and a probe kernel, most of them close to a limit of the
//! device.

use fastrand::Rng;
use kernel_registry_cuda::fit::{Device, Launch, Processor, residency};

use crate::ptx::{ALIGNMENT, Spec};

/// A resident kernel with its grid, and a probe kernel that is launched with one block while the resident one
/// runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pair {
    pub(crate) scarce: ScarceResource,
    pub(crate) resident: Spec,
    pub(crate) grid: u32,
    pub(crate) probe: Spec,
}

/// The resource that the pair should run out of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ScarceResource {
    Threads,
    Blocks,
    Registers,
    Shared,
    Anything,
}

const KIB: u32 = 1 << 10;

/// The most bytes of static shared memory that CUDA allows.
const MOST_STATIC: u32 = 48 * KIB;

/// The registers per thread of the smallest kernel, and of the largest kernel without spills.
const FEWEST: u32 = 16;
const MOST: u32 = 240;

const BLOCKS: [u32; 10] = [32, 64, 128, 128, 256, 256, 384, 512, 768, 1024];

impl ScarceResource {
    pub(crate) fn any(rng: &mut Rng) -> Self {
        let all = [
            ScarceResource::Threads,
            ScarceResource::Blocks,
            ScarceResource::Registers,
            ScarceResource::Shared,
            ScarceResource::Anything,
        ];
        all[rng.usize(..all.len())]
    }
}

impl Spec {
    /// Describes a launch with the figures that are known before the driver compiles the kernel.
    pub(crate) fn launch(&self, grid: u32) -> Launch {
        let Spec { threads, registers, static_shared, dynamic_shared, carveout } = *self;
        let grid = grid.into();
        Launch { grid, threads, registers, static_shared, dynamic_shared, carveout, ..Launch::default() }
    }
}

impl Pair {
    /// Returns a random pair. The same device, seed and index give the same pair.
    pub(crate) fn random(device: &Device, seed: u64, index: u64) -> Self {
        let mut rng = Rng::with_seed(seed.wrapping_mul(1_000_003).wrapping_add(index));
        let scarce = ScarceResource::any(&mut rng);
        let mut pairs = std::iter::repeat_with(|| Self::attempt(device, scarce, &mut rng));
        pairs.find_map(|pair| pair).expect("an endless number of attempts")
    }

    /// Generates a pair. Returns `None` if the device can't run one of its kernels.
    fn attempt(device: &Device, scarce: ScarceResource, rng: &mut Rng) -> Option<Self> {
        let resident = resident_kernel(device, scarce, rng);
        let capacity = residency(device, &resident.launch(1)).ok()?.per_processor;
        let on_each = match scarce {
            ScarceResource::Blocks => capacity.saturating_sub(rng.u32(0..=1)).max(1),
            _ => rng.u32(1..=capacity.max(1)),
        };
        let some = rng.u32(1..device.processors.max(2));
        let grid = match rng.u32(0..20) {
            0..13 => device.processors * on_each,
            13..16 if on_each < capacity => device.processors * on_each + some,
            13..16 => device.processors * on_each - some,
            16 => some,
            // The grid has more blocks than the device has room for.
            _ => device.processors * capacity + some,
        };
        let mut processor = Processor::new(device);
        processor.put(&resident.launch(grid), (grid / device.processors).min(capacity));
        let probe = probe_kernel(device, scarce, &processor, rng);
        probe.launch(1).check(device).ok()?;
        Some(Pair { scarce, resident, grid, probe })
    }
}

/// Returns the most registers that a thread of a block of this size can have.
fn most_registers(device: &Device, threads: u32) -> u32 {
    let units = device.block_registers / 256 / threads.div_ceil(32).next_multiple_of(4);
    (units * 8).min(MOST)
}

fn threads(rng: &mut Rng) -> u32 {
    match rng.u32(0..8) {
        0 => rng.u32(1..=1024),
        _ => BLOCKS[rng.usize(..BLOCKS.len())],
    }
}

pub(crate) fn resident_kernel(device: &Device, scarce: ScarceResource, rng: &mut Rng) -> Spec {
    let threads = match scarce {
        ScarceResource::Blocks => *rng.choice(&[1, 32, 32, 48, 64]).unwrap_or(&32),
        ScarceResource::Shared => *rng.choice(&[32, 64, 128, 256]).unwrap_or(&32),
        _ => threads(rng),
    };
    let most = most_registers(device, threads);
    let registers = match scarce {
        ScarceResource::Registers | ScarceResource::Anything => rng.u32(FEWEST..=most.max(FEWEST)),
        _ => rng.u32(FEWEST..=32),
    };
    let uses_shared = match scarce {
        ScarceResource::Shared => rng.u32(0..4) > 0,
        ScarceResource::Anything => rng.bool(),
        _ => false,
    };
    let (static_shared, dynamic_shared) =
        if uses_shared { split(rng.u32(1..=40 * KIB), rng) } else { (0, 0) };
    let carveout = rng.bool().then_some(100);
    Spec { threads, registers, static_shared, dynamic_shared, carveout }
}

/// Splits shared memory into static and dynamic. The static part is a multiple of the dynamic part's
/// alignment. Otherwise the compiler would pad it, and a block could ask for more than the device has.
fn split(bytes: u32, rng: &mut Rng) -> (u32, u32) {
    let fixed = match rng.u32(0..3) {
        0 => 0,
        1 => bytes.min(MOST_STATIC),
        _ => rng.u32(0..=bytes.min(MOST_STATIC)),
    };
    let fixed = if fixed < bytes { fixed / ALIGNMENT * ALIGNMENT } else { fixed };
    (fixed, bytes - fixed)
}

/// Generates a probe kernel that takes about as much as is left of a multiprocessor. `left` is that
/// multiprocessor with its resident blocks.
pub(crate) fn probe_kernel(
    device: &Device,
    scarce: ScarceResource,
    left: &Processor<'_>,
    rng: &mut Rng,
) -> Spec {
    let few = Spec {
        threads: 32,
        registers: rng.u32(FEWEST..=24),
        static_shared: 0,
        dynamic_shared: 0,
        carveout: None,
    };
    // The probe takes one unit less than is left, all of it, or one or two units more.
    let units_more = rng.i64(-1..=2);
    let more = |unit: u32| i64::from(unit) * units_more;
    match scarce {
        ScarceResource::Threads => {
            let warps = i64::from((device.threads - left.threads().min(device.threads)) / 32) + more(1);
            let threads = warps.clamp(1, 32) as u32 * 32;
            Spec { threads: threads - if rng.bool() { 0 } else { rng.u32(0..32) }, ..few }
        }
        ScarceResource::Blocks => Spec { threads: rng.u32(1..=64), ..few },
        ScarceResource::Registers => {
            let threads = threads(rng);
            let warps_of_part = threads.div_ceil(32).div_ceil(4);
            let units = (device.registers - left.registers().min(device.registers)) / 4 / 256;
            let registers = i64::from(units / warps_of_part * 8) + more(8) - i64::from(rng.u32(0..8));
            let most = most_registers(device, threads).max(FEWEST);
            Spec { threads, registers: registers.clamp(FEWEST.into(), most.into()) as u32, ..few }
        }
        ScarceResource::Shared => {
            // `all` is the current carve-out, or the largest one.
            let all = if rng.bool() { left.carveout().unwrap_or(device.shared) } else { device.shared };
            let unit = *rng.choice(&[128, 1024, 4096]).unwrap_or(&128);
            let bytes = i64::from(all) - i64::from(left.shared() + device.reserved_shared) + more(unit);
            let bytes = bytes.clamp(0, device.block_shared.into()) as u32;
            let (static_shared, dynamic_shared) = split(bytes, rng);
            Spec { threads: 64, static_shared, dynamic_shared, ..few }
        }
        ScarceResource::Anything => {
            let threads = threads(rng);
            let registers = rng.u32(FEWEST..=most_registers(device, threads).max(FEWEST));
            let bytes = if rng.bool() { rng.u32(0..=device.block_shared) } else { 0 };
            let (static_shared, dynamic_shared) = split(bytes, rng);
            Spec { threads, registers, static_shared, dynamic_shared, carveout: None }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_block_asks_for_more_shared_memory_than_the_device_has() {
        let device = Device::of(90).unwrap();
        for index in 0..2_000 {
            let Pair { resident, probe, .. } = Pair::random(device, 1, index);
            for Spec { static_shared, dynamic_shared, .. } in [resident, probe] {
                let begin = if dynamic_shared > 0 {
                    static_shared.next_multiple_of(ALIGNMENT)
                } else {
                    static_shared
                };
                assert!(begin + dynamic_shared <= device.block_shared, "pair {index}");
            }
        }
    }
}
