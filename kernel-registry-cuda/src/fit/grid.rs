//! Computes how many blocks of a grid run at once on a whole device.

use super::device::Device;
use super::launch::{CannotRun, Launch};
use super::processor::{Limit, Processor, Space};
use super::shortage::Shortage;

/// Whether all blocks of a grid are on the device at once, and how they are spread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Residency {
    /// Blocks of the grid.
    pub grid: u64,
    /// Blocks that a multiprocessor has room for.
    pub per_processor: u32,
    /// Blocks that the device has room for.
    pub capacity: u64,
    /// The resource that limits `capacity`.
    pub limit: Limit,
    /// Blocks on the multiprocessors with the fewest blocks of the grid.
    pub least: u32,
    /// How many multiprocessors have one block more than `least`.
    pub fuller: u32,
}

impl Residency {
    /// Returns whether all blocks of the grid are on the device at once.
    pub fn fits(&self) -> bool {
        self.grid <= self.capacity
    }
}

/// How many blocks of another kernel run alongside a resident grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// The blocks that run at once on a multiprocessor with the fewest resident blocks.
    pub per_processor: u32,
    /// The blocks that run at once on the device.
    pub at_once: u64,
    /// The resource that limits `per_processor`.
    pub limit: Limit,
    /// Blocks of a cluster. They run together, so there must be room for all of them.
    pub cluster: u32,
    /// The carve-out in bytes that the resident kernel [wants](Launch::wanted_carveout), and that such a
    /// multiprocessor therefore has. `None` if no block is resident there.
    pub carveout: Option<u32>,
    /// The resource that a block lacks on such a multiprocessor, if the kernel does not fit.
    pub shortage: Option<Shortage>,
}

impl Room {
    /// Describes room for `at_once` blocks on the device, and for `space` on `processor`, one with the least
    /// room.
    pub(super) fn new(other: &Launch, at_once: u64, space: Space, processor: &Processor<'_>) -> Room {
        let limit = if at_once == 0 && space.blocks > 0 { Limit::Cluster } else { space.limit };
        Room {
            per_processor: space.blocks,
            at_once,
            limit,
            cluster: other.cluster,
            carveout: processor.carveout(),
            shortage: (at_once < other.cluster.into()).then(|| processor.shortage(other, limit)),
        }
    }

    /// Returns whether the kernel runs: at least one block (or cluster) at a time.
    pub fn fits(&self) -> bool {
        self.at_once >= self.cluster.into()
    }
}

/// Computes how many blocks of a grid are on the device at once.
///
/// # Errors
///
/// Fails if the device cannot run the launch at all.
pub fn residency(device: &Device, launch: &Launch) -> Result<Residency, CannotRun> {
    launch.check(device)?;
    let space = Processor::new(device).space(launch);
    let capacity = in_clusters(device, launch, space.blocks);
    let processors = u64::from(device.processors.max(1));
    let is_clustered = capacity < u64::from(space.blocks) * processors;
    Ok(Residency {
        grid: launch.grid,
        per_processor: space.blocks,
        capacity,
        limit: if is_clustered { Limit::Cluster } else { space.limit },
        least: u32::try_from(launch.grid / processors).unwrap_or(u32::MAX),
        fuller: (launch.grid % processors) as u32,
    })
}

/// Computes how many blocks of the kernel `other` run at once alongside a resident grid, which must
/// [fit](Residency::fits).
///
/// However the hardware spreads the resident grid, at least one multiprocessor has no more than
/// [`least`](Residency::least) of its blocks. That one runs a block of `other` if `other` fits.
///
/// # Errors
///
/// Fails if the device cannot run one of the two kernels at all.
pub fn beside(device: &Device, resident: &Launch, other: &Launch) -> Result<Room, CannotRun> {
    let residency = residency(device, resident)?;
    other.check(device)?;
    let with = |blocks| {
        let mut processor = Processor::new(device);
        processor.put(resident, blocks);
        processor
    };
    let emptier = with(residency.least);
    let space = emptier.space(other);
    let fuller = match residency.fuller {
        0 => space,
        _ => with(residency.least.saturating_add(1)).space(other),
    };
    let at_once = if other.cluster > 1 {
        // Emptier multiprocessors may be in different GPCs, so a cluster may have to include fuller ones.
        in_clusters(device, other, space.blocks.min(fuller.blocks))
    } else {
        let emptier = u64::from(device.processors.saturating_sub(residency.fuller));
        emptier * u64::from(space.blocks) + u64::from(residency.fuller) * u64::from(fuller.blocks)
    };
    Ok(Room::new(other, at_once, space, &emptier))
}

