//! Reads core dumps of GPUs: which kernels run, and where in their code each thread is.
//!
//! The driver writes such a dump for `CUDA_ENABLE_COREDUMP_ON_EXCEPTION` and
//! `CUDA_ENABLE_USER_TRIGGERED_COREDUMP`, and cuda-gdb for `generate-core-file`. [`read`] needs neither the
//! program nor the GPU: a dump has the loaded images, with the lines of their code if they were compiled with
//! `-lineinfo`. Dumps needn't be trusted, like images.
//!
//! ```no_run
//! let dump = kernel_registry_image::dump::read(&std::fs::read("core.nvcudmp")?)?;
//! for grid in &dump.grids {
//!     println!("{}: {} of {} blocks are resident", grid.kernel, grid.resident, grid.blocks());
//!     for place in &grid.places {
//!         println!("  {} threads at {}", place.threads, place.frames[0]);
//!     }
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod code;
mod exception;
mod lines;
mod model;
mod tables;

use std::cmp::Reverse;
use std::collections::HashMap;
use std::collections::hash_map::Entry;

use crate::Error;
use code::Code;
pub use exception::Exception;
use model::DEPTH;
pub use model::{Device, Dump, Fault, Frame, Grid, Line, LostFault, Place, Thread};
use tables::{Kind, Row, Tables};

/// Returns whether the bytes begin like a core dump of a GPU.
pub fn is_dump(bytes: &[u8]) -> bool {
    tables::is_dump(bytes)
}

/// Reads a core dump.
///
/// # Errors
///
/// The bytes are another file, or the dump is cut off or damaged.
pub fn read(bytes: &[u8]) -> Result<Dump, Error> {
    let tables = Tables::read(bytes)?;
    let code = Code::index(tables.images())?;
    let mut grids: Vec<_> = tables.rows(Kind::Grids).map(|row| grid(&row, &code)).collect();
    let found = threads(&tables, &mut grids);
    for (grid, faults) in grids.iter_mut().zip(found.faults) {
        let fault = |(exception, thread, stack): (_, _, Vec<u64>)| Fault {
            exception,
            thread,
            frames: code.frames(&stack),
        };
        grid.faults = faults.into_iter().map(fault).collect();
        grid.faults.sort_by_key(|fault| fault.thread);
    }
    for (grid, stacks) in grids.iter_mut().zip(found.stacks) {
        grid.places = places(stacks, &code);
    }
    grids.sort_by_key(|grid| (grid.device, grid.number));
    let lost = lost(&tables, &grids, &code);
    Ok(Dump { devices: tables.devices(), grids, lost })
}

/// Finds the faults that multiprocessors report where no thread has any.
fn lost(tables: &Tables<'_>, grids: &[Grid], code: &Code<'_>) -> Vec<LostFault> {
    let mut faults: Vec<LostFault> = Vec::new();
    for row in tables.rows(Kind::Multiprocessors) {
        let device = row.parent.1;
        let has_address = row.u32(12) != 0;
        let Some(exception) = Exception::new(row.u32(8)).filter(|_| has_address) else { continue };
        if grids.iter().any(|grid| grid.device == device && !grid.faults.is_empty()) {
            continue;
        }
        let frames = code.frames(&[row.u64(16)]);
        let same =
            |its: &LostFault| (its.device, its.exception) == (device, exception) && its.frames == frames;
        match faults.iter().position(same) {
            Some(index) => faults[index].multiprocessors += 1,
            None if faults.len() < DEPTH => {
                faults.push(LostFault { device, exception, multiprocessors: 1, frames });
            }
            None => {}
        }
    }
    faults
}

/// Threads by their stacks, which are addresses: the innermost function's next instruction, then where its callers go on.
type Stacks = HashMap<Vec<u64>, (u64, Thread)>;

/// The stacks and the faults of the threads, by grid.
struct Found {
    stacks: Vec<Stacks>,
    faults: Vec<Vec<(Exception, Thread, Vec<u64>)>>,
}

/// Finds the threads of the grids, and counts the blocks.
fn threads(tables: &Tables<'_>, grids: &mut [Grid]) -> Found {
    let index: HashMap<_, _> =
        grids.iter().enumerate().map(|(index, grid)| ((grid.device, grid.number), index)).collect();
    let mut found = Found { stacks: vec![Stacks::new(); grids.len()], faults: vec![Vec::new(); grids.len()] };
    let mut blocks = HashMap::new();
    for row in tables.rows(Kind::Blocks) {
        if let Some(grid) = index.get(&(tables.device_of_block(&row), row.u64(0))) {
            let block = [8, 12, 16].map(|offset| row.u32(offset));
            let its = &mut grids[*grid];
            its.resident += 1;
            its.started = its.started.max(its.index(block).saturating_add(1));
            blocks.insert((row.section, row.index), (*grid, block));
        }
    }
    let warps: HashMap<_, _> = tables.rows(Kind::Warps).map(|row| ((row.section, row.index), row)).collect();
    for lane in tables.rows(Kind::Lanes) {
        let Some(warp) = warps.get(&lane.parent) else { continue };
        let Some((grid, block)) = blocks.get(&warp.parent) else { continue };
        let thread = Thread { block: *block, thread: [20, 24, 28].map(|offset| lane.u32(offset)) };
        // The warp is marked as a whole, and only its active lanes have met the trap.
        let is_broken = warp.u32(20) != 0 && warp.u32(16) >> (lane.u32(16) & 31) & 1 == 1;
        let exception = Exception::new(lane.u32(32)).or(is_broken.then_some(Exception::Trap));
        // The next instruction can be behind the one that failed.
        let failed = Some(warp.u64(0)).filter(|_| exception.is_some() && warp.u32(24) != 0);
        let mut stack = vec![failed.unwrap_or(lane.u64(0))];
        stack.extend(tables.returns(&lane).take(DEPTH));
        if let Some(exception) = exception {
            found.faults[*grid].push((exception, thread, stack.clone()));
        }
        let (threads, example) = found.stacks[*grid].entry(stack).or_insert((0, thread));
        *threads += 1;
        *example = thread.min(*example);
    }
    found
}

/// Puts threads at one line together, or in one function without lines.
fn places(stacks: Stacks, code: &Code<'_>) -> Vec<Place> {
    let mut places = HashMap::new();
    for (stack, (threads, example)) in stacks {
        let frames = code.frames(&stack);
        let key: Vec<_> = frames.iter().map(Frame::without_offset).collect();
        match places.entry(key) {
            Entry::Vacant(entry) => drop(entry.insert(Place { frames, threads, example })),
            Entry::Occupied(entry) => {
                let place = entry.into_mut();
                place.threads += threads;
                // The offsets are those of the example.
                if example < place.example {
                    (place.frames, place.example) = (frames, example);
                }
            }
        }
    }
    let mut places: Vec<_> = places.into_values().collect();
    places.sort_by_key(|place| (Reverse(place.threads), place.example));
    places
}

fn grid(row: &Row<'_>, code: &Code<'_>) -> Grid {
    let entry = row.u64(24);
    let dimensions = |offset: usize| [0, 4, 8].map(|more| row.u32(offset + more));
    Grid {
        device: row.parent.1,
        number: row.u64(0),
        kernel: code.function(entry).map_or_else(|| format!("{entry:#x}"), |(name, _)| name.to_string()),
        grid: dimensions(72),
        block: dimensions(84),
        resident: 0,
        started: 0,
        places: Vec::new(),
        faults: Vec::new(),
    }
}
