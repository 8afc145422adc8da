//! The configuration of a launch: grid, block, dynamic shared memory, clusters.

use crate::KernelInfo;

/// The configuration of a launch: the grid, the block and everything else except the arguments.
///
/// [`over`](KernelInfo::over) and [`config`](KernelInfo::config) start from the `block` and `shared` of the declaration, and
/// methods change each part. If the grid covers a number of threads, changing the block also changes the grid:
///
/// ```
/// # mod demo {
/// # use kernel_registry::gpu_kernel;
/// #[gpu_kernel(image = "tests/images/saxpy.ptx", block = 256)]
/// pub unsafe fn saxpy(n: u32, a: f32, x: &[f32], y: &mut [f32]);
/// # }
/// # use demo::saxpy;
/// let config = saxpy::over(1000);
/// assert_eq!((config.grid, config.block), ([4, 1, 1], [256, 1, 1]));
///
/// let config = config.block(128).shared(1024);
/// assert_eq!((config.grid, config.block), ([8, 1, 1], [128, 1, 1]));
///
/// let config = saxpy::config((16, 16)).cluster([2, 1, 1]);
/// assert_eq!((config.grid, config.block), ([16, 16, 1], [256, 1, 1]));
/// ```
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct LaunchConfig {
    /// The blocks of the grid in x, y and z.
    pub grid: [u32; 3],
    /// The threads of a block in x, y and z. All zeros if not set yet; a launch refuses that.
    pub block: [u32; 3],
    /// The bytes of dynamic shared memory of a block.
    pub shared: u32,
    /// The blocks of a cluster in x, y and z, if the launch sets them.
    pub cluster: Option<[u32; 3]>,
    /// Whether all blocks have to run on the device at once, so that they can wait for each other.
    pub cooperative: bool,
    /// The number of threads that the grid covers, if the grid's size is computed from the block.
    covers: Option<u64>,
}

impl LaunchConfig {
    /// Creates the configuration of a grid of blocks, without dynamic shared memory.
    pub const fn new(grid: [u32; 3], block: [u32; 3]) -> Self {
        LaunchConfig { grid, block, shared: 0, cluster: None, cooperative: false, covers: None }
    }

    /// Creates the configuration of a grid with as many blocks along the x axis as `n` threads need. It has at least one block,
    /// because a grid cannot be empty.
    ///
    /// `n` may have any integer type: the length of a vector is a `usize`. No number is cut. A negative `n`, or one that needs more blocks
    /// than a grid can have, gives a grid of `u32::MAX` blocks, which every launch refuses.
    pub fn over(n: impl TryInto<u64>, block: [u32; 3]) -> Self {
        let n = n.try_into().unwrap_or(u64::MAX);
        LaunchConfig { covers: Some(n), ..Self::new(covering(n, block), block) }
    }

    /// Sets the grid.
    pub fn grid(self, grid: impl Into<Dim3>) -> Self {
        LaunchConfig { grid: grid.into().0, covers: None, ..self }
    }

    /// Sets the block. If the grid covers a number of threads, the grid is computed again, so that it still covers them.
    pub fn block(self, block: impl Into<Dim3>) -> Self {
        let block = block.into().0;
        let grid = self.covers.map_or(self.grid, |n| covering(n, block));
        LaunchConfig { grid, block, ..self }
    }

    /// Sets the bytes of dynamic shared memory of a block.
    pub const fn shared(self, bytes: u32) -> Self {
        LaunchConfig { shared: bytes, ..self }
    }

    /// Sets the blocks of a cluster.
    pub fn cluster(self, blocks: impl Into<Dim3>) -> Self {
        LaunchConfig { cluster: Some(blocks.into().0), ..self }
    }

    /// Makes the launch cooperative: all blocks run on the device at once.
    pub const fn cooperative(self) -> Self {
        LaunchConfig { cooperative: true, ..self }
    }
}

/// Returns the grid that covers `n` threads.
fn covering(n: u64, block: [u32; 3]) -> [u32; 3] {
    // The product is computed in 64 bits, so that a block that is too large does not overflow. The launch refuses such a block.
    let threads = (u64::from(block[0]) * u64::from(block[1])).saturating_mul(block[2].into());
    let blocks = if n == 0 || threads == 0 { 1 } else { n.div_ceil(threads) };
    [u32::try_from(blocks).unwrap_or(u32::MAX), 1, 1]
}

/// Two configurations are equal if they have the same grid, block, shared memory, cluster and cooperation.
impl PartialEq for LaunchConfig {
    fn eq(&self, other: &Self) -> bool {
        let all = |config: &Self| {
            let LaunchConfig { grid, block, shared, cluster, cooperative, covers: _ } = *config;
            (grid, block, shared, cluster, cooperative)
        };
        all(self) == all(other)
    }
}

