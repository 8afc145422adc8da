//! What the multiprocessors of each architecture have room for.
//!
//! Sources: the tables of compute capabilities in NVIDIA's CUDA programming guide, and `cuda_occupancy.h` of CUDA 13.0, which
//! has the granularities and the steps of the carve-out. No row but sm_90 was tried on hardware (H200). Products, their
//! multiprocessors and the groups of these are from NVIDIA's descriptions of the products.

/// Threads of a warp.
pub(super) const WARP: u32 = 32;

/// The parts of a multiprocessor, each of which has a quarter of its registers and warps.
pub(super) const PARTITIONS: u32 = 4;

/// Registers are given to warps in units of this many.
pub(super) const REGISTER_UNIT: u32 = 256;

/// The room on a device: its multiprocessors, and what each of them has.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Device {
    /// The architecture: 90 for `sm_90`.
    pub sm: u32,
    /// Multiprocessors. In the [table](Device::of) those of the [product](Self::product), or 0 if there is none.
    pub processors: u32,
    /// A product with that many multiprocessors.
    pub product: Option<&'static str>,
    /// Threads of a block.
    pub block_threads: u32,
    /// Threads of a multiprocessor.
    pub threads: u32,
    /// Blocks of a multiprocessor.
    pub blocks: u32,
    /// Registers of a multiprocessor.
    pub registers: u32,
    /// Registers of a block.
    pub block_registers: u32,
    /// Registers of a thread.
    pub thread_registers: u32,
    /// Bytes of shared memory of a multiprocessor, at the largest carve-out.
    pub shared: u32,
    /// Bytes of shared memory that a block can have if its kernel opts in, without the reserved ones.
    pub block_shared: u32,
    /// Bytes of shared memory that the system reserves in each block.
    pub reserved_shared: u32,
    /// Shared memory is given to blocks in units of this many bytes.
    pub shared_unit: u32,
    /// The sizes of the carve-out in bytes, ascending.
    pub carveouts: &'static [u32],
    /// Blocks of a cluster, unless the kernel opts in to more, which not every device can run. 1 if there are no clusters.
    pub cluster: u32,
    /// The most groups that its multiprocessors can be in (GPCs). A cluster is within one, so in each some may be left over.
    pub groups: u32,
}

const KIB: u32 = 1 << 10;

const TURING: &[u32] = &[32 * KIB, 64 * KIB];
const UP_TO_100: &[u32] = &[0, 8 * KIB, 16 * KIB, 32 * KIB, 64 * KIB, 100 * KIB];
const UP_TO_164: &[u32] = &[0, 8 * KIB, 16 * KIB, 32 * KIB, 64 * KIB, 100 * KIB, 132 * KIB, 164 * KIB];
const UP_TO_228: &[u32] =
    &[0, 8 * KIB, 16 * KIB, 32 * KIB, 64 * KIB, 100 * KIB, 132 * KIB, 164 * KIB, 196 * KIB, 228 * KIB];

/// A row: architecture, a product and its multiprocessors, threads and blocks of each, the steps of the carve-out, groups.
const fn row(
    sm: u32,
    product: Option<&'static str>,
    processors: u32,
    (threads, blocks): (u32, u32),
    carveouts: &'static [u32],
    groups: u32,
) -> Device {
    let shared = carveouts[carveouts.len() - 1];
    let reserved_shared = if sm < 80 { 0 } else { KIB };
    let has_clusters = sm >= 90;
    Device {
        sm,
        processors,
        product,
        block_threads: 1024,
        threads,
        blocks,
        registers: 64 * KIB,
        block_registers: 64 * KIB,
        thread_registers: 255,
        shared,
        block_shared: shared - reserved_shared,
        reserved_shared,
        shared_unit: if sm < 80 { 256 } else { 128 },
        carveouts,
        cluster: if has_clusters { 8 } else { 1 },
        groups,
    }
}

