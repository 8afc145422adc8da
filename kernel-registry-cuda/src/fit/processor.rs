//! One multiprocessor, and the resident blocks on it.
//!
//! Two rules are not in NVIDIA's documents. They were measured on an H200 (driver 580.159), and explain every pair of kernels in
//! `tests/fit/`; for other architectures they are assumed:
//!
//! - Each launch has a [wanted carve-out](Launch::wanted_carveout). An empty multiprocessor takes it from its first block.
//!   After that a block is placed only where the carve-out is at least the one that its own launch wants, even if less would hold it.
//! - Warps are dealt evenly to the four parts of a multiprocessor: first those of the resident blocks, then those of the new ones.

use core::fmt;

use super::device::{Device, PARTITIONS, REGISTER_UNIT, WARP};
use super::launch::Launch;

/// What blocks run out of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Limit {
    /// Threads, which are taken in whole warps.
    Threads,
    /// Blocks.
    Blocks,
    /// Registers.
    Registers,
    /// Shared memory.
    SharedMemory,
    /// The carve-out, which is too small, and does not change while a block is on the multiprocessor.
    Carveout,
    /// Multiprocessors that a cluster can use together.
    Cluster,
}

impl Limit {
    /// Its name in JSON.
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

/// How many blocks of a launch a multiprocessor has room for, and what limits it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// Blocks.
    pub blocks: u32,
    /// What a further block would lack.
    pub limit: Limit,
}

/// A multiprocessor with its resident blocks.
#[derive(Clone, Debug)]
pub struct Processor<'a> {
    device: &'a Device,
    warps: u32,
    blocks: u32,
    /// Units of registers that are taken in each of its parts, the fullest one last.
    units: [u32; PARTITIONS as usize],
    shared: u32,
    /// Chosen by the first block.
    carveout: Option<u32>,
}

impl<'a> Processor<'a> {
    /// An empty one.
    pub fn new(device: &'a Device) -> Self {
        Processor { device, warps: 0, blocks: 0, units: [0; PARTITIONS as usize], shared: 0, carveout: None }
    }

    pub(super) fn device(&self) -> &'a Device {
        self.device
    }

    /// Adds resident blocks. There must be room for them.
    pub fn put(&mut self, launch: &Launch, blocks: u32) {
        if blocks == 0 {
            return;
        }
        let warps = blocks.saturating_mul(launch.warps());
        let shared = blocks.saturating_mul(launch.shared(self.device));
        self.carveout.get_or_insert_with(|| launch.wanted_carveout(self.device));
        self.warps = self.warps.saturating_add(warps);
        self.blocks = self.blocks.saturating_add(blocks);
        // The emptiest parts get one warp more.
        for (part, units) in (0..).zip(&mut self.units) {
            let warps = warps / PARTITIONS + u32::from(part < warps % PARTITIONS);
            *units = units.saturating_add(warps.saturating_mul(launch.register_units()));
        }
        self.units.sort_unstable();
        self.shared = self.shared.saturating_add(shared);
    }

    /// Threads of the blocks on it, in whole warps.
    pub fn threads(&self) -> u32 {
        self.warps.saturating_mul(WARP)
    }

    /// Blocks on it.
    pub fn blocks(&self) -> u32 {
        self.blocks
    }

    /// Registers that are taken, if every part were as full as the fullest one.
    pub fn registers(&self) -> u32 {
        self.fullest().saturating_mul(PARTITIONS * REGISTER_UNIT)
    }

    /// The units that are taken in its fullest part.
    fn fullest(&self) -> u32 {
        self.units[self.units.len() - 1]
    }

    /// Bytes of shared memory that are taken.
    pub fn shared(&self) -> u32 {
        self.shared
    }

    /// Bytes of its carve-out, unless it is empty and can have any.
    pub fn carveout(&self) -> Option<u32> {
        self.carveout
    }

    /// The blocks of a launch that it has room for.
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

    /// The warps of a launch for which it has registers: if they are dealt evenly, the emptiest parts get one more.
    fn warps_by_registers(&self, launch: &Launch) -> u32 {
        let warps_of_part = |taken: u32| {
            let units = self.device.partition_units().saturating_sub(taken);
            units.checked_div(launch.register_units()).unwrap_or(u32::MAX)
        };
        let fewest = warps_of_part(self.fullest());
        let with_more = self.units.iter().filter(|taken| warps_of_part(**taken) > fewest).count();
        fewest.saturating_mul(PARTITIONS).saturating_add(with_more as u32)
    }

    /// The blocks of a launch for which it has shared memory, and whether the carve-out limits them.
    fn memory(&self, launch: &Launch) -> (u32, Limit) {
        let device = self.device;
        let of_block = launch.shared(device);
        let within = |bytes: u32| bytes.saturating_sub(self.shared).checked_div(of_block).unwrap_or(u32::MAX);
        let blocks = match self.carveout {
            None => within(launch.preferred_carveout(device).unwrap_or(device.shared)),
            Some(carveout) => {
                let wanted = launch.wanted_carveout(device);
                // Whether a preferred one may be smaller was not measured.
                let can_come =
                    if launch.carveout.is_some() { wanted == carveout } else { wanted <= carveout };
                if can_come { within(carveout) } else { 0 }
            }
        };
        let is_carved = blocks < within(device.shared);
        (blocks, if is_carved { Limit::Carveout } else { Limit::SharedMemory })
    }
}

