//! Writes what the GPUs do as JSON, as docs/dump-json.md describes it.

use kernel_registry_image::dump::{Fault, Frame, Grid, LostFault, Place};
use serde_json::{Value, json};

use super::look::Look;
use super::words::function;

const SCHEMA: u32 = 1;

pub(super) fn text(look: &Look) -> String {
    let process = look.process.as_ref();
    let process = process.map(|its| {
        let calls = its.record.as_ref().map(|record| &record.in_progress);
        json!({ "process": its.number, "command": its.command, "calls": calls })
    });
    let devices = look.gpus.devices.iter().map(|device| {
        let ((major, minor), (bus, number)) = (device.capability, device.pci);
        json!({ "name": device.name, "pci_bus_id": format!("{bus:02x}:{number:02x}.0"), "arch": format!("sm_{major}{minor}"), "multiprocessors": device.multiprocessors })
    });
    let value = json!({
        "schema": SCHEMA,
        "tool": concat!("kernel-audit ", env!("CARGO_PKG_VERSION")),
        "process": process,
        "devices": devices.collect::<Vec<_>>(),
        "threads": look.threads,
        "faults": look.gpus.lost.iter().map(lost).collect::<Vec<_>>(),
        "kernels": look.gpus.grids.iter().map(|grid| kernel(look, grid)).collect::<Vec<_>>(),
    });
    serde_json::to_string_pretty(&value).unwrap_or_default() + "\n"
}

fn lost(fault: &LostFault) -> Value {
    json!({
        "device": fault.device,
        "exception": fault.exception.to_string(),
        "multiprocessors": fault.multiprocessors,
        "frames": frames(&fault.frames),
    })
}

fn kernel(look: &Look, grid: &Grid) -> Value {
    let place = |place: &Place| {
        json!({
            "threads": place.threads,
            "block": place.example.block,
            "thread": place.example.thread,
            "frames": frames(&place.frames),
        })
    };
    let fault = |fault: &Fault| {
        json!({
            "exception": fault.exception.to_string(),
            "block": fault.thread.block,
            "thread": fault.thread.thread,
            "frames": frames(&fault.frames),
        })
    };
    json!({
        "device": grid.device,
        "number": grid.number,
        "symbol": grid.kernel,
        "name": &*function(&grid.kernel),
        "loaded_by": look.process.as_ref().and_then(|process| process.loaded_by(&grid.kernel)),
        "grid": grid.grid,
        "block": grid.block,
        "blocks": grid.blocks(),
        "resident": grid.resident,
        "started": grid.started,
        "places": grid.places.iter().map(place).collect::<Vec<_>>(),
        "faults": grid.faults.iter().map(fault).collect::<Vec<_>>(),
    })
}

fn frames(frames: &[Frame]) -> Vec<Value> {
    let frame = |frame: &Frame| {
        json!({
            "symbol": &*frame.function,
            "name": &*function(&frame.function),
            "offset": frame.offset,
            "file": frame.line.as_ref().map(|line| &*line.file),
            "line": frame.line.as_ref().map(|line| line.line),
            "is_inlined": frame.is_inlined,
        })
    };
    frames.iter().map(frame).collect()
}
