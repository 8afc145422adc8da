//! Describes what a block lacks on a multiprocessor.

use alloc::format;
use alloc::string::String;
use core::fmt;

use super::launch::Launch;
use super::processor::{Limit, Processor};

/// A resource that a block of a launch needs and a multiprocessor lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Shortage {
    /// Too little of a resource is left on the multiprocessor.
    Left {
        /// The resource.
        limit: Limit,
        /// How much of the resource a block needs.
        needs: u32,
        /// How much of the resource is left.
        left: u32,
        /// How much of the resource a multiprocessor has. For [`Limit::Carveout`], the bytes of its
        /// carve-out.
        of: u32,
    },
    /// The carve-out isn't the wanted one of the launch; usually it's too small. It doesn't change while a
    /// block is on the multiprocessor.
    Carveout {
        /// The carve-out in bytes that the driver wants for the launch.
        wanted: u32,
        /// The carve-out in bytes that the multiprocessor has.
        carveout: u32,
    },
    /// No group (GPC) has enough multiprocessors with room for a whole cluster.
    Cluster {
        /// Blocks of a cluster.
        blocks: u32,
    },
}

impl Processor<'_> {
    /// Returns what a block of this launch lacks on the multiprocessor, if `limit` is the resource that runs
    /// out.
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
    /// Returns advice for when the kernel `name` doesn't fit next to the kernel `resident`.
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
