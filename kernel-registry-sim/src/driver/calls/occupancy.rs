//! Functions that compute occupancy.

use super::launch::Config;
use super::module::function_of;
use crate::driver::abi::{In, Out, SharedMemory};
use crate::driver::code::attributes;
use crate::driver::device::Room;
use crate::driver::handles::Handle;
use crate::driver::process::begin;
use crate::driver::result::{Answer, Code};
use crate::driver::state::State;

/// What a kernel needs, and what a multiprocessor has.
struct Needs {
    max_threads: usize,
    shared: usize,
    /// The most dynamic shared memory that it opted in to.
    max_dynamic: usize,
    /// It opted in to non-portable cluster sizes.
    large_clusters: bool,
    /// The limits of a multiprocessor, and the number of multiprocessors.
    room: Room,
    processors: usize,
}

impl Needs {
    fn of(state: &mut State, function: Handle) -> Answer<Self> {
        let function = function_of(state, function)?;
        // It loads the kernel, without waiting.
        state.load_behind(function)?;
        let function = state.functions.get(function)?;
        let kernel = &function.image.kernels[function.kernel];
        let device = &state.devices[function.device].kind;
        Ok(Needs {
            room: device.room(),
            processors: device.processors as usize,
            max_threads: kernel.max_threads as usize,
            shared: kernel.shared as usize,
            max_dynamic: function.max_shared as usize,
            large_clusters: function
                .attributes
                .get(&attributes::NON_PORTABLE_CLUSTER)
                .is_some_and(|allowed| *allowed != 0),
        })
    }

    /// Blocks that fit on a multiprocessor, by threads, by shared memory, and by number.
    fn blocks(&self, block: usize, dynamic: usize) -> Answer<usize> {
        if block == 0 || block > self.max_threads {
            return Err(Code::INVALID_VALUE);
        }
        if dynamic > self.max_dynamic {
            return Ok(0);
        }
        let Room { threads, blocks, shared, reserved } = self.room;
        let by_threads = threads as usize / block.next_multiple_of(32);
        let of_block = dynamic.saturating_add(self.shared.saturating_add(reserved as usize));
        let by_memory = (shared as usize).checked_div(of_block).unwrap_or(usize::MAX);
        Ok(by_threads.min(by_memory).min(blocks as usize))
    }
}

fn occupancy(blocks: &Out<i32>, function: Handle, block: i32, shared: usize) -> Answer {
    let mut state = begin()?;
    let block = usize::try_from(block).map_err(|_| Code::INVALID_VALUE)?;
    blocks.set(Needs::of(&mut state, function)?.blocks(block, shared)? as i32)
}

/// The block size with the highest occupancy, the largest of several, and the number of blocks that fills the device.
fn best(
    (grid, block): (&Out<i32>, &Out<i32>),
    function: Handle,
    shared_of: SharedMemory,
    shared: usize,
    limit: i32,
) -> Answer {
    let needs = Needs::of(&mut *begin()?, function)?;
    if !shared_of.is_sound() {
        return Err(Code::INVALID_VALUE);
    }
    let limit = usize::try_from(limit).ok().filter(|limit| *limit > 0).unwrap_or(usize::MAX);
    let largest = limit.min(needs.max_threads);
    let (mut best, mut most) = ((0, 0), 0);
    // The caller's function is called without the lock.
    for size in (1..=largest.div_ceil(32)).map(|warps| (warps * 32).min(largest)) {
        let blocks = needs.blocks(size, shared_of.call(size as i32).unwrap_or(shared))?;
        if blocks * size >= most && blocks > 0 {
            (best, most) = ((size, blocks), blocks * size);
        }
    }
    block.set(best.0 as i32)?;
    grid.set((best.1 * needs.processors) as i32)
}

calls! {
    6050 fn cuOccupancyMaxActiveBlocksPerMultiprocessor(blocks: Out<i32>, function: Handle, block: i32, shared: usize) {
        occupancy(&blocks, function, block, shared)
    }

    7000 fn cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
        blocks: Out<i32>, function: Handle, block: i32, shared: usize, _flags: u32,
    ) {
        occupancy(&blocks, function, block, shared)
    }

    6050 fn cuOccupancyMaxPotentialBlockSize(
        grid: Out<i32>, block: Out<i32>, function: Handle, shared_of: SharedMemory, shared: usize, limit: i32,
    ) {
        best((&grid, &block), function, shared_of, shared, limit)
    }

    7000 fn cuOccupancyMaxPotentialBlockSizeWithFlags(
        grid: Out<i32>, block: Out<i32>, function: Handle, shared_of: SharedMemory, shared: usize, limit: i32,
        _flags: u32,
    ) {
        best((&grid, &block), function, shared_of, shared, limit)
    }

    10020 fn cuOccupancyAvailableDynamicSMemPerBlock(bytes: Out<usize>, function: Handle, blocks: i32, block: i32) {
        let mut state = begin()?;
        let needs = Needs::of(&mut state, function)?;
        let block = usize::try_from(block).map_err(|_| Code::INVALID_VALUE)?;
        let blocks = usize::try_from(blocks).ok().filter(|blocks| *blocks > 0).ok_or(Code::INVALID_VALUE)?;
        if needs.blocks(block, 0)? < blocks {
            return Err(Code::INVALID_VALUE);
        }
        let Room { shared, reserved, .. } = needs.room;
        let of_block = (shared as usize / blocks).saturating_sub(reserved as usize);
        bytes.set(of_block.saturating_sub(needs.shared).min(needs.max_dynamic))
    }

    11070 fn cuOccupancyMaxActiveClusters(clusters: Out<i32>, function: Handle, config: In<Config>) {
        let mut state = begin()?;
        let needs = Needs::of(&mut state, function)?;
        let (block, shared, cluster) = config.get()?.blocks_and_cluster()?;
        let blocks = needs.blocks(block, shared)? * needs.processors;
        clusters.set((blocks / cluster.max(1)) as i32)
    }

    11070 fn cuOccupancyMaxPotentialClusterSize(size: Out<i32>, function: Handle, config: In<Config>) {
        let mut state = begin()?;
        let needs = Needs::of(&mut state, function)?;
        let (block, shared, _) = config.get()?.blocks_and_cluster()?;
        let largest = if needs.large_clusters { 16 } else { 8 };
        size.set(if needs.blocks(block, shared)? == 0 { 0 } else { largest })
    }
}
