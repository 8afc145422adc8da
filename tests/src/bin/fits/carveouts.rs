//! Measures the carve-out of a multiprocessor with resident blocks on it.

use kernel_registry_cuda::fit::Processor;

use crate::gpu::{Area, Gpu, Loaded, Outcome};
use crate::ptx::{Role, Spec};
use crate::trial::attempt;

const KIB: u32 = 1 << 10;

/// The threads of the probe kernel's block, and the registers of its threads. A multiprocessor only has
/// registers for one such block, so the driver doesn't want a larger carve-out than one block needs. All
/// resident kernels here leave that many threads and registers.
const PROBE: (u32, u32) = (512, 80);

/// Prints a line for each resident kernel and each number of blocks, with the computed carve-out and two
/// measured ones: after a kernel that preferred the smallest carve-out, and after one that preferred the
/// largest.
pub(crate) fn measure(gpu: &Gpu) -> Outcome {
    println!("{}", gpu.words());
    print_row(["THREADS", "BYTES", "PREFERS", "ON EACH", "COMPUTED", "AFTER 0 %", "AFTER 100 %"]);
    for threads in [32, 512] {
        for dynamic_shared in [0, 2 * KIB, 7 * KIB, 31 * KIB] {
            for carveout in [None, Some(50), Some(100)] {
                let spec = Spec { threads, registers: 16, static_shared: 0, dynamic_shared, carveout };
                let resident = gpu.load(spec, Role::Resident)?;
                let room = Processor::new(&gpu.device).space(&resident.launch(1)).blocks;
                for blocks in [1, room / 2] {
                    row(gpu, &resident, blocks)?;
                }
                gpu.unload(resident)?;
            }
        }
    }
    Ok(())
}

fn print_row(cells: [&str; 7]) {
    let [first, rest @ ..] = cells;
    println!("{first:>7}{}", rest.map(|cell| format!("  {cell:>11}")).concat());
}

fn row(gpu: &Gpu, resident: &Loaded, blocks: u32) -> Outcome {
    let mut processor = Processor::new(&gpu.device);
    processor.put(&resident.launch(1), blocks);
    let kib = |bytes: Option<u32>| bytes.map_or("-".to_owned(), |bytes| format!("{} KiB", bytes / KIB));
    let prefers = resident.spec.carveout.map_or("nothing".to_owned(), |percent| format!("{percent} %"));
    print_row([
        &resident.spec.threads.to_string(),
        &resident.spec.dynamic_shared.to_string(),
        &prefers,
        &blocks.to_string(),
        &kib(processor.carveout()),
        &kib(measured(gpu, resident, blocks, &processor, 0)?),
        &kib(measured(gpu, resident, blocks, &processor, 100)?),
    ]);
    Ok(())
}

/// Measures the largest carve-out that a probe kernel can fill while the blocks run. Returns `None` if they
/// leave no room.
fn measured(
    gpu: &Gpu,
    resident: &Loaded,
    blocks: u32,
    processor: &Processor<'_>,
    percent: u32,
) -> Outcome<Option<u32>> {
    let before =
        Spec { threads: 32, registers: 16, static_shared: 0, dynamic_shared: 0, carveout: Some(percent) };
    let before = gpu.load(before, Role::Probe)?;
    let taken = processor.shared() + gpu.device.reserved_shared;
    let steps = gpu.device.carveouts.iter().copied();
    let steps: Vec<u32> =
        steps.filter(|step| *step > taken && step - taken <= gpu.device.block_shared).collect();
    let mut runs = 0;
    let mut waits = steps.len();
    while runs < waits {
        let middle = (runs + waits) / 2;
        let (threads, registers) = PROBE;
        let dynamic_shared = steps[middle] - taken;
        let spec = Spec { threads, registers, static_shared: 0, dynamic_shared, carveout: None };
        let probe = gpu.load(spec, Role::Probe)?;
        gpu.launch(
            &before,
            gpu.device.processors * gpu.device.blocks,
            gpu.probe,
            Area::First,
            gpu.next_number(),
        )?;
        gpu.synchronize()?;
        let (_, ran) = attempt(gpu, gpu.device.processors * blocks, resident, &probe)?;
        gpu.unload(probe)?;
        if ran == Some(true) {
            runs = middle + 1;
        } else {
            waits = middle;
        }
    }
    gpu.unload(before)?;
    Ok(runs.checked_sub(1).map(|last| steps[last]))
}
