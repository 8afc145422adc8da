//! What a multiprocessor has, and how much of it is taken.

use kernel_registry_format::fit::{Device, Launch, Processor};

/// One thing that blocks run out of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Budget {
    pub(super) what: What,
    pub(super) total: u32,
    /// By the blocks that stay.
    pub(super) taken: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    Threads,
    Blocks,
    Registers,
    /// Within the carve-out.
    Shared,
}

impl What {
    pub(super) fn name(self) -> &'static str {
        match self {
            What::Threads => "threads",
            What::Blocks => "blocks",
            What::Registers => "registers",
            What::Shared => "shared memory",
        }
    }
}

impl Budget {
    /// The part of the total, from 0 to 1.
    pub(super) fn share(&self, part: u32) -> f64 {
        (f64::from(part) / f64::from(self.total.max(1))).min(1.0)
    }

    /// How much of it a block takes.
    pub(super) fn of_block(&self, device: &Device, launch: &Launch) -> u32 {
        match self.what {
            What::Threads => launch.warps() * 32,
            What::Blocks => 1,
            What::Registers => launch.block_registers(),
            What::Shared => launch.shared(device),
        }
    }
}

pub(super) fn budgets(device: &Device, processor: &Processor<'_>) -> Vec<Budget> {
    let budget = |what, total, taken: u32| Budget { what, total, taken };
    vec![
        budget(What::Threads, device.threads, processor.threads()),
        budget(What::Blocks, device.blocks, processor.blocks()),
        budget(What::Registers, device.registers, processor.registers().min(device.registers)),
        budget(What::Shared, processor.carveout().unwrap_or(device.shared), processor.shared()),
    ]
}
