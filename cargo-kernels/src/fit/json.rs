//! Writes what fits as JSON. docs/fit-json.md is the schema: change it first.

use std::io::{self, Write};

use kernel_registry_format::fit::Room;
use serde::Serialize;

use super::budget::What;
use super::report::{Gpu, Launched, Report};

/// Raised by every change that could break a reader.
const SCHEMA: u32 = 1;

#[derive(Serialize)]
pub(super) struct Document<'a> {
    schema: u32,
    gpus: Vec<GpuEntry<'a>>,
    unread: &'a [String],
}

#[derive(Serialize)]
struct GpuEntry<'a> {
    gpu: String,
    product: Option<&'static str>,
    multiprocessors: u32,
    stays: StaysEntry<'a>,
    multiprocessor: ProcessorEntry,
    beside: Vec<BesideEntry<'a>>,
    refusals: &'a [String],
}

#[derive(Serialize)]
struct StaysEntry<'a> {
    #[serde(flatten)]
    launch: LaunchEntry<'a>,
    grid: u64,
    carveout_percent: Option<u32>,
    fits: bool,
    per_multiprocessor: u32,
    at_once: u64,
    limit: &'static str,
    on_emptiest: u32,
    fuller_multiprocessors: u32,
}

#[derive(Serialize)]
struct BesideEntry<'a> {
    #[serde(flatten)]
    launch: LaunchEntry<'a>,
    fits: bool,
    per_multiprocessor: u32,
    at_once: u64,
    limit: &'static str,
}

#[derive(Serialize)]
struct LaunchEntry<'a> {
    kernel: &'a str,
    symbol: &'a str,
    target: String,
    threads: u32,
    cluster: u32,
    registers: u32,
    static_shared_bytes: u32,
    dynamic_shared_bytes: u32,
}

#[derive(Default, Serialize)]
struct ProcessorEntry {
    carveout_bytes: Option<u32>,
    threads: BudgetEntry,
    blocks: BudgetEntry,
    registers: BudgetEntry,
    shared_bytes: BudgetEntry,
}

#[derive(Default, Serialize)]
struct BudgetEntry {
    total: u32,
    taken: u32,
}

pub(super) fn write(report: &Report<'_>, out: &mut impl Write) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, &Document::of(report))?;
    writeln!(out)
}

impl<'a> Document<'a> {
    pub(super) fn of(report: &'a Report<'a>) -> Self {
        Document {
            schema: SCHEMA,
            gpus: report.gpus.iter().map(GpuEntry::of).collect(),
            unread: report.unread,
        }
    }
}

impl<'a> GpuEntry<'a> {
    fn of(gpu: &'a Gpu<'a>) -> Self {
        let residency = &gpu.residency;
        GpuEntry {
            gpu: format!("sm_{}", gpu.device.sm),
            product: gpu.device.product,
            multiprocessors: gpu.device.processors,
            stays: StaysEntry {
                launch: LaunchEntry::of(&gpu.stays),
                grid: residency.grid,
                carveout_percent: gpu.stays.launch.carveout,
                fits: residency.fits(),
                per_multiprocessor: residency.per_processor,
                at_once: residency.capacity,
                limit: residency.limit.name(),
                on_emptiest: residency.least,
                fuller_multiprocessors: residency.fuller,
            },
            multiprocessor: ProcessorEntry::of(gpu),
            beside: gpu.beside.iter().map(BesideEntry::of).collect(),
            refusals: &gpu.refusals,
        }
    }
}

impl ProcessorEntry {
    fn of(gpu: &Gpu<'_>) -> Self {
        let mut entry = ProcessorEntry { carveout_bytes: gpu.carveout, ..ProcessorEntry::default() };
        for budget in &gpu.budgets {
            let of = match budget.what {
                What::Threads => &mut entry.threads,
                What::Blocks => &mut entry.blocks,
                What::Registers => &mut entry.registers,
                What::Shared => &mut entry.shared_bytes,
            };
            *of = BudgetEntry { total: budget.total, taken: budget.taken };
        }
        entry
    }
}

impl<'a> BesideEntry<'a> {
    fn of((launched, room): &'a (Launched<'a>, Room)) -> Self {
        BesideEntry {
            launch: LaunchEntry::of(launched),
            fits: room.fits(),
            per_multiprocessor: room.per_processor,
            at_once: room.at_once,
            limit: room.limit.name(),
        }
    }
}

impl<'a> LaunchEntry<'a> {
    fn of(Launched { kernel, code, launch }: &'a Launched<'a>) -> Self {
        LaunchEntry {
            kernel: &kernel.name,
            symbol: &kernel.symbol,
            target: code.target.to_string(),
            threads: launch.threads,
            cluster: launch.cluster,
            registers: launch.registers,
            static_shared_bytes: launch.static_shared,
            dynamic_shared_bytes: launch.dynamic_shared,
        }
    }
}