impl Launch {
    /// Bytes of the carve-out that the driver wants for it: the [preferred](Self::carveout) one, or else the smallest that holds
    /// as many blocks as a multiprocessor has room for otherwise. At least one block is held. How many blocks are launched does
    /// not matter.
    ///
    /// This was measured on an H200 (driver 580.159). Of the preferences, 100 is certain. With 50 and blocks of 2 KiB the device had
    /// a larger carve-out than this.
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

    /// As NVIDIA's occupancy calculator has them.
    #[test]
    fn occupancy_is_as_known() {
        let block = |threads, registers| Launch { threads, registers, ..Launch::default() };
        assert_eq!(alone(90, block(256, 32)), (8, Limit::Threads));
        assert_eq!(alone(90, block(32, 32)), (32, Limit::Blocks));
        // 33 registers are 40 in units: 51 warps, but 12 in each part, so 48.
        assert_eq!(alone(90, block(256, 33)), (6, Limit::Registers));
        assert_eq!(alone(90, block(256, 64)), (4, Limit::Registers));
        assert_eq!(alone(90, block(256, 65)), (3, Limit::Registers));
        // 168 registers are 21 units: 3 warps in each part.
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
        // 17 KiB each of 164, 228 and 100.
        assert_eq!(alone(80, of(16 * KIB)), (9, Limit::SharedMemory));
        assert_eq!(alone(90, of(16 * KIB)), (13, Limit::SharedMemory));
        assert_eq!(alone(89, of(16 * KIB)), (5, Limit::SharedMemory));
        // In units of 128 bytes.
        assert_eq!(alone(90, of(113 * KIB)), (2, Limit::SharedMemory));
        assert_eq!(alone(90, of(113 * KIB + 1)), (1, Limit::SharedMemory));
    }

    #[test]
    fn a_preferred_carveout_limits_an_empty_one() {
        let of = |percent| Launch { dynamic_shared: 7 * KIB, carveout: Some(percent), ..Launch::default() };
        assert_eq!(alone(90, of(100)), (28, Limit::SharedMemory));
        // 114 KiB become 132.
        assert_eq!(alone(90, of(50)), (16, Limit::Carveout));
        assert_eq!(alone(90, of(0)), (1, Limit::Carveout));
    }

    #[test]
    fn resident_blocks_fix_the_carveout() {
        let hopper = Device::of(90).unwrap();
        let resident = Launch { threads: 512, ..Launch::default() };
        let mut processor = Processor::new(hopper);
        processor.put(&resident, 1);
        // 4 blocks of 1 KiB are wanted.
        assert_eq!(processor.carveout(), Some(8 * KIB));
        let other = |bytes| Launch { threads: 1024, dynamic_shared: bytes, ..Launch::default() };
        assert_eq!(processor.space(&other(3 * KIB)).blocks, 1);
        // It would hold one block, but two are wanted.
        assert_eq!(processor.space(&other(3 * KIB + 1)), Space { blocks: 0, limit: Limit::Carveout });

        let mut processor = Processor::new(hopper);
        processor.put(&Launch { carveout: Some(100), ..resident }, 1);
        assert_eq!(processor.space(&other(226 * KIB)).blocks, 1);
        assert_eq!(processor.space(&other(226 * KIB + 1)), Space { blocks: 0, limit: Limit::SharedMemory });
    }

    #[test]
    fn more_than_there_is_leaves_nothing() {
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
        // 9 warps with 10 units each: 3 in one part.
        processor.put(&Launch { threads: 288, registers: 80, ..Launch::default() }, 1);
        assert_eq!(processor.registers(), 30 * 4 * 256);
        let other = |threads, registers| Launch { threads, registers, ..Launch::default() };
        assert_eq!(processor.space(&other(128, 34 * 8)).blocks, 1);
        // The others have room for one warp more.
        assert_eq!(processor.space(&other(224, 22 * 8)).blocks, 1);
        assert_eq!(processor.space(&other(256, 22 * 8)), Space { blocks: 0, limit: Limit::Registers });
    }
}
