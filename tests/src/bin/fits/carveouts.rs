//! Measures which carve-out a multiprocessor has while blocks stay on it.

use std::fmt::Write;

use kernel_registry_format::fit::Processor;

use crate::gpu::{Gpu, Loaded, Outcome};
use crate::ptx::{Role, Spec};
use crate::trial::attempt;

const KIB: u32 = 1 << 10;

/// A line for each kernel that stays: the carve-out as computed, and as measured after a kernel that preferred the smallest,
/// and after one that preferred the largest.
pub(crate) fn measure(gpu: &Gpu) -> Outcome<String> {
    let mut lines = format!(
        "{}\n{:>7} {:>7} {:>9} {:>9}  {:>8}  {:>13} {:>13}\n",
        gpu.words(),
        "THREADS",
        "BYTES",
        "CARVE-OUT",
        "ON EACH",
        "COMPUTED",
        "AFTER SMALLEST",
        "AFTER LARGEST"
    );
    for threads in [32, 256, 1024] {
        for shared in [0, 2 * KIB, 7 * KIB, 15 * KIB, 31 * KIB, 60 * KIB] {
            for carveout in [None, Some(0), Some(50), Some(100)] {
                let spec =
                    Spec { threads, registers: 16, static_shared: 0, dynamic_shared: shared, carveout };
                let stays = gpu.load(spec, Role::Stays)?;
                // Blocks must leave room for one more, which has a warp.
                let room = Processor::new(&gpu.device).space(&stays.launch(1)).blocks;
                let mut on_each = vec![1, 2, room / 2];
                on_each.retain(|blocks| (1..=room).contains(blocks) && *blocks < gpu.device.blocks);
                on_each.dedup();
                for blocks in on_each {
                    line(gpu, &stays, blocks, &mut lines)?;
                }
                gpu.unload(stays)?;
            }
        }
    }
    Ok(lines)
}

fn line(gpu: &Gpu, stays: &Loaded, blocks: u32, lines: &mut String) -> Outcome {
    let mut processor = Processor::new(&gpu.device);
    processor.put(&stays.launch(1), blocks);
    if processor.threads() >= gpu.device.threads {
        return Ok(());
    }
    let [after_smallest, after_largest] =
        [0, 100].map(|percent| measured(gpu, stays, blocks, &processor, percent));
    let kib = |bytes: Option<u32>| bytes.map_or("-".to_owned(), |bytes| format!("{} KiB", bytes / KIB));
    let carveout = stays.spec.carveout.map_or("default".to_owned(), |percent| format!("{percent} %"));
    writeln!(
        lines,
        "{:>7} {:>7} {carveout:>9} {blocks:>9}  {:>8}  {:>13} {:>13}",
        stays.spec.threads,
        stays.spec.dynamic_shared,
        kib(processor.carveout()),
        kib(after_smallest?),
        kib(after_largest?)
    )?;
    Ok(())
}

/// The largest carve-out that a kernel beside the blocks can fill. `None` if they leave room for none.
fn measured(
    gpu: &Gpu,
    stays: &Loaded,
    blocks: u32,
    processor: &Processor<'_>,
    percent: u32,
) -> Outcome<Option<u32>> {
    let before =
        Spec { threads: 32, registers: 16, static_shared: 0, dynamic_shared: 0, carveout: Some(percent) };
    let before = gpu.load(before, Role::Passes)?;
    let taken = processor.shared() + gpu.device.reserved_shared;
    let steps = gpu.device.carveouts.iter().copied();
    let steps: Vec<u32> =
        steps.filter(|step| *step > taken && step - taken <= gpu.device.block_shared).collect();
    let mut runs = 0;
    let mut waits = steps.len();
    while runs < waits {
        let middle = (runs + waits) / 2;
        let spec = Spec { dynamic_shared: steps[middle] - taken, carveout: None, ..before.spec };
        let passes = gpu.load(spec, Role::Passes)?;
        gpu.launch(&before, gpu.device.processors * gpu.device.blocks, gpu.passes, gpu.next_number())?;
        gpu.synchronize()?;
        let (_, ran) = attempt(gpu, gpu.device.processors * blocks, stays, &passes)?;
        gpu.unload(passes)?;
        if ran == Some(true) {
            runs = middle + 1;
        } else {
            waits = middle;
        }
    }
    gpu.unload(before)?;
    Ok(runs.checked_sub(1).map(|last| steps[last]))
}
