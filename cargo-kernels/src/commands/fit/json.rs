//! Writes the result of `fit` as JSON. docs/fit-json.md is the schema.

use kernel_registry_cuda::fit::Room;
use serde_json::{Value, json};

use super::report::{GpuReport, Launched, Report};
use crate::output::json::joined;

/// The version of the JSON. Every change that could break a reader raises it.
const SCHEMA: u32 = 2;

pub(super) fn document(report: &Report<'_>) -> Value {
    json!({
        "schema": SCHEMA,
        "gpus": report.gpus.iter().map(gpu).collect::<Value>(),
        "unread": report.unread,
    })
}

fn gpu(gpu: &GpuReport<'_>) -> Value {
    let residency = &gpu.residency;
    let spread = json!({
        "grid": residency.grid,
        "carveout_percent": gpu.resident.launch.carveout,
        "fits": residency.fits(),
        "per_multiprocessor": residency.per_processor,
        "at_once": residency.capacity,
        "limit": residency.limit.name(),
        "on_emptiest": residency.least,
        "fuller_multiprocessors": residency.fuller,
    });
    let budgets = gpu.budgets.iter().map(|budget| {
        let key = budget.name.replace("shared memory", "shared_bytes");
        (key, json!({ "total": budget.total, "taken": budget.taken }))
    });
    json!({
        "gpu": format!("sm_{}", gpu.device.sm),
        "product": gpu.device.product,
        "multiprocessors": gpu.device.processors,
        "resident": joined(launch(&gpu.resident), spread),
        "multiprocessor": joined(json!({ "carveout_bytes": gpu.carveout }), budgets.collect()),
        "beside": gpu.companions.iter().map(beside).collect::<Value>(),
        "refusals": gpu.refusals,
    })
}

fn beside((launched, room): &(Launched<'_>, Room)) -> Value {
    let room = json!({
        "fits": room.fits(),
        "per_multiprocessor": room.per_processor,
        "at_once": room.at_once,
        "limit": room.limit.name(),
    });
    joined(launch(launched), room)
}

fn launch(Launched { kernel, code, launch }: &Launched<'_>) -> Value {
    json!({
        "kernel": kernel.name,
        "symbol": kernel.symbol,
        "target": code.target.to_string(),
        "threads": launch.threads,
        "cluster": launch.cluster,
        "registers": launch.registers,
        "static_shared_bytes": launch.static_shared,
        "dynamic_shared_bytes": launch.dynamic_shared,
    })
}
