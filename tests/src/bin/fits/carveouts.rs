//! Measures which carve-out a multiprocessor has while blocks stay on it.

use kernel_registry_cuda::fit::Processor;

use crate::gpu::{Area, Gpu, Loaded, Outcome};
use crate::ptx::{Role, Spec};
use crate::trial::attempt;

const KIB: u32 = 1 << 10;

/// Threads and registers of the kernel that runs beside. A multiprocessor has registers for one block of it, so the driver wants
/// no larger carve-out than that block needs. They are left over by all kernels that stay here.
const BESIDE: (u32, u32) = (512, 80);

/// Prints a line for each kernel that stays and each number of blocks: the carve-out as computed, and the measured one, after a
/// kernel that preferred the smallest and after one that preferred the largest.
pub(crate) fn measure(gpu: &Gpu) -> Outcome {
    println!("{}", gpu.words());
    print_row(["THREADS", "BYTES", "PREFERS", "ON EACH", "COMPUTED", "AFTER 0 %", "AFTER 100 %"]);
    for threads in [32, 512] {
        for dynamic_shared in [0, 2 * KIB, 7 * KIB, 31 * KIB] {
            for carveout in [None, Some(50), Some(100)] {
                let spec = Spec { threads, registers: 16, static_shared: 0, dynamic_shared, carveout };
                let stays = gpu.load(spec, Role::Stays)?;
                let room = Processor::new(&gpu.device).space(&stays.launch(1)).blocks;
                for blocks in [1, room / 2] {
                    row(gpu, &stays, blocks)?;
                }
                gpu.unload(stays)?;
            }
        }
    }
    Ok(())
}

fn print_row(cells: [&str; 7]) {
    let [first, rest @ ..] = cells;
    println!("{first:>7}{}", rest.map(|cell| format!("  {cell:>11}")).concat());
}

fn row(gpu: &Gpu, stays: &Loaded, blocks: u32) -> Outcome {
    let mut processor = Processor::new(&gpu.device);
    processor.put(&stays.launch(1), blocks);
    let kib = |bytes: Option<u32>| bytes.map_or("-".to_owned(), |bytes| format!("{} KiB", bytes / KIB));
    let prefers = stays.spec.carveout.map_or("nothing".to_owned(), |percent| format!("{percent} %"));
    print_row([
        &stays.spec.threads.to_string(),
        &stays.spec.dynamic_shared.to_string(),
        &prefers,
        &blocks.to_string(),
        &kib(processor.carveout()),
        &kib(measured(gpu, stays, blocks, &processor, 0)?),
        &kib(measured(gpu, stays, blocks, &processor, 100)?),
    ]);
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
        let (threads, registers) = BESIDE;
        let dynamic_shared = steps[middle] - taken;
        let spec = Spec { threads, registers, static_shared: 0, dynamic_shared, carveout: None };
        let passes = gpu.load(spec, Role::Passes)?;
        gpu.launch(
            &before,
            gpu.device.processors * gpu.device.blocks,
            gpu.passes,
            Area::First,
            gpu.next_number(),
        )?;
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
