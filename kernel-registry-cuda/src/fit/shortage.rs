//! What a block lacks on a multiprocessor, in numbers and in words.

use alloc::format;
use alloc::string::String;
use core::fmt;

use super::launch::Launch;
use super::processor::{Limit, Processor};

/// What a block of a launch needs of a multiprocessor, and does not find there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Shortage {
    /// A multiprocessor has too little left.
    Left {
        /// Of what.
        limit: Limit,
        /// What a block needs.
        needs: u32,
        /// What is left.
        left: u32,
        /// What a multiprocessor has: of shared memory, its carve-out.
        of: u32,
    },
    /// The carve-out is another one than the driver wants, mostly too small, and does not change while a block is there.
    Carveout {
        /// The one that the driver wants for the launch, in bytes.
        wanted: u32,
        /// The one that is there.
        carveout: u32,
    },
    /// The multiprocessors that have room are not side by side.
    Cluster {
        /// Blocks of a cluster.
        blocks: u32,
    },
}

impl Processor<'_> {
    /// What a block of this launch lacks here, if `limit` is what it runs out of.
    pub(super) fn shortage(&self, launch: &Launch, limit: Limit) -> Shortage {
        let device = self.device();
        let left =
            |needs, of: u32, taken| Shortage::Left { limit, needs, left: of.saturating_sub(taken), of };
        let shared = launch.shared(device);
        match limit {
            Limit::Threads => left(launch.warps() * super::device::WARP, device.threads, self.threads()),
            Limit::Blocks => left(1, device.blocks, self.blocks()),
            Limit::Registers => left(launch.block_registers(), device.registers, self.registers()),
            Limit::SharedMemory => left(shared, device.shared, self.shared()),
            Limit::Carveout => {
                let (wanted, carveout) = (launch.wanted_carveout(device), self.carveout().unwrap_or(0));
                match wanted > carveout || launch.carveout.is_some_and(|_| wanted != carveout) {
                    true => Shortage::Carveout { wanted, carveout },
                    false => left(shared, carveout, self.shared()),
                }
            }
            Limit::Cluster => Shortage::Cluster { blocks: launch.cluster },
        }
    }
}

impl fmt::Display for Shortage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Shortage::Left { limit, needs, left, of } => {
                let what = match limit {
                    Limit::Threads => "threads",
                    Limit::Blocks => "place",
                    Limit::Registers => "registers",
                    _ => "bytes of shared memory",
                };
                write!(f, "a block needs {needs} {what}, and a multiprocessor has {left} of {of} left")?;
                if limit == Limit::Carveout { f.write_str(", which is its carve-out") } else { Ok(()) }
            }
            Shortage::Carveout { wanted, carveout } => {
                write!(
                    f,
                    "the driver wants a carve-out of {wanted} bytes for it, and the multiprocessor keeps one of {carveout}"
                )
            }
            Shortage::Cluster { blocks } => {
                write!(f, "a cluster of {blocks} blocks needs multiprocessors side by side")
            }
        }
    }
}

impl Shortage {
    /// What helps, if the kernel `name` does not fit beside the kernel `resident`.
    pub fn remedy(&self, name: &str, resident: &str) -> String {
        let limit = match *self {
            Shortage::Left { limit, .. } => limit,
            Shortage::Carveout { .. } => Limit::Carveout,
            Shortage::Cluster { .. } => Limit::Cluster,
        };
        match limit {
            Limit::Threads => format!("launch `{resident}` with smaller blocks, or fewer"),
            Limit::Blocks => format!("launch `{resident}` with fewer blocks"),
            Limit::Registers => {
                "use smaller blocks, or compile either kernel for fewer registers (`__launch_bounds__`)"
                    .into()
            }
            Limit::SharedMemory => format!("let `{resident}` or `{name}` use less"),
            Limit::Carveout => format!("launch `{resident}` with a preferred carve-out of 100"),
            Limit::Cluster => {
                format!("launch `{resident}` with fewer blocks, or `{name}` with smaller clusters")
            }
        }
    }
}