/// The guide has no row for sm_88; the smaller of its neighbours' figures stand in.
const DEVICES: [Device; 12] = [
    row(75, Some("T4"), 40, (1024, 16), TURING, 1),
    row(80, Some("A100"), 108, (2048, 32), UP_TO_164, 1),
    row(86, Some("A10"), 72, (1536, 16), UP_TO_100, 1),
    row(87, Some("Jetson AGX Orin"), 16, (1536, 16), UP_TO_164, 1),
    row(88, None, 0, (1536, 16), UP_TO_100, 1),
    row(89, Some("L4"), 58, (1536, 24), UP_TO_100, 1),
    row(90, Some("H100 SXM, H200"), 132, (2048, 32), UP_TO_228, 8),
    row(100, Some("B200"), 148, (2048, 32), UP_TO_228, 8),
    row(103, None, 0, (2048, 32), UP_TO_228, 8),
    row(110, Some("Jetson Thor T5000"), 20, (1536, 24), UP_TO_228, 4),
    row(120, Some("RTX 5090"), 170, (1536, 24), UP_TO_100, 12),
    row(121, Some("GB10"), 48, (1536, 24), UP_TO_100, 8),
];

impl Device {
    /// The row of an architecture, such as 90 for `sm_90`.
    pub fn of(sm: u32) -> Option<&'static Device> {
        DEVICES.iter().find(|device| device.sm == sm)
    }

    /// Bytes of shared memory that a block can have on an architecture if its kernel opts in, without the reserved ones.
    /// Newer architectures without a row have as much as the last row before them.
    pub fn block_shared_on(sm: u32) -> u32 {
        match DEVICES.iter().rfind(|device| device.sm <= sm) {
            Some(device) => device.block_shared,
            // Volta.
            None if sm >= 70 => 96 * KIB,
            None => 48 * KIB,
        }
    }

    /// All rows.
    pub fn all() -> &'static [Device] {
        &DEVICES
    }

    /// Warps of a multiprocessor.
    pub fn warps(&self) -> u32 {
        self.threads / WARP
    }

    /// The smallest carve-out that holds so many bytes, or else the largest.
    pub fn carveout(&self, bytes: u32) -> u32 {
        let steps = self.carveouts.iter().copied();
        steps.filter(|step| *step >= bytes).min().unwrap_or(self.shared).min(self.shared)
    }

    /// The units of registers that each part of a multiprocessor has.
    pub(super) fn partition_units(&self) -> u32 {
        self.registers / PARTITIONS / REGISTER_UNIT
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_order_and_whole() {
        assert!(DEVICES.is_sorted_by_key(|device| device.sm));
        for device in &DEVICES {
            assert_eq!(device.product.is_some(), device.processors > 0, "sm_{}", device.sm);
            assert!(device.carveouts.is_sorted(), "sm_{}", device.sm);
            assert_eq!(device.threads % (WARP * PARTITIONS), 0, "sm_{}", device.sm);
        }
        assert_eq!(Device::of(90).unwrap().block_shared, 227 * KIB);
        assert_eq!(Device::of(75).unwrap().block_shared, 64 * KIB);
        assert_eq!(Device::of(70), None);
        let on = [60, 72, 75, 88, 101, 130].map(Device::block_shared_on);
        assert_eq!(on, [48, 96, 64, 99, 227, 99].map(|kib| kib * KIB));
    }

    #[test]
    fn carveouts_go_up_in_steps() {
        let hopper = Device::of(90).unwrap();
        let steps = [0, 1, 8 * KIB, 8 * KIB + 1, 228 * KIB, 300 * KIB].map(|bytes| hopper.carveout(bytes));
        assert_eq!(steps, [0, 8 * KIB, 8 * KIB, 16 * KIB, 228 * KIB, 228 * KIB]);
        assert_eq!(Device::of(75).unwrap().carveout(0), 32 * KIB);
    }
}
