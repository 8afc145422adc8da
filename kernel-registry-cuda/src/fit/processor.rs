//! Models one multiprocessor with the resident blocks on it.
//!
//! Two of the rules here aren't in NVIDIA's documents. They were measured on an H200 (driver 580.159), and
//! explain every pair of kernels in `tests/fit/`. For other architectures they are assumptions:
//!
//! - Each launch has a [wanted carve-out](Launch::wanted_carveout). An empty multiprocessor takes the one
//!   that its first block wants. From then on it accepts a block only if its carve-out is at least as large
//!   as the block's launch wants, even if the block would fit a smaller one.
//! - Warps are distributed evenly over the four parts of a multiprocessor: first the warps of the resident
//!   blocks, then those of the new blocks.

use core::fmt;

use super::device::{Device, PARTITIONS, REGISTER_UNIT, WARP};
use super::launch::Launch;

/// The resource that limits how many blocks run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Limit {
    /// Threads, which are allocated in whole warps.
    Threads,
    /// The number of blocks.
    Blocks,
    /// Registers.
    Registers,
    /// Shared memory.
    SharedMemory,
    /// The carve-out: it is too small, and does not change while a block is on the multiprocessor.
    Carveout,
    /// Multiprocessors of one group (GPC) with room for the whole cluster.
    Cluster,
}

impl Limit {
    /// Returns the name of the limit in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Limit::Threads => "threads",
            Limit::Blocks => "blocks",
            Limit::Registers => "registers",
            Limit::SharedMemory => "shared_memory",
            Limit::Carveout => "carveout",
            Limit::Cluster => "cluster",
        }
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Limit::SharedMemory => "shared memory",
            Limit::Carveout => "the carve-out",
            Limit::Cluster => "clusters",
            Limit::Threads | Limit::Blocks | Limit::Registers => self.name(),
        })
    }
}

/// How many blocks of a launch a multiprocessor has room for, and what limits them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// The number of blocks.
    pub blocks: u32,
    /// The resource that one more block would lack.
    pub limit: Limit,
}

/// A multiprocessor with its resident blocks.
#[derive(Clone, Debug)]
pub struct Processor<'a> {
    device: &'a Device,
    warps: u32,
    blocks: u32,
    /// Units of registers taken in each of the parts, the fullest part last.
    units: [u32; PARTITIONS as usize],
    shared: u32,
    /// The carve-out in bytes, set by the first block. `None` while there is no block.
    carveout: Option<u32>,
}

impl<'a> Processor<'a> {
    /// Returns an empty multiprocessor.
    pub fn new(device: &'a Device) -> Self {
        Processor { device, warps: 0, blocks: 0, units: [0; PARTITIONS as usize], shared: 0, carveout: None }
    }

