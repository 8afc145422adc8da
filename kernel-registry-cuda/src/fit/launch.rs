//! Describes a launch, and computes the resources that it takes.

use core::fmt;

use super::device::{Device, PARTITIONS, REGISTER_UNIT, WARP};

/// The properties of a launch that decide whether it fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Launch {
    /// Blocks of the grid.
    pub grid: u64,
    /// Threads of a block.
    pub threads: u32,
    /// Registers of a thread, from the machine code for the device.
    pub registers: u32,
    /// Bytes of shared memory of the kernel's own variables, without the bytes that CUDA reserves.
    pub static_shared: u32,
    /// Bytes of dynamic shared memory.
    pub dynamic_shared: u32,
    /// Blocks of a cluster.
    pub cluster: u32,
    /// The preferred carve-out in percent of the largest one:
    /// `CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT`. `None` leaves the choice to the driver.
    pub carveout: Option<u32>,
}

impl Default for Launch {
    /// Returns a launch of one thread that needs no registers and no memory.
    fn default() -> Self {
        Launch {
            grid: 1,
            threads: 1,
            registers: 0,
            static_shared: 0,
            dynamic_shared: 0,
            cluster: 1,
            carveout: None,
        }
    }
}

impl Launch {
    /// Returns the number of warps of a block.
    pub fn warps(&self) -> u32 {
        self.threads.div_ceil(WARP)
    }

    /// Returns the bytes of shared memory that a block takes of a multiprocessor, including the reserved
    /// bytes.
    pub fn shared(&self, device: &Device) -> u32 {
        let asked = self.static_shared.saturating_add(self.dynamic_shared);
        let bytes = asked.saturating_add(device.reserved_shared);
        bytes.checked_next_multiple_of(device.shared_unit).unwrap_or(u32::MAX)
    }

    /// Returns the carve-out in bytes that the launch prefers, enlarged if needed to hold one block. `None`
    /// without a preference.
    pub(super) fn preferred_carveout(&self, device: &Device) -> Option<u32> {
        let percent = u64::from(self.carveout?.min(100));
        let preferred = (percent * u64::from(device.shared) / 100) as u32;
        Some(device.carveout(preferred.max(self.shared(device))))
    }

    /// Returns the units of registers that a warp takes.
    pub(super) fn register_units(&self) -> u32 {
        self.registers.saturating_mul(WARP).div_ceil(REGISTER_UNIT)
    }

    /// Returns the number of registers that a block takes of a multiprocessor.
    pub fn block_registers(&self) -> u32 {
        self.register_units().saturating_mul(REGISTER_UNIT).saturating_mul(self.warps())
    }

    /// Checks that the device can run a block of this launch.
    ///
    /// # Errors
    ///
    /// Fails if the launch asks for more than a block may have, or if the grid, the block or the cluster is
    /// empty.
    pub fn check(&self, device: &Device) -> Result<(), CannotRun> {
        if self.grid == 0 || self.threads == 0 || self.cluster == 0 {
            return Err(CannotRun::Empty);
        }
        let most = device.block_threads;
        if self.threads > most {
            return Err(CannotRun::Threads { threads: self.threads, most });
        }
        if self.registers > device.thread_registers {
            return Err(CannotRun::ThreadRegisters {
                registers: self.registers,
                most: device.thread_registers,
            });
        }
        // The hardware counts as if each part of a multiprocessor ran equally many warps of the block,
        // rounded up.
        let counted = self.warps().next_multiple_of(PARTITIONS);
        let registers = self.register_units() * REGISTER_UNIT * counted;
        if registers > device.block_registers {
            return Err(CannotRun::Registers {
                registers: self.registers,
                threads: self.threads,
                most: device.block_registers,
            });
        }
        let shared = self.static_shared.saturating_add(self.dynamic_shared);
        if shared > device.block_shared {
            return Err(CannotRun::Shared { bytes: shared, most: device.block_shared });
        }
        // Kernels that opt in can have clusters twice as large.
        let most = if device.cluster > 1 { 2 * device.cluster } else { 1 };
        if self.cluster > most {
            return Err(CannotRun::Cluster { blocks: self.cluster, most });
        }
        if !self.grid.is_multiple_of(self.cluster.into()) {
            return Err(CannotRun::UnevenCluster { grid: self.grid, blocks: self.cluster });
        }
        Ok(())
    }
}

