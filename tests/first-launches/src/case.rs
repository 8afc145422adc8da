//! Describes a generated kernel, and the configuration and arguments of its launch.

use std::env;

use kernel_registry::{KernelInfo, LaunchConfig};

/// A generated kernel to launch. Its parameters are a pointer to the word that the kernel sets, the number [`N`], and a combination
/// of [`LAUNCH`] and [`RECUR`].
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// The kernel.
    pub kernel: &'static KernelInfo,
    /// The number of blocks of the grid.
    pub grid: u32,
    /// The number of threads of a block.
    pub block: u32,
    /// The bytes of dynamic shared memory.
    pub shared: u32,
    /// The number of blocks of a cluster, if the launch sets the number.
    pub cluster: Option<u32>,
    /// Whether the kernel can launch another kernel. The other kernel sets the next word.
    pub parent: bool,
    /// Whether the kernel is recursive.
    pub recursive: bool,
    /// The kernel's traits, for messages.
    pub traits: &'static str,
}

impl Case {
    /// Returns the launch configuration.
    pub(crate) fn config(&self) -> LaunchConfig {
        let config = LaunchConfig::new([self.grid, 1, 1], [self.block, 1, 1]).shared(self.shared);
        self.cluster.map_or(config, |blocks| config.cluster(blocks))
    }

    /// Returns whether the size of the kernel's stack can be known.
    pub(crate) fn is_bounded(&self) -> bool {
        !self.recursive || self.kernel.stack().is_some()
    }
}

/// The number that every kernel gets as its second argument.
pub const N: u32 = 20;

/// The flag that makes a kernel launch the other kernel that it can launch.
pub const LAUNCH: u32 = 1;

/// The flag that makes a kernel call its recursive function.
pub const RECUR: u32 = 2;

/// Returns whether `KERNEL_REGISTRY_SIM=1` is set.
pub(crate) fn is_simulated() -> bool {
    env::var_os("KERNEL_REGISTRY_SIM").is_some_and(|value| value == "1")
}