    pub(super) fn device(&self) -> &'a Device {
        self.device
    }

    /// Adds resident blocks. The caller has checked that there is room for them.
    pub fn put(&mut self, launch: &Launch, blocks: u32) {
        if blocks == 0 {
            return;
        }
        let warps = blocks.saturating_mul(launch.warps());
        let shared = blocks.saturating_mul(launch.shared(self.device));
        self.carveout.get_or_insert_with(|| launch.wanted_carveout(self.device));
        self.warps = self.warps.saturating_add(warps);
        self.blocks = self.blocks.saturating_add(blocks);
        // The emptiest parts get one warp more than the others.
        for (part, units) in (0..).zip(&mut self.units) {
            let warps = warps / PARTITIONS + u32::from(part < warps % PARTITIONS);
            *units = units.saturating_add(warps.saturating_mul(launch.register_units()));
        }
        self.units.sort_unstable();
        self.shared = self.shared.saturating_add(shared);
    }

    /// Returns the threads of the resident blocks, counted in whole warps.
    pub fn threads(&self) -> u32 {
        self.warps.saturating_mul(WARP)
    }

    /// Returns the number of resident blocks.
    pub fn blocks(&self) -> u32 {
        self.blocks
    }

    /// Returns the registers that would be taken if every part were as full as the fullest one.
    pub fn registers(&self) -> u32 {
        self.fullest().saturating_mul(PARTITIONS * REGISTER_UNIT)
    }

    /// Returns the units of registers that are taken in the fullest part.
    fn fullest(&self) -> u32 {
        self.units[self.units.len() - 1]
    }

    /// Returns the bytes of shared memory that are taken.
    pub fn shared(&self) -> u32 {
        self.shared
    }

    /// Returns the carve-out in bytes. `None` if the multiprocessor is empty, so that any is possible.
    pub fn carveout(&self) -> Option<u32> {
        self.carveout
    }

    /// Computes how many more blocks of a launch there is room for.
    pub fn space(&self, launch: &Launch) -> Space {
        let device = self.device;
        let warps = device.warps().saturating_sub(self.warps);
        let threads = (warps / launch.warps().max(1), Limit::Threads);
        let blocks = (device.blocks.saturating_sub(self.blocks), Limit::Blocks);
        let registers = (self.warps_by_registers(launch) / launch.warps().max(1), Limit::Registers);
        let all = [threads, blocks, registers, self.memory(launch)];
        let (blocks, limit) = all.into_iter().min().unwrap_or(threads);
        Space { blocks, limit }
    }

    /// Returns how many warps of a launch there are registers for. Warps are distributed evenly; the emptiest
    /// parts may get one more than the others.
    fn warps_by_registers(&self, launch: &Launch) -> u32 {
        let warps_of_part = |taken: u32| {
            let units = self.device.partition_units().saturating_sub(taken);
            units.checked_div(launch.register_units()).unwrap_or(u32::MAX)
        };
        let fewest = warps_of_part(self.fullest());
        let with_more = self.units.iter().filter(|taken| warps_of_part(**taken) > fewest).count();
        fewest.saturating_mul(PARTITIONS).saturating_add(with_more as u32)
    }

    /// Returns how many blocks of a launch there is shared memory for, and whether the carve-out limits them.
    fn memory(&self, launch: &Launch) -> (u32, Limit) {
        let device = self.device;
        let of_block = launch.shared(device);
        let within = |bytes: u32| bytes.saturating_sub(self.shared).checked_div(of_block).unwrap_or(u32::MAX);
        let blocks = match self.carveout {
            None => within(launch.preferred_carveout(device).unwrap_or(device.shared)),
            Some(carveout) => {
                let wanted = launch.wanted_carveout(device);
                // Whether a launch with a preference is placed on a larger carve-out wasn't measured.
                let carveout_suits =
                    if launch.carveout.is_some() { wanted == carveout } else { wanted <= carveout };
                if carveout_suits { within(carveout) } else { 0 }
            }
        };
        let is_carved = blocks < within(device.shared);
        (blocks, if is_carved { Limit::Carveout } else { Limit::SharedMemory })
    }
}