/// Why a device can't run a launch, even alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CannotRun {
    /// The grid, the block or the cluster is empty.
    Empty,
    /// Too many threads in a block.
    Threads {
        /// Threads of a block of the launch.
        threads: u32,
        /// The most that the device allows.
        most: u32,
    },
    /// Too many registers in a thread.
    ThreadRegisters {
        /// Registers of a thread of the kernel.
        registers: u32,
        /// The most that the device allows.
        most: u32,
    },
    /// Too many registers in a block.
    Registers {
        /// Registers of a thread.
        registers: u32,
        /// Threads of the block.
        threads: u32,
        /// The most registers that the device allows in a block.
        most: u32,
    },
    /// Too much shared memory in a block.
    Shared {
        /// Static and dynamic bytes together.
        bytes: u32,
        /// The most that the device allows.
        most: u32,
    },
    /// Too many blocks in a cluster.
    Cluster {
        /// Blocks of a cluster of the launch.
        blocks: u32,
        /// The most that the device allows.
        most: u32,
    },
    /// The number of blocks in the grid is no multiple of the cluster's.
    UnevenCluster {
        /// Blocks of the grid.
        grid: u64,
        /// Blocks of a cluster.
        blocks: u32,
    },
}

impl fmt::Display for CannotRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CannotRun::Empty => write!(f, "the grid, block or cluster is empty; each needs at least one"),
            CannotRun::Threads { threads, most } => {
                write!(f, "a block of {threads} threads is too large; use {most} at most")
            }
            CannotRun::ThreadRegisters { registers, most } => {
                write!(f, "{registers} registers are too many for a thread; the device has {most}")
            }
            CannotRun::Registers { registers, threads, most } => write!(
                f,
                "{threads} threads with {registers} registers each need more than the {most} registers of a block; use \
                 smaller blocks, or compile with `__launch_bounds__({threads})`"
            ),
            CannotRun::Shared { bytes, most } => {
                write!(f, "{bytes} bytes of shared memory are too much for a block; use {most} at most")
            }
            CannotRun::Cluster { most: 1, .. } => write!(f, "the device has no clusters"),
            CannotRun::Cluster { blocks, most } => {
                write!(f, "a cluster of {blocks} blocks is too large; use {most} at most")
            }
            CannotRun::UnevenCluster { grid, blocks } => {
                write!(f, "{grid} blocks are no multiple of the cluster's {blocks}")
            }
        }
    }
}

impl core::error::Error for CannotRun {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn launches_that_exceed_the_limits_of_a_block_are_refused() {
        let hopper = Device::of(90).unwrap();
        let check = |launch: Launch| launch.check(hopper);
        let one = Launch::default();
        assert_eq!(check(one), Ok(()));
        assert_eq!(check(Launch { grid: 0, ..one }), Err(CannotRun::Empty));
        assert_eq!(
            check(Launch { threads: 1025, ..one }),
            Err(CannotRun::Threads { threads: 1025, most: 1024 })
        );
        assert_eq!(check(Launch { threads: 1024, registers: 64, ..one }), Ok(()));
        assert!(matches!(
            check(Launch { threads: 1024, registers: 65, ..one }),
            Err(CannotRun::Registers { .. })
        ));
        // 15 warps count as 16.
        assert_eq!(check(Launch { threads: 480, registers: 128, ..one }), Ok(()));
        assert!(matches!(
            check(Launch { threads: 480, registers: 129, ..one }),
            Err(CannotRun::Registers { .. })
        ));
        assert_eq!(check(Launch { dynamic_shared: 227 << 10, ..one }), Ok(()));
        let shared = Launch { static_shared: 1, dynamic_shared: 227 << 10, ..one };
        assert!(matches!(check(shared), Err(CannotRun::Shared { .. })));
        assert_eq!(check(Launch { grid: 32, cluster: 16, ..one }), Ok(()));
        assert!(matches!(
            check(Launch { grid: 33, cluster: 8, ..one }),
            Err(CannotRun::UnevenCluster { .. })
        ));
        let old = Launch { grid: 2, cluster: 2, ..one };
        assert_eq!(old.check(Device::of(80).unwrap()), Err(CannotRun::Cluster { blocks: 2, most: 1 }));
    }
}
