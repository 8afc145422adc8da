//! A launch of a kernel: its shape, its arguments, and what the driver checks before it runs.

use std::sync::Arc;

use kernel_registry_cuda::fit;

use super::code::Loaded;
use super::device::Device;
use super::handles::Handle;
use super::image::{Image, Kernel};
use super::result::{Answer, Code};

/// A launch of a kernel.
#[derive(Clone)]
pub(super) struct Launch {
    /// The kernel's function in the context.
    pub(super) function: Handle,
    pub(super) image: Arc<Image>,
    pub(super) code: Loaded,
    pub(super) kernel: usize,
    pub(super) shape: Shape,
    pub(super) arguments: Arc<Vec<u8>>,
    /// Bytes of stack of each thread.
    pub(super) stack: u64,
    /// The carve-out that it prefers, in percent.
    pub(super) carveout: Option<u32>,
}

/// The grid, blocks and clusters of a launch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Shape {
    pub(super) grid: [u32; 3],
    pub(super) block: [u32; 3],
    pub(super) cluster: Option<[u32; 3]>,
    pub(super) shared: u32,
    pub(super) cooperative: bool,
}

fn product(sizes: [u32; 3]) -> u64 {
    sizes.iter().fold(1, |product, size| product.saturating_mul(u64::from(*size)))
}

impl Launch {
    pub(super) fn kernel(&self) -> &Kernel {
        &self.image.kernels[self.kernel]
    }

    pub(super) fn source_name(&self) -> &str {
        &self.kernel().source_name
    }

    pub(super) fn blocks(&self) -> u64 {
        product(self.shape.grid)
    }

    pub(super) fn threads_of_block(&self) -> u64 {
        product(self.shape.block)
    }

    pub(super) fn threads(&self) -> u64 {
        self.blocks().saturating_mul(self.threads_of_block())
    }

    /// What it takes of a device.
    pub(super) fn taken(&self) -> fit::Launch {
        fit::Launch {
            grid: self.blocks(),
            threads: self.threads_of_block().try_into().unwrap_or(u32::MAX),
            registers: self.image.registers(self.kernel),
            static_shared: self.kernel().shared,
            dynamic_shared: self.shape.shared,
            cluster: self.shape.cluster.map_or(1, product).try_into().unwrap_or(u32::MAX),
            carveout: self.carveout,
        }
    }

    /// Checks the shape, as the driver does before anything runs.
    pub(super) fn check(&self, max_shared: u32, device: &Device) -> Answer {
        let Shape { grid, block, cluster, shared, .. } = self.shape;
        let kernel = self.kernel();
        let too_large = grid[0] > i32::MAX as u32 || grid[1] > 65_535 || grid[2] > 65_535 || block[2] > 64;
        if product(grid) == 0 || product(block) == 0 || too_large || shared > max_shared {
            return Err(Code::INVALID_VALUE);
        }
        if product(block) > kernel.max_threads.into() {
            // The hardware has no more than 1,024; a kernel may have promised fewer.
            return Err(if product(block) > 1024 {
                Code::INVALID_VALUE
            } else {
                Code::LAUNCH_OUT_OF_RESOURCES
            });
        }
        self.check_grid(device)?;
        if let Some(cluster) = cluster {
            let fits = (0..3).all(|axis| cluster[axis] != 0 && grid[axis] % cluster[axis] == 0);
            if !device.has_clusters()
                || !fits
                || product(cluster) > 16
                || kernel.cluster.is_some_and(|fixed| fixed != cluster)
            {
                return Err(Code::INVALID_CLUSTER_SIZE);
            }
        }
        Ok(())
    }

    /// A cooperative grid is on the device as a whole.
    pub(super) fn check_grid(&self, device: &Device) -> Answer {
        if self.shape.cooperative && self.threads() > device.threads() {
            return Err(Code::COOPERATIVE_LAUNCH_TOO_LARGE);
        }
        Ok(())
    }
}