impl Launch {
    /// Returns the carve-out in bytes that the driver wants for this launch: the [preferred](Self::carveout)
    /// one, or else the smallest that holds as many blocks as the multiprocessor's other resources allow. It
    /// always holds at least one block. The size of the grid doesn't matter.
    ///
    /// This was measured on an H200 (driver 580.159). A preference of 100 percent is exact. With 50 percent
    /// and blocks of 2 KiB the device had a larger carve-out than this function returns.
    pub fn wanted_carveout(&self, device: &Device) -> u32 {
        self.preferred_carveout(device).unwrap_or_else(|| {
            let blocks = Processor::new(device).space(self).blocks.max(1);
            device.carveout(blocks.saturating_mul(self.shared(device)))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: u32 = 1 << 10;

    fn alone(sm: u32, launch: Launch) -> (u32, Limit) {
        let space = Processor::new(Device::of(sm).unwrap()).space(&launch);
        (space.blocks, space.limit)
    }

    /// Compares with the results of NVIDIA's occupancy calculator.
    #[test]
    fn occupancy_is_as_known() {
        let block = |threads, registers| Launch { threads, registers, ..Launch::default() };
        assert_eq!(alone(90, block(256, 32)), (8, Limit::Threads));
        assert_eq!(alone(90, block(32, 32)), (32, Limit::Blocks));
        // 33 registers of each thread become 40 in units: enough for 51 warps, but only 12 in each of the
        // four parts, so 48.
        assert_eq!(alone(90, block(256, 33)), (6, Limit::Registers));
        assert_eq!(alone(90, block(256, 64)), (4, Limit::Registers));
        assert_eq!(alone(90, block(256, 65)), (3, Limit::Registers));
        // 168 registers are 21 units, so each part holds 3 warps.
        assert_eq!(alone(80, block(96, 168)), (4, Limit::Registers));
        assert_eq!(alone(80, block(128, 168)), (3, Limit::Registers));
        assert_eq!(alone(80, block(256, 255)), (1, Limit::Registers));
        assert_eq!(alone(75, block(1024, 64)), (1, Limit::Threads));
        assert_eq!(alone(89, block(1024, 32)), (1, Limit::Threads));
        assert_eq!(alone(89, block(512, 40)), (3, Limit::Threads));
        assert_eq!(alone(86, block(64, 32)), (16, Limit::Blocks));
        assert_eq!(alone(120, block(64, 32)), (24, Limit::Threads));
    }

    #[test]
    fn a_block_takes_reserved_shared_memory_too() {
        let of = |static_shared| Launch { threads: 64, static_shared, ..Launch::default() };
        assert_eq!(alone(75, of(16 * KIB)), (4, Limit::SharedMemory));
        // Each block takes 17 KiB, of 164, 228 and 100 KiB.
        assert_eq!(alone(80, of(16 * KIB)), (9, Limit::SharedMemory));
        assert_eq!(alone(90, of(16 * KIB)), (13, Limit::SharedMemory));
        assert_eq!(alone(89, of(16 * KIB)), (5, Limit::SharedMemory));
        // Shared memory is allocated in units of 128 bytes.
        assert_eq!(alone(90, of(113 * KIB)), (2, Limit::SharedMemory));
        assert_eq!(alone(90, of(113 * KIB + 1)), (1, Limit::SharedMemory));
    }

    #[test]
    fn a_preferred_carveout_limits_an_empty_multiprocessor() {
        let of = |percent| Launch { dynamic_shared: 7 * KIB, carveout: Some(percent), ..Launch::default() };
        assert_eq!(alone(90, of(100)), (28, Limit::SharedMemory));
        // 50 percent are 114 KiB, and the next step is 132 KiB.
        assert_eq!(alone(90, of(50)), (16, Limit::Carveout));
        assert_eq!(alone(90, of(0)), (1, Limit::Carveout));
    }

    #[test]
    fn resident_blocks_fix_the_carveout() {
        let hopper = Device::of(90).unwrap();
        let resident = Launch { threads: 512, ..Launch::default() };
        let mut processor = Processor::new(hopper);
        processor.put(&resident, 1);
        // A multiprocessor holds 4 blocks of 512 threads, which need 1 KiB each.
        assert_eq!(processor.carveout(), Some(8 * KIB));
        let other = |bytes| Launch { threads: 1024, dynamic_shared: bytes, ..Launch::default() };
        assert_eq!(processor.space(&other(3 * KIB)).blocks, 1);
        // The carve-out would hold one block, but the launch wants one for two blocks.
        assert_eq!(processor.space(&other(3 * KIB + 1)), Space { blocks: 0, limit: Limit::Carveout });

        let mut processor = Processor::new(hopper);
        processor.put(&Launch { carveout: Some(100), ..resident }, 1);
        assert_eq!(processor.space(&other(226 * KIB)).blocks, 1);
        assert_eq!(processor.space(&other(226 * KIB + 1)), Space { blocks: 0, limit: Limit::SharedMemory });
    }

    #[test]
    fn a_multiprocessor_filled_beyond_its_limits_has_no_room() {
        let mut processor = Processor::new(Device::of(90).unwrap());
        let large = Launch { threads: 1024, registers: 64, ..Launch::default() };
        processor.put(&large, u32::MAX);
        assert_eq!((processor.threads(), processor.registers()), (u32::MAX, u32::MAX));
        assert_eq!(processor.space(&Launch::default()).blocks, 0);
    }

    #[test]
    fn registers_are_those_of_the_fullest_part() {
        let hopper = Device::of(90).unwrap();
        let mut processor = Processor::new(hopper);
        // One part has 3 of the 9 warps, each with 10 units.
        processor.put(&Launch { threads: 288, registers: 80, ..Launch::default() }, 1);
        assert_eq!(processor.registers(), 30 * 4 * 256);
        let other = |threads, registers| Launch { threads, registers, ..Launch::default() };
        assert_eq!(processor.space(&other(128, 34 * 8)).blocks, 1);
        // The other parts have room for one warp more.
        assert_eq!(processor.space(&other(224, 22 * 8)).blocks, 1);
        assert_eq!(processor.space(&other(256, 22 * 8)), Space { blocks: 0, limit: Limit::Registers });
    }
}
