//! Tests that races are found in the wrong kernels of `races.cu`, and in none of the right ones.

use std::collections::BTreeMap;

use kernel_registry_ptx::{Grid, Knowledge, Race, Races, Status};

use crate::common::{Arguments, Device, launch};
use crate::{Compiled, each};

/// Returns the blocks of a kernel's grid, and the threads of a block.
fn shape(kernel: &str) -> (u32, u32) {
    let (_, what) = kernel.split_once('_').unwrap();
    match what {
        "three_blocks" => (3, 1),
        "flags_of_many_blocks" => (100, 1),
        "thread_that_left_after_a_fence" => (1, 64),
        "scope_of_the_block" if kernel.starts_with("right") => (1, 64),
        "barrier_of_the_grid" | "last_block" => (4, 64),
        "neighbours" => (2, 64),
        _ if what.starts_with("leader") || what.starts_with("fences_before") => (2, 64),
        _ if what.contains("in_a_warp") || what.contains("shuffle") || what.contains("of_a_warp") => (1, 32),
        _ if ["flag", "lock", "first", "counter", "ring", "release", "scope", "fence"]
            .iter()
            .any(|word| what.contains(word)) =>
        {
            (2, 1)
        }
        _ => (1, 64),
    }
}

/// Numbers of which a thread can store four at once.
#[repr(align(16))]
struct Aligned([u32; 512]);

/// Runs a kernel in the usual order, or in one by chance, and returns its races.
fn races(compiled: &Compiled, kernel: &str, seed: u64) -> Vec<Race> {
    let (blocks, threads) = shape(kernel);
    let (mut data, mut flag, mut out) = (Aligned([0_u32; 512]), [0_u32; 128], [0_u32; 512]);
    data.0.iter_mut().enumerate().for_each(|(at, number)| *number = at as u32 % 9);
    let arguments = [compiled.lend(&mut data.0), compiled.lend(&mut flag), compiled.lend(&mut out)];
    let arguments = arguments.into_iter().fold(Arguments::default(), Arguments::u64);
    let mut grid = Grid::new(&compiled.module, kernel, launch(blocks, threads, arguments.done())).unwrap();
    let mut races = Races::default();
    grid.watch(&mut races, (0, 0), Knowledge::default());
    if seed == 0 {
        compiled.finish(&mut grid, &mut races);
    } else {
        run_by_chance(compiled, &mut grid, &mut races, seed);
    }
    races.take()
}

/// Runs a grid to its end. After each access, chance decides who goes on.
fn run_by_chance(compiled: &Compiled, grid: &mut Grid, races: &mut Races, seed: u64) {
    let mut random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut below = |bound: usize| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (random >> 33) as usize % bound
    };
    grid.explore(|_| true);
    loop {
        let (blocks, ready) = (grid.blocks_to_start(), grid.ready(&compiled.device));
        let chosen = below((blocks.len() + ready.len()).max(1));
        let status = if let Some(block) = blocks.get(chosen) {
            grid.start_block(*block, &compiled.device, races)
        } else if let Some(group) = ready.get(chosen - blocks.len()) {
            grid.advance(*group, &compiled.device, races)
        } else {
            assert!(grid.release(false) || grid.release(true), "nobody can go on: {:#?}", grid.stuck());
            continue;
        };
        match status {
            Status::Done => return,
            Status::Running { .. } => {}
            Status::Fault(fault) => panic!("{fault}"),
        }
    }
}

/// Kernels whose race shows in some orders only, because a flag orders the accesses in the others.
const IN_SOME_ORDERS: [&str; 1] = ["wrong_ring"];

#[test]
fn wrong_kernels_race_and_right_ones_do_not() {
    each("races", |compiled| {
        let kernels: Vec<_> = compiled.module.program().kernels().collect();
        assert!(kernels.len() > 60, "{}", kernels.len());
        let mut wrong = BTreeMap::new();
        for kernel in kernels {
            let usual = races(compiled, kernel, 0);
            let others: Vec<_> = (1..30).map(|seed| races(compiled, kernel, seed)).collect();
            let racing = others.iter().filter(|found| !found.is_empty()).count();
            let is_as_named = match kernel.starts_with("right") {
                true => usual.is_empty() && racing == 0,
                false if IN_SOME_ORDERS.contains(&kernel) => usual.is_empty() && racing > 0,
                false => !usual.is_empty(),
            };
            if !is_as_named {
                let all = usual.iter().chain(others.iter().flatten());
                wrong.insert(kernel, all.map(Race::to_string).collect::<Vec<_>>());
            }
        }
        assert!(wrong.is_empty(), "{wrong:#?}");
    });
}

#[test]
fn a_watched_kernel_fails_as_it_does_alone() {
    let text = ".version 8.0 .target sm_75 .address_size 64 .visible .entry k(.param .u64 at) { .reg .b64 %a; ld.param.u64 %a, [at]; st.global.u32 [%a], 1; ret; }";
    let device = Device::default();
    let module = device.load(text).unwrap();
    for address in [4, 1 << 60, u64::MAX - 3] {
        let grid =
            || Grid::new(&module, "k", launch(1, 1, Arguments::default().u64(address).done())).unwrap();
        let (mut watched, mut races) = (grid(), Races::default());
        watched.watch(&mut races, (0, 0), Knowledge::default());
        assert_eq!(watched.step_watched(100, &device, &mut races), grid().step(100, &device), "{address:#x}");
        assert_eq!(races.take(), []);
    }
}
