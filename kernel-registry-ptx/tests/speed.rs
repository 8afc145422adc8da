//! Tests the processor time of a kernel over a million elements.

mod common;
mod processor_time;

use std::fs;
use std::time::Duration;

use common::{Arguments, Device, launch, run};
use kernel_registry_ptx::{Grid, Knowledge, Races, Status};
use processor_time::fastest;

const N: usize = 1 << 20;
/// The longest time allowed. Builds for tests check arithmetic and bounds, and took 60 ms on one machine, 240 ms on another.
const LIMIT: Duration = Duration::from_millis(if cfg!(debug_assertions) { 600 } else { 300 });

#[test]
fn saxpy_over_a_million_elements() {
    let device = Device::default();
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../kernels/prebuilt/cuda__blas1.cu.ptx");
    let module = device.load(&fs::read_to_string(path).unwrap()).unwrap();
    let (mut x, mut y) = (vec![1f32; N], vec![2f32; N]);
    let arguments =
        Arguments::default().u32(N as u32).f32(3.0).u64(device.lend(&mut x)).u64(device.lend(&mut y)).done();
    let fastest = fastest(|| {
        run(&device, &module, "_Z5saxpyjfPKfPf", launch(4096, 256, arguments.clone())).unwrap();
    });
    assert!(y.iter().all(|y| *y == 2.0 + 3.0 * 5.0));
    assert!(fastest < LIMIT, "{fastest:?}");
}

/// How many times longer a kernel may take that is watched for races. It was 4 times for this one, which does little else
/// than access memory.
const WATCHED: u32 = 12;

#[test]
fn saxpy_is_watched_for_races() {
    const N: usize = 1 << 17;
    let device = Device::default();
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../kernels/prebuilt/cuda__blas1.cu.ptx");
    let module = device.load(&fs::read_to_string(path).unwrap()).unwrap();
    let (mut x, mut y) = (vec![1f32; N], vec![2f32; N]);
    let arguments =
        Arguments::default().u32(N as u32).f32(3.0).u64(device.lend(&mut x)).u64(device.lend(&mut y)).done();
    let kernel = "_Z5saxpyjfPKfPf";
    let plain = fastest(|| run(&device, &module, kernel, launch(512, 256, arguments.clone())).unwrap());
    let (mut races, mut known) = (Races::default(), Knowledge::default());
    let watched = fastest(|| {
        let mut grid = Grid::new(&module, kernel, launch(512, 256, arguments.clone())).unwrap();
        let work = grid.watch(&mut races, (0, 0), known.clone()).unwrap();
        while !matches!(grid.step_watched(1 << 20, &device, &mut races), Status::Done) {}
        known.add_ended(work);
    });
    assert_eq!(races.take(), []);
    let ratio = watched.as_secs_f64() / plain.as_secs_f64();
    println!("watched, it takes {ratio:.1} times as long");
    assert!(watched < WATCHED * plain, "{watched:?} instead of {plain:?}");
}
