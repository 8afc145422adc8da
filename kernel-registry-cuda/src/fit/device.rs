//! Holds a table of the resources of a multiprocessor, for each architecture.
//!
//! The figures are from the tables of compute capabilities in NVIDIA's CUDA programming guide. Granularities
//! and carve-out steps are from `cuda_occupancy.h` of CUDA 13.0. Products and their numbers of
//! multiprocessors and GPCs are from NVIDIA's product descriptions. Only the row of sm_90 was tried on
//! hardware (H200).

/// The threads of a warp.
pub(super) const WARP: u32 = 32;

/// The parts of a multiprocessor. Each has a quarter of the registers and warps.
pub(super) const PARTITIONS: u32 = 4;

/// Registers are allocated to warps in multiples of this.
pub(super) const REGISTER_UNIT: u32 = 256;

/// A device's resources: the number of multiprocessors, and what each of them has.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Device {
    /// The architecture: 90 for `sm_90`.
    pub sm: u32,
    /// The number of multiprocessors. In the [table](Device::of) it's that of the [product](Self::product),
    /// or 0 without a product.
    pub processors: u32,
    /// A product with this architecture and number of multiprocessors.
    pub product: Option<&'static str>,
    /// The most threads of a block.
    pub block_threads: u32,
    /// The most threads on a multiprocessor.
    pub threads: u32,
    /// The most blocks on a multiprocessor.
    pub blocks: u32,
    /// Registers of a multiprocessor.
    pub registers: u32,
    /// The most registers of a block.
    pub block_registers: u32,
    /// The most registers of a thread.
    pub thread_registers: u32,
    /// Bytes of shared memory of a multiprocessor, at the largest carve-out.
    pub shared: u32,
    /// The most bytes of shared memory of a block whose kernel opts in, without the reserved bytes.
    pub block_shared: u32,
    /// Bytes of shared memory that CUDA reserves in each block.
    pub reserved_shared: u32,
    /// Shared memory is allocated to blocks in units of this many bytes.
    pub shared_unit: u32,
    /// The sizes of the carve-out in bytes, ascending.
    pub carveouts: &'static [u32],
    /// The most blocks of a cluster without opting in, or 1 if there are no clusters. A kernel can opt in to
    /// more, but not every device can run them.
    pub cluster: u32,
    /// The most groups (GPCs) that the multiprocessors may be in. A cluster runs within one group, so each
    /// group may have unused multiprocessors.
    pub groups: u32,
}

const KIB: u32 = 1 << 10;

const TURING: &[u32] = &[32 * KIB, 64 * KIB];
const UP_TO_100: &[u32] = &[0, 8 * KIB, 16 * KIB, 32 * KIB, 64 * KIB, 100 * KIB];
const UP_TO_164: &[u32] = &[0, 8 * KIB, 16 * KIB, 32 * KIB, 64 * KIB, 100 * KIB, 132 * KIB, 164 * KIB];
const UP_TO_228: &[u32] =
    &[0, 8 * KIB, 16 * KIB, 32 * KIB, 64 * KIB, 100 * KIB, 132 * KIB, 164 * KIB, 196 * KIB, 228 * KIB];

/// Makes a row of the table. `threads` and `blocks` are the most on a multiprocessor.
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

/// The rows of the table. The guide has no row for sm_88, so this one has the smaller figures of sm_87 and
/// sm_89.
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
    /// Returns the row of an architecture, such as 90 for `sm_90`.
    pub fn of(sm: u32) -> Option<&'static Device> {
        DEVICES.iter().find(|device| device.sm == sm)
    }

    /// Returns the most bytes of shared memory that a block can opt in to on an architecture, without the
    /// reserved bytes. A newer architecture without a row gets the last row before it.
    pub fn block_shared_on(sm: u32) -> u32 {
        match DEVICES.iter().rfind(|device| device.sm <= sm) {
            Some(device) => device.block_shared,
            // Volta, which has no row.
            None if sm >= 70 => 96 * KIB,
            None => 48 * KIB,
        }
    }

    /// Returns all rows of the table.
    pub fn all() -> &'static [Device] {
        &DEVICES
    }

    /// Returns the most warps on a multiprocessor.
    pub fn warps(&self) -> u32 {
        self.threads / WARP
    }

    /// Returns the smallest carve-out of at least `bytes`, or else the largest.
    pub fn carveout(&self, bytes: u32) -> u32 {
        let steps = self.carveouts.iter().copied();
        steps.filter(|step| *step >= bytes).min().unwrap_or(self.shared).min(self.shared)
    }

    /// Returns how many units of registers each of the [`PARTITIONS`] of a multiprocessor has.
    pub(super) fn partition_units(&self) -> u32 {
        self.registers / PARTITIONS / REGISTER_UNIT
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sorted_and_complete() {
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
