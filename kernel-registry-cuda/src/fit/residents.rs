//! Computes what fits next to several resident grids.

use super::device::Device;
use super::grid::{self, Residency, Room, in_clusters};
use super::launch::{CannotRun, Launch};
use super::processor::{Processor, Space};

/// Resident grids, in launch order. Each [fits](Self::residency) next to the grids before it.
///
/// The blocks of the first grid are spread evenly. How the hardware spreads later grids is unknown, so every
/// multiprocessor counts as full as it can be. But at least one has no more than the average number of blocks
/// of the last grid.
#[derive(Clone, Copy, Debug)]
pub struct Residents<'a> {
    device: &'a Device,
    grids: &'a [Launch],
}

impl<'a> Residents<'a> {
    /// Creates the model of these resident grids on this device.
    pub fn new(device: &'a Device, grids: &'a [Launch]) -> Self {
        Residents { device, grids }
    }

    /// Computes how many blocks of a further resident grid are on the device at once.
    ///
    /// # Errors
    ///
    /// Fails if the device cannot run the launch at all.
    pub fn residency(&self, launch: &Launch) -> Result<Residency, CannotRun> {
        let alone = grid::residency(self.device, launch)?;
        let (space, capacity) = match self.grids {
            [] => return Ok(alone),
            [resident] => {
                let room = grid::beside(self.device, resident, launch)?;
                (Space { blocks: room.per_processor, limit: room.limit }, room.at_once)
            }
            _ => {
                let (_, space) = self.tightest(launch, false);
                (space, in_clusters(self.device, launch, space.blocks))
            }
        };
        Ok(Residency { per_processor: space.blocks, capacity, limit: space.limit, ..alone })
    }

    /// Computes how many blocks of the kernel `other` run at once alongside the resident grids.
    ///
    /// # Errors
    ///
    /// Fails if the device can't run `other`, or the only resident grid, at all.
    pub fn beside(&self, other: &Launch) -> Result<Room, CannotRun> {
        if let [resident] = self.grids {
            return grid::beside(self.device, resident, other);
        }
        other.check(self.device)?;
        // The average holds for a single multiprocessor, and a cluster needs several.
        let (processor, space) = self.tightest(other, other.cluster == 1);
        let at_once = in_clusters(self.device, other, space.blocks);
        Ok(Room::new(other, at_once, space, &processor))
    }

    /// Returns the multiprocessor with the least room for a launch. With `average`, only considers those with
    /// no more than the average number of blocks of the last grid.
    ///
    /// The first grid with a block on a multiprocessor sets the carve-out, so a later grid sets it where
    /// earlier grids have no block.
    fn tightest(&self, launch: &Launch, average: bool) -> (Processor<'a>, Space) {
        let processors = u64::from(self.device.processors.max(1));
        let last = self.grids.len().saturating_sub(1);
        let with_those_from = |first: usize| {
            // A grid has at most as many blocks here as fit next to the smallest possible number of the
            // earlier grids' blocks.
            let (mut processor, mut emptiest) = (Processor::new(self.device), Processor::new(self.device));
            for (place, grid) in self.grids.iter().enumerate().skip(first) {
                let of_average = u32::try_from(grid.grid / processors).unwrap_or(u32::MAX);
                let most = match place {
                    0 => u32::try_from(grid.grid.div_ceil(processors)).unwrap_or(u32::MAX),
                    _ => emptiest.space(grid).blocks.min(u32::try_from(grid.grid).unwrap_or(u32::MAX)),
                };
                processor.put(grid, if average && place == last { of_average } else { most });
                emptiest.put(grid, if place == 0 { of_average } else { 0 });
            }
            let space = processor.space(launch);
            (processor, space)
        };
        let absent = self.grids.iter().take_while(|grid| grid.grid < processors).count();
        let mut tightest = with_those_from(0);
        for first in 1..=absent.min(last) {
            let found = with_those_from(first);
            if found.1.blocks < tightest.1.blocks {
                tightest = found;
            }
        }
        tightest
    }
}

#[cfg(test)]
mod tests {
    use super::super::processor::Limit;
    use super::*;

    const KIB: u32 = 1 << 10;

    fn hopper() -> &'static Device {
        Device::of(90).unwrap()
    }

    fn launch(grid: u64, threads: u32) -> Launch {
        Launch { grid, threads, registers: 32, ..Launch::default() }
    }

    #[test]
    fn a_second_grid_gets_the_room_that_the_first_leaves() {
        let resident = [launch(132, 1024)];
        let both = Residents::new(hopper(), &resident);
        assert_eq!(both.residency(&launch(132, 1024)).unwrap().capacity, 132);
        assert!(!both.residency(&launch(133, 1024)).unwrap().fits());
        assert_eq!(
            both.residency(&launch(1, 2048)).unwrap_err(),
            CannotRun::Threads { threads: 2048, most: 1024 }
        );
        let some = [launch(66, 1024)];
        assert_eq!(
            Residents::new(hopper(), &some).residency(&launch(200, 1024)).unwrap().capacity,
            66 + 2 * 66
        );
        // The third grid has to assume that each multiprocessor is as full as it can be.
        let two = [launch(66, 1024), launch(66, 1024)];
        assert_eq!(Residents::new(hopper(), &two).residency(&launch(1, 1024)).unwrap().capacity, 0);
    }

    #[test]
    fn a_kernel_gets_the_room_that_two_grids_leave() {
        let room = |first, second, other| {
            Residents::new(hopper(), &[launch(first, 1024), launch(second, 512)]).beside(&other).unwrap()
        };
        assert_eq!(room(132, 132, launch(1, 512)).per_processor, 1);
        let full = room(132, 132, launch(1, 1024));
        assert_eq!((full.fits(), full.limit), (false, Limit::Threads));
        // 131 blocks of the second grid leave one multiprocessor without any of them.
        assert!(room(132, 131, launch(1, 1024)).fits());
        // Blocks of the second grid may gather where the first has no block.
        assert!(!room(131, 132, launch(1, 1024)).fits());
    }

    #[test]
    fn the_second_grid_may_set_the_carveout() {
        let carved = Launch { carveout: Some(100), ..launch(66, 512) };
        let other = Launch { dynamic_shared: 64 * KIB, ..launch(1, 256) };
        let room =
            |second: u64| Residents::new(hopper(), &[carved, launch(second, 256)]).beside(&other).unwrap();
        // On multiprocessors without a block of the first grid, the second grid sets a small carve-out.
        assert_eq!((room(132).fits(), room(132).limit), (false, Limit::Carveout));
        assert!(room(66).fits());
    }
}