impl Eq for LaunchConfig {}

impl From<&LaunchConfig> for LaunchConfig {
    fn from(config: &LaunchConfig) -> Self {
        *config
    }
}

/// Converts cudarc's configuration unchanged: the `block` and `shared` of the kernel's declaration are not used.
impl From<cudarc::driver::LaunchConfig> for LaunchConfig {
    fn from(config: cudarc::driver::LaunchConfig) -> Self {
        let (grid, block) = (config.grid_dim.into(), config.block_dim.into());
        LaunchConfig::new(grid, block).shared(config.shared_mem_bytes)
    }
}

/// A size along three axes, which converts from one, two or three numbers. A number that is left out is 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dim3(pub [u32; 3]);

impl From<u32> for Dim3 {
    fn from(x: u32) -> Self {
        Dim3([x, 1, 1])
    }
}

impl From<(u32, u32)> for Dim3 {
    fn from((x, y): (u32, u32)) -> Self {
        Dim3([x, y, 1])
    }
}

impl From<(u32, u32, u32)> for Dim3 {
    fn from((x, y, z): (u32, u32, u32)) -> Self {
        Dim3([x, y, z])
    }
}

impl From<[u32; 3]> for Dim3 {
    fn from(axes: [u32; 3]) -> Self {
        Dim3(axes)
    }
}

impl KernelInfo {
    /// Returns a grid that covers `n` threads, an integer of any type, with the `block` and `shared` of the declaration. If the
    /// declaration has no `block`, set one with [`LaunchConfig::block`], unless the kernel was compiled for one block size only. A launch
    /// refuses more threads than a grid can have.
    #[inline]
    pub fn over(&self, n: impl TryInto<u64>) -> LaunchConfig {
        LaunchConfig::over(n, self.block().unwrap_or_default()).shared(self.shared().unwrap_or(0))
    }

    /// Returns a grid of this many blocks, with the `block` and `shared` of the declaration. If the declaration has no `block`,
    /// set one with [`LaunchConfig::block`].
    #[inline]
    pub fn config(&self, grid: impl Into<Dim3>) -> LaunchConfig {
        self.over(0_u32).grid(grid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grids_cover_their_threads() {
        let grid = |n: u32, block| LaunchConfig::over(n, block).grid;
        assert_eq!(grid(0, [256, 1, 1]), [1, 1, 1]);
        assert_eq!(grid(1, [256, 1, 1]), [1, 1, 1]);
        assert_eq!(grid(256, [256, 1, 1]), [1, 1, 1]);
        assert_eq!(grid(257, [256, 1, 1]), [2, 1, 1]);
        assert_eq!(grid(1024, [32, 8, 1]), [4, 1, 1]);
        assert_eq!(grid(u32::MAX, [1, 1, 1]), [u32::MAX, 1, 1]);
        assert_eq!(grid(7, [0, 1, 1]), [1, 1, 1]);
        assert_eq!(grid(7, [u32::MAX; 3]), [1, 1, 1]);

        let over = |n: usize| LaunchConfig::over(n, [256, 1, 1]);
        assert_eq!(over(vec![0; 257].len()).grid, [2, 1, 1]);
        assert_eq!(over((1 << 32) + 1).grid, [(1 << 24) + 1, 1, 1], "more than a `u32` holds");
        assert_eq!(over(1 << 32).block(1024).grid, [1 << 22, 1, 1]);
        for too_many in [over(usize::MAX), LaunchConfig::over(-1, [256, 1, 1])] {
            assert_eq!(too_many.grid, [u32::MAX, 1, 1], "which a launch refuses");
        }
    }

    #[test]
    fn a_grid_follows_its_block_until_it_is_set() {
        let config = LaunchConfig::over(1000, [256, 1, 1]);
        assert_eq!(config.block(100).grid, [10, 1, 1]);
        assert_eq!(config.grid(7).block(100).grid, [7, 1, 1]);
        assert_eq!(config, LaunchConfig::new([4, 1, 1], [256, 1, 1]));
    }

    #[test]
    fn cudarcs_configurations_are_converted() {
        let theirs =
            cudarc::driver::LaunchConfig { grid_dim: (1, 2, 3), block_dim: (4, 5, 6), shared_mem_bytes: 7 };
        assert_eq!(LaunchConfig::from(theirs), LaunchConfig::new([1, 2, 3], [4, 5, 6]).shared(7));
    }
}
