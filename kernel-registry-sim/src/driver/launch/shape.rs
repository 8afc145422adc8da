//! Describes a launch of a kernel: its shape, its arguments, and the checks that the driver makes before it.

use std::sync::Arc;

use kernel_registry_cuda::fit;

use crate::driver::config::device::Device;
use crate::driver::handles::Handle;
use crate::driver::load::code::Loaded;
use crate::driver::load::image::{Image, Kernel};
use crate::driver::result::{Answer, Code};

/// A launch of a kernel.
#[derive(Clone)]
pub(crate) struct Launch {
    /// The kernel's function in the context.
    pub(crate) function: Handle,
    pub(crate) image: Arc<Image>,
    pub(crate) code: Loaded,
    pub(crate) kernel: usize,
    pub(crate) shape: Shape,
    pub(crate) arguments: Arc<Vec<u8>>,
    /// Bytes of stack of a thread.
    pub(crate) stack: u64,
    /// The preferred carve-out of the kernel in percent.
    pub(crate) carveout: Option<u32>,
}

/// The grid, blocks and clusters of a launch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Shape {
    pub(crate) grid: [u32; 3],
    pub(crate) block: [u32; 3],
    pub(crate) cluster: Option<[u32; 3]>,
    pub(crate) shared: u32,
    pub(crate) cooperative: bool,
}

fn product(sizes: [u32; 3]) -> u64 {
    sizes.iter().fold(1, |product, size| product.saturating_mul(u64::from(*size)))
}

impl Launch {
    pub(crate) fn kernel(&self) -> &Kernel {
        &self.image.kernels[self.kernel]
    }

    pub(crate) fn source_name(&self) -> &str {
        &self.kernel().source_name
    }

    pub(crate) fn blocks(&self) -> u64 {
        product(self.shape.grid)
    }

    pub(crate) fn threads_of_block(&self) -> u64 {
        product(self.shape.block)
    }

    pub(crate) fn threads(&self) -> u64 {
        self.blocks().saturating_mul(self.threads_of_block())
    }

    /// Returns the resources that the launch takes of a device.
    pub(crate) fn usage(&self) -> fit::Launch {
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

    /// Checks the shape, as the driver does before it submits the launch.
    pub(crate) fn check(&self, max_shared: u32, device: &Device) -> Answer {
        let Shape { grid, block, cluster, shared, .. } = self.shape;
        let kernel = self.kernel();
        let too_large = grid[0] > i32::MAX as u32 || grid[1] > 65_535 || grid[2] > 65_535 || block[2] > 64;
        if product(grid) == 0 || product(block) == 0 || too_large || shared > max_shared {
            return Err(Code::INVALID_VALUE);
        }
        if product(block) > kernel.max_threads.into() {
            // The hardware allows 1,024 threads. The kernel may be compiled for fewer.
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

    /// Checks that a cooperative grid fits on the device as a whole.
    pub(crate) fn check_grid(&self, device: &Device) -> Answer {
        if self.shape.cooperative && self.threads() > device.threads() {
            return Err(Code::COOPERATIVE_LAUNCH_TOO_LARGE);
        }
        Ok(())
    }
}
