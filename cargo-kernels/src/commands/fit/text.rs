//! Writes the result of `fit` as text: a table, and bars for one multiprocessor.

use std::io::{self, Write};

use kernel_registry_cuda::fit::{Device, Launch, Residency};

use super::report::{Budget, GpuReport, Report};
use crate::output::table;

const HEADINGS: [&str; 7] = ["BESIDE IT", "BLOCK", "REGISTERS", "SHARED", "ON EACH", "AT ONCE", "LIMIT"];

/// The length of a bar in characters.
const WIDTH: usize = 40;

pub(super) fn write(report: &Report<'_>, out: &mut impl Write) -> io::Result<()> {
    for (index, gpu) in report.gpus.iter().enumerate() {
        if index > 0 {
            writeln!(out)?;
        }
        write_gpu(gpu, out)?;
    }
    if !report.unread.is_empty() {
        writeln!(out)?;
    }
    report.unread.iter().try_for_each(|sentence| writeln!(out, "unread: {sentence}"))
}

/// Describes the multiprocessors of a device: their number, and the product with that number.
fn processors(device: &Device) -> String {
    let product = device.product.map(|product| format!(" ({product})")).unwrap_or_default();
    format!("{} multiprocessors{product}", device.processors)
}

/// Describes the static and dynamic shared memory of a block.
fn shared(launch: &Launch) -> String {
    format!("{}+{} B", launch.static_shared, launch.dynamic_shared)
}

/// Describes how the blocks of the resident kernel are spread over the multiprocessors.
fn spread(residency: &Residency) -> String {
    match (residency.least, residency.fuller) {
        _ if !residency.fits() => "not all are there at once".to_owned(),
        (least, 0) => format!("{least} on each multiprocessor"),
        (0, fuller) => format!("1 on {fuller} multiprocessors, none on the others"),
        (least, fuller) => format!("{} on {fuller} multiprocessors, {least} on the others", least + 1),
    }
}

fn write_gpu(gpu: &GpuReport<'_>, out: &mut impl Write) -> io::Result<()> {
    let GpuReport { device, resident, residency, .. } = gpu;
    let Launch { grid, threads, registers, cluster, .. } = resident.launch;
    let is_or_cannot = if residency.fits() { "is" } else { "cannot be" };
    let (name, processors) = (&resident.kernel.name, processors(device));
    writeln!(out, "{name} {is_or_cannot} resident on sm_{}, {processors}", device.sm)?;
    let clusters = if cluster > 1 { format!(" in clusters of {cluster}") } else { String::new() };
    writeln!(
        out,
        "    {grid} blocks of {threads} threads{clusters}, {registers} registers, {} of shared memory",
        shared(&resident.launch)
    )?;
    writeln!(
        out,
        "    room for {} blocks, {} on each, limited by {}; {}",
        residency.capacity,
        residency.per_processor,
        residency.limit,
        spread(residency)
    )?;
    if !gpu.companions.is_empty() {
        writeln!(out)?;
        let mut rows = vec![HEADINGS.map(str::to_owned)];
        rows.extend(gpu.companions.iter().map(|(other, room)| {
            [
                other.kernel.name.clone(),
                other.launch.threads.to_string(),
                other.launch.registers.to_string(),
                shared(&other.launch),
                room.per_processor.to_string(),
                room.at_once.to_string(),
                room.limit.to_string(),
            ]
        }));
        table::columns(&rows, "    ", out)?;
    }
    write_bars(gpu, out)?;
    if !gpu.refusals.is_empty() {
        writeln!(out)?;
    }
    gpu.refusals.iter().try_for_each(|refusal| writeln!(out, "refused: {refusal}"))
}

fn write_bars(gpu: &GpuReport<'_>, out: &mut impl Write) -> io::Result<()> {
    let blocks = gpu.residency.least.min(gpu.residency.per_processor);
    writeln!(out, "\n    A multiprocessor with {blocks} of its blocks (#):")?;
    for Budget { name, total, taken } in &gpu.budgets {
        let share = (f64::from(*taken) / f64::from(*total.max(&1))).min(1.0);
        let filled = (share * WIDTH as f64).ceil() as usize;
        let bar = "#".repeat(filled) + &".".repeat(WIDTH - filled);
        writeln!(out, "    {name:<14} {bar} {taken} of {total}")?;
    }
    Ok(())
}
