//! A generated kernel, and what a launch of it needs.

use std::env;

use kernel_registry::{KernelInfo, LaunchConfig};

/// A kernel to launch. Its parameters are a pointer to the word that it sets, and two numbers: [`N`], and a
/// combination of [`LAUNCH`] and [`RECUR`].
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// The kernel.
    pub kernel: &'static KernelInfo,
    /// Blocks of the grid.
    pub grid: u32,
    /// Threads of a block.
    pub block: u32,
    /// Bytes of dynamic shared memory.
    pub shared: u32,
    /// Blocks of a cluster, if the launch sets it.
    pub cluster: Option<u32>,
    /// Whether it can launch a kernel. That kernel sets the next word.
    pub parent: bool,
    /// Whether it is recursive.
    pub recursive: bool,
    /// Its traits, for messages.
    pub traits: &'static str,
}

impl Case {
    /// The launch configuration.
    pub(crate) fn config(&self) -> LaunchConfig {
        let config = LaunchConfig::new([self.grid, 1, 1], [self.block, 1, 1]).shared(self.shared);
        self.cluster.map_or(config, |blocks| config.cluster(blocks))
    }

    /// Whether its stack can be known.
    pub(crate) fn is_bounded(&self) -> bool {
        !self.recursive || self.kernel.stack().is_some()
    }
}

/// The number passed to every kernel.
pub const N: u32 = 20;

/// Makes a kernel launch the kernel that it can launch.
pub const LAUNCH: u32 = 1;

/// Makes a kernel call its recursive function.
pub const RECUR: u32 = 2;

/// Whether `KERNEL_REGISTRY_SIM=1` is set.
pub(crate) fn is_simulated() -> bool {
    env::var_os("KERNEL_REGISTRY_SIM").is_some_and(|value| value == "1")
}