/// Returns how many blocks in whole clusters run at once, if each multiprocessor has room for `per_processor`
/// blocks.
pub(super) fn in_clusters(device: &Device, launch: &Launch, per_processor: u32) -> u64 {
    let cluster = launch.cluster.max(1);
    // The sizes of the groups (GPCs) are unknown, but even. Up to `left_over` multiprocessors of a group are
    // unused.
    let left_over = match cluster {
        1 => 0,
        even if even % 2 == 0 => even - 2,
        odd => odd - 1,
    };
    let usable = device.processors.saturating_sub(device.groups * left_over);
    u64::from(usable / cluster) * u64::from(cluster) * u64::from(per_processor)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: u32 = 1 << 10;

    fn hopper() -> &'static Device {
        Device::of(90).unwrap()
    }

    fn launch(grid: u64, threads: u32, registers: u32) -> Launch {
        Launch { grid, threads, registers, ..Launch::default() }
    }

    #[test]
    fn the_last_blocks_of_a_grid_that_does_not_fit_wait() {
        let fits = |grid| residency(hopper(), &launch(grid, 1024, 32)).unwrap();
        assert!(fits(264).fits());
        assert!(!fits(265).fits());
        let Residency { capacity, limit, least, fuller, .. } = fits(200);
        assert_eq!((capacity, limit, least, fuller), (264, Limit::Threads, 1, 68));
    }

    #[test]
    fn a_full_device_has_no_room() {
        let resident = launch(264, 1024, 32);
        let room = beside(hopper(), &resident, &launch(1, 1, 16)).unwrap();
        assert_eq!((room.fits(), room.at_once, room.limit), (false, 0, Limit::Threads));
        // With 263 blocks, one multiprocessor has one block less.
        let room = beside(hopper(), &Launch { grid: 263, ..resident }, &launch(1, 1024, 32)).unwrap();
        assert_eq!((room.fits(), room.at_once), (true, 1));
    }

    /// On an H200 with a small block on every multiprocessor, a block with 32 KiB waited until the resident
    /// kernel preferred a carve-out of 100 percent.
    #[test]
    fn the_carveout_of_the_resident_kernel_decides() {
        let resident = launch(132, 1, 16);
        let other = Launch { dynamic_shared: 32 * KIB, ..launch(1, 32, 16) };
        let room = beside(hopper(), &resident, &other).unwrap();
        assert_eq!((room.fits(), room.limit, room.carveout), (false, Limit::Carveout, Some(32 * KIB)));
        let carved = Launch { carveout: Some(100), ..resident };
        let room = beside(hopper(), &carved, &other).unwrap();
        assert_eq!((room.per_processor, room.at_once, room.limit), (6, 6 * 132, Limit::SharedMemory));
        // A multiprocessor without a resident block can have any carve-out.
        let room = beside(hopper(), &Launch { grid: 131, ..resident }, &other).unwrap();
        assert_eq!((room.per_processor, room.at_once, room.carveout), (6, 6, None));
    }

    #[test]
    fn clusters_leave_some_multiprocessors_over() {
        let of = |grid, cluster| {
            residency(hopper(), &Launch { cluster, ..launch(grid, 1024, 32) }).unwrap().capacity
        };
        assert_eq!(of(2, 2), 264);
        // Each of the 8 groups has up to 2 unused multiprocessors, or up to 6 for clusters of 8.
        assert_eq!(of(4, 4), 2 * 116);
        assert_eq!(of(8, 8), 2 * 80);
    }

    #[test]
    fn a_cluster_needs_room_on_every_multiprocessor() {
        let other = Launch { cluster: 2, ..launch(2, 1024, 32) };
        let room = |grid| beside(hopper(), &launch(grid, 1024, 32), &other).unwrap();
        assert!(room(132).fits());
        let Room { at_once, limit, .. } = room(133);
        assert_eq!((at_once, limit), (0, Limit::Cluster));
    }
}
