//! Defines the functions that compute occupancy.

use kernel_registry_cuda::fit;

use super::launch::Config;
use crate::driver::caller::arguments::{In, Out, SharedMemory};
use crate::driver::handles::Handle;
use crate::driver::load::code::attributes;
use crate::driver::result::{Answer, Code};
use crate::driver::state::current::CurrentContext;
use crate::driver::state::load::load;
use crate::driver::state::simulator::begin;

/// The resources that a kernel needs, and those that a multiprocessor has.
struct Needs {
    max_threads: usize,
    registers: u32,
    shared: usize,
    /// The most bytes of dynamic shared memory that the kernel may use, including an opt-in.
    max_dynamic: usize,
    /// Whether the kernel has opted in to non-portable cluster sizes.
    large_clusters: bool,
    carveout: Option<u32>,
    /// The device, with the resources of its multiprocessors.
    room: fit::Device,
}

impl Needs {
    /// Finds the resources that a kernel needs. This loads the kernel, so occupancy functions may wait when they are
    /// called with a library's kernel.
    fn find(function: Handle, call: &'static str) -> Answer<Self> {
        let (state, function) = load(begin()?, function, CurrentContext::get()?, call)?;
        let function = state.functions.get(function)?;
        let kernel = &function.image.kernels[function.kernel];
        let device = &state.devices[function.device].kind;
        Ok(Needs {
            room: device.room(),
            carveout: function.carveout(),
            max_threads: kernel.max_threads as usize,
            registers: function.image.registers(function.kernel),
            shared: kernel.shared as usize,
            max_dynamic: function.max_shared as usize,
            large_clusters: function
                .attributes
                .get(&attributes::NON_PORTABLE_CLUSTER)
                .is_some_and(|allowed| *allowed != 0),
        })
    }

    fn processors(&self) -> usize {
        self.room.processors as usize
    }

    /// Returns the number of blocks that fit on a multiprocessor. `block` is the number of threads, `dynamic` the bytes
    /// of dynamic shared memory.
    fn blocks(&self, block: usize, dynamic: usize) -> Answer<usize> {
        if block == 0 || block > self.max_threads {
            return Err(Code::INVALID_VALUE);
        }
        if dynamic > self.max_dynamic {
            return Ok(0);
        }
        let launch = fit::Launch {
            threads: block as u32,
            registers: self.registers,
            static_shared: self.shared as u32,
            dynamic_shared: dynamic as u32,
            carveout: self.carveout,
            ..fit::Launch::default()
        };
        Ok(fit::residency(&self.room, &launch).map_or(0, |grid| grid.per_processor as usize))
    }
}

fn occupancy(blocks: &Out<i32>, function: Handle, block: i32, shared: usize, call: &'static str) -> Answer {
    let needs = Needs::find(function, call)?;
    let block = usize::try_from(block).map_err(|_| Code::INVALID_VALUE)?;
    blocks.set(needs.blocks(block, shared)? as i32)
}

/// Writes the largest block size with the highest occupancy, and the number of blocks that then fills the device.
fn best(
    (grid, block): (&Out<i32>, &Out<i32>),
    function: Handle,
    shared_of: SharedMemory,
    shared: usize,
    limit: i32,
    call: &'static str,
) -> Answer {
    let needs = Needs::find(function, call)?;
    if !shared_of.is_sound() {
        return Err(Code::INVALID_VALUE);
    }
    let limit = usize::try_from(limit).ok().filter(|limit| *limit > 0).unwrap_or(usize::MAX);
    let largest = limit.min(needs.max_threads);
    let (mut best, mut most) = ((0, 0), 0);
    // The caller's function is called without the lock of the state.
    for size in (1..=largest.div_ceil(32)).map(|warps| (warps * 32).min(largest)) {
        let blocks = needs.blocks(size, shared_of.call(size as i32).unwrap_or(shared))?;
        if blocks * size >= most && blocks > 0 {
            (best, most) = ((size, blocks), blocks * size);
        }
    }
    block.set(best.0 as i32)?;
    grid.set((best.1 * needs.processors()) as i32)
}

calls! {
    6050 fn cuOccupancyMaxActiveBlocksPerMultiprocessor(blocks: Out<i32>, function: Handle, block: i32, shared: usize) = {
        occupancy(&blocks, function, block, shared, "cuOccupancyMaxActiveBlocksPerMultiprocessor")
    };

    7000 fn cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
        blocks: Out<i32>, function: Handle, block: i32, shared: usize, _flags: u32,
    ) = {
        occupancy(&blocks, function, block, shared, "cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags")
    };

    6050 fn cuOccupancyMaxPotentialBlockSize(
        grid: Out<i32>, block: Out<i32>, function: Handle, shared_of: SharedMemory, shared: usize, limit: i32,
    ) = {
        best((&grid, &block), function, shared_of, shared, limit, "cuOccupancyMaxPotentialBlockSize")
    };

    7000 fn cuOccupancyMaxPotentialBlockSizeWithFlags(
        grid: Out<i32>, block: Out<i32>, function: Handle, shared_of: SharedMemory, shared: usize, limit: i32,
        _flags: u32,
    ) = {
        best((&grid, &block), function, shared_of, shared, limit, "cuOccupancyMaxPotentialBlockSizeWithFlags")
    };

    10020 fn cuOccupancyAvailableDynamicSMemPerBlock(bytes: Out<usize>, function: Handle, blocks: i32, block: i32) = {
        let needs = Needs::find(function, "cuOccupancyAvailableDynamicSMemPerBlock")?;
        let block = usize::try_from(block).map_err(|_| Code::INVALID_VALUE)?;
        let blocks = usize::try_from(blocks).ok().filter(|blocks| *blocks > 0).ok_or(Code::INVALID_VALUE)?;
        if needs.blocks(block, 0)? < blocks {
            return Err(Code::INVALID_VALUE);
        }
        let fit::Device { shared, reserved_shared, shared_unit, .. } = needs.room;
        let unit = shared_unit as usize;
        let of_block = (shared as usize / blocks / unit * unit).saturating_sub(reserved_shared as usize);
        bytes.set(of_block.saturating_sub(needs.shared).min(needs.max_dynamic))
    };

    11070 fn cuOccupancyMaxActiveClusters(clusters: Out<i32>, function: Handle, config: In<Config>) = {
        let needs = Needs::find(function, "cuOccupancyMaxActiveClusters")?;
        let (block, shared, cluster) = config.get()?.blocks_and_cluster()?;
        let blocks = needs.blocks(block, shared)? * needs.processors();
        clusters.set((blocks / cluster.max(1)) as i32)
    };

    11070 fn cuOccupancyMaxPotentialClusterSize(size: Out<i32>, function: Handle, config: In<Config>) = {
        let needs = Needs::find(function, "cuOccupancyMaxPotentialClusterSize")?;
        let (block, shared, _) = config.get()?.blocks_and_cluster()?;
        let largest = if needs.large_clusters { 16 } else { 8 };
        size.set(if needs.blocks(block, shared)? == 0 { 0 } else { largest })
    };
}
