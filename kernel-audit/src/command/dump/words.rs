//! Says in words what the GPUs do.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt;
use std::rc::Rc;

use kernel_registry_command::many;
use kernel_registry_image::Signature;
use kernel_registry_image::dump::{Device, Fault, Frame, Grid, Line, Place};

use super::look::Look;
use super::stacks::Stacks;
use crate::command::report::words::{About, caller};
use crate::record::{CallInProgress, Kind, Report};

/// The most places of a kernel that are listed, and the most faults.
const PLACES: usize = 12;
const FAULTS: usize = 4;

impl fmt::Display for Look {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(process) = &self.process {
            writeln!(f, "process {}: {}", process.number, process.command)?;
            process.record.iter().try_for_each(|record| calls(f, record))?;
        }
        for (index, device) in self.gpus.devices.iter().enumerate() {
            let Device { name, capability: (major, minor), .. } = device;
            write!(f, "GPU {index}: {name} (sm_{major}{minor})")?;
            // They're in the order of their GPUs.
            let begin = self.gpus.grids.partition_point(|grid| grid.device < index);
            let grids: Vec<_> =
                self.gpus.grids[begin..].iter().take_while(|grid| grid.device == index).collect();
            let lost: Vec<_> = self.gpus.lost.iter().filter(|fault| fault.device == index).collect();
            if grids.is_empty() && lost.is_empty() {
                write!(f, ": no kernel runs")?;
            }
            writeln!(f)?;
            for fault in lost {
                let reported =
                    many(usize::try_from(fault.multiprocessors).unwrap_or(usize::MAX), "multiprocessor");
                writeln!(
                    f,
                    "  FAULT: {}, at {} ({reported}); its threads have ended",
                    fault.exception,
                    stack(&fault.frames)
                )?;
            }
            for grid in grids {
                let by = self.process.as_ref().and_then(|process| process.loaded_by(&grid.kernel));
                kernel(f, grid, device, by)?;
            }
        }
        if self.gpus.devices.is_empty() {
            writeln!(f, "the process uses no GPU")?;
        }
        write!(f, "{}", Stacks(&self.threads))?;
        self.lacks_python.iter().try_for_each(|why| writeln!(f, "\n{why}"))
    }
}

/// Says which calls of the driver have not returned.
fn calls(f: &mut fmt::Formatter<'_>, record: &Report) -> fmt::Result {
    let known = |call: &CallInProgress| {
        let mut hangs =
            record.events.iter().filter(|event| event.kind == Kind::Hang && event.thread == call.thread);
        hangs
            .find(|hang| hang.call == call.call && !hang.caller.is_empty())
            .map(|hang| format!(", called by {}", caller(&hang.caller)))
    };
    for call in record.in_progress.iter().filter(|call| !call.call.is_empty()) {
        let by = known(call).unwrap_or_default();
        let since = if call.took > 0 { format!(" for {}", About(call.took)) } else { String::new() };
        writeln!(f, "thread {}: in `{}`{since}{by}", call.thread, call.call)?;
    }
    Ok(())
}

fn kernel(f: &mut fmt::Formatter<'_>, grid: &Grid, device: &Device, by: Option<String>) -> fmt::Result {
    let threads =
        grid.block.iter().fold(1, |product: u64, threads| product.saturating_mul((*threads).into()));
    let blocks = many(usize::try_from(grid.blocks()).unwrap_or(usize::MAX), "block");
    let by = by.map(|by| format!(", loaded by {by}")).unwrap_or_default();
    writeln!(f, "\n  {}: {blocks} of {threads} threads{by}", function(&grid.kernel))?;
    writeln!(f, "    {}", residency(grid, device))?;
    for Fault { exception, thread, frames, .. } in grid.faults.iter().take(FAULTS) {
        writeln!(f, "    FAULT: {exception} by {thread}, at {}", stack(frames))?;
    }
    if let more @ 1.. = grid.faults.len().saturating_sub(FAULTS) {
        writeln!(f, "    and {more} more threads with a fault")?;
    }
    let width = grid.places.first().map_or(0, |place| place.threads.to_string().len());
    for Place { frames, threads, .. } in grid.places.iter().take(PLACES) {
        let noun = if *threads == 1 { "thread " } else { "threads" };
        writeln!(f, "    {threads:width$} {noun} at {}", stack(frames))?;
    }
    let rest = grid.places.iter().skip(PLACES).map(|place| place.threads).sum::<u64>();
    if rest > 0 {
        writeln!(f, "    {rest:width$} threads elsewhere; `--json` has all")?;
    }
    Ok(())
}

/// Says which blocks have a multiprocessor. Blocks start in the order of their indices.
fn residency(grid: &Grid, device: &Device) -> String {
    let (blocks, resident, started) = (grid.blocks(), grid.resident, grid.started.max(grid.resident));
    let (ended, waiting) = (started - resident, blocks.saturating_sub(started));
    match (ended, waiting) {
        _ if resident == 0 => "no block is resident: it waits for room, or for another kernel".to_owned(),
        (0, 0) => match resident {
            1 => "its block is resident".to_owned(),
            _ => format!("all {resident} blocks are resident"),
        },
        (0, _) => format!(
            "{resident} of {blocks} blocks are resident on {} multiprocessors, none has ended, and {waiting} wait for room: if the \
             resident ones wait for these, as in a barrier of the whole grid, the kernel never ends",
            device.multiprocessors
        ),
        _ => format!(
            "{resident} of {blocks} blocks are resident, {ended} have ended, and {waiting} have not started"
        ),
    }
}

/// Returns the name of a function as in C++, without its parameters.
pub(super) fn function(symbol: &str) -> Rc<str> {
    thread_local! {
        /// Parsing a long name takes a while, and many threads are in one function.
        static NAMES: RefCell<HashMap<String, Rc<str>>> = RefCell::default();
    }
    let name =
        || Signature::parse(symbol).map_or_else(|| symbol.into(), |signature| signature.names()[0].into());
    NAMES.with_borrow_mut(|names| names.entry(symbol.to_owned()).or_insert_with(name).clone())
}

/// Describes where a thread is, the innermost function first.
fn stack(frames: &[Frame]) -> String {
    let mut text = String::new();
    let mut last: Option<&str> = None;
    for (index, frame) in frames.iter().enumerate() {
        if index > 0 {
            text += if frames[index - 1].is_inlined { ", inlined at " } else { ", called at " };
        }
        match &frame.line {
            Some(Line { file, line }) => {
                let name = file.rsplit('/').next().unwrap_or(file);
                let place = if last == Some(name) { format!(":{line}") } else { format!("{name}:{line}") };
                text += &place;
                last = Some(name);
                text += &format!(" in {}", function(&frame.function));
            }
            None => text += &format!("{}+{:#x}", function(&frame.function), frame.offset),
        }
    }
    text
}
