//! What a multiprocessor has, and how much of it is taken.

use kernel_registry_cuda::fit::{Device, Processor};

/// One thing that blocks run out of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Budget {
    pub(super) resource: Resource,
    pub(super) total: u32,
    /// By the blocks of the resident kernel.
    pub(super) taken: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Resource {
    Threads,
    Blocks,
    Registers,
    /// Within the carve-out.
    Shared,
}

impl Resource {
    pub(super) fn name(self) -> &'static str {
        match self {
            Resource::Threads => "threads",
            Resource::Blocks => "blocks",
            Resource::Registers => "registers",
            Resource::Shared => "shared memory",
        }
    }

    /// Its name in JSON.
    pub(super) fn key(self) -> &'static str {
        match self {
            Resource::Shared => "shared_bytes",
            _ => self.name(),
        }
    }
}

impl Budget {
    /// The part of the total, from 0 to 1.
    pub(super) fn share(&self, part: u32) -> f64 {
        (f64::from(part) / f64::from(self.total.max(1))).min(1.0)
    }
}

pub(super) fn budgets(device: &Device, processor: &Processor<'_>) -> Vec<Budget> {
    let budget = |resource, total, taken: u32| Budget { resource, total, taken };
    vec![
        budget(Resource::Threads, device.threads, processor.threads()),
        budget(Resource::Blocks, device.blocks, processor.blocks()),
        budget(Resource::Registers, device.registers, processor.registers().min(device.registers)),
        budget(Resource::Shared, processor.carveout().unwrap_or(device.shared), processor.shared()),
    ]
}
