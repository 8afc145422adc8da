//! Tests of every kernel of the sample crate, whose results are compared with those of host code.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::common::{Arguments, Device, finish, launch, run};
use kernel_registry_ptx::{Grid, LaunchParameters, Module, Status};

fn sample(device: &Device, name: &str) -> Arc<Module> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../kernels").join(name);
    device.load(&fs::read_to_string(path).unwrap()).unwrap()
}

fn prebuilt(device: &Device, name: &str) -> Arc<Module> {
    sample(device, &format!("prebuilt/cuda__{name}.cu.ptx"))
}

/// Returns the only kernel whose mangled name contains a text.
fn kernel(module: &Module, part: &str) -> String {
    let found: Vec<_> = module.program().kernels().filter(|name| name.contains(part)).collect();
    assert_eq!(found.len(), 1, "{part}: {found:?}");
    found[0].to_owned()
}

fn numbers(n: u32) -> Vec<f32> {
    (0..n).map(|i| (i * 7 % 13) as f32 - 3.0).collect()
}

#[test]
fn axpy_and_scal() {
    let device = Device::default();
    let module = prebuilt(&device, "blas1");
    let (mut x, mut y) = (numbers(1000), vec![1f32; 1000]);
    let (px, py) = (device.lend(&mut x), device.lend(&mut y));
    let arguments = Arguments::default().u32(1000).f32(2.5).u64(px).u64(py).done();
    run(&device, &module, &kernel(&module, "saxpy"), launch(3, 96, arguments)).unwrap();
    assert!(y.iter().zip(&x).all(|(y, x)| *y == 2.5 * x + 1.0));
    let arguments = Arguments::default().u32(999).f32(3.0).u64(px).done();
    run(&device, &module, &kernel(&module, "sscal"), launch(1, 33, arguments)).unwrap();
    assert!(x.iter().zip(numbers(999)).all(|(x, old)| *x == 3.0 * old));
    assert_eq!(x[999], numbers(1000)[999]);

    let (mut x, mut y): (Vec<f64>, _) =
        (numbers(500).into_iter().map(f64::from).collect(), vec![0.1f64; 500]);
    let (px, py) = (device.lend(&mut x), device.lend(&mut y));
    let arguments = Arguments::default().u32(500).u64(0.3f64.to_bits()).u64(px).u64(py).done();
    run(&device, &module, &kernel(&module, "daxpy"), launch(2, 64, arguments)).unwrap();
    assert!(y.iter().zip(&x).all(|(y, x)| *y == 0.3f64.mul_add(*x, 0.1)));
    let arguments = Arguments::default().u32(500).u64(0.5f64.to_bits()).u64(px).done();
    run(&device, &module, &kernel(&module, "dscal"), launch(2, 64, arguments)).unwrap();
    assert!(x.iter().zip(numbers(500)).all(|(x, old)| *x == 0.5 * f64::from(old)));
}

#[test]
fn dot_and_nrm2() {
    let device = Device::default();
    let module = prebuilt(&device, "blas1");
    // The numbers are whole, so the sum is the same in every order.
    let (mut x, mut y, mut out) = (numbers(3000), numbers(3000), [0f32; 2]);
    let expected: f32 = x.iter().map(|x| x * x).sum();
    let (px, py, po) = (device.lend(&mut x), device.lend(&mut y), device.lend(&mut out));
    let arguments = Arguments::default().u32(3000).u64(px).u64(py).u64(po).done();
    run(&device, &module, &kernel(&module, "sdot"), launch(4, 256, arguments)).unwrap();
    let arguments = Arguments::default().u32(3000).u64(px).u64(po + 4).done();
    run(&device, &module, &kernel(&module, "snrm2"), launch(2, 128, arguments)).unwrap();
    assert_eq!(out, [expected; 2]);

    let (mut x, mut out): (Vec<f64>, _) = (numbers(3000).into_iter().map(f64::from).collect(), [0f64; 2]);
    let (px, po) = (device.lend(&mut x), device.lend(&mut out));
    let arguments = Arguments::default().u32(3000).u64(px).u64(px).u64(po).done();
    run(&device, &module, &kernel(&module, "ddot"), launch(4, 256, arguments)).unwrap();
    let arguments = Arguments::default().u32(3000).u64(px).u64(po + 8).done();
    run(&device, &module, &kernel(&module, "dnrm2"), launch(2, 1024, arguments)).unwrap();
    assert_eq!(out, [f64::from(expected); 2]);
}

#[test]
fn a_sum_in_a_template() {
    let device = Device::default();
    let module = prebuilt(&device, "reduce");
    let (mut x, mut out) = (numbers(5000), vec![0f32; 3]);
    let (px, po) = (device.lend(&mut x), device.lend(&mut out));
    let arguments = Arguments::default().u64(px).u64(po).u32(5000).done();
    run(&device, &module, &kernel(&module, "IfLj256E"), launch(3, 256, arguments)).unwrap();
    assert_eq!(out.iter().sum::<f32>(), x.iter().sum::<f32>());
    // Another instance of the template has a launch bound of 128 threads.
    assert!(Grid::new(&module, &kernel(&module, "IfLj128E"), launch(1, 256, vec![0; 20])).is_err());
}

#[test]
fn a_transpose_through_shared_memory() {
    let device = Device::default();
    let module = prebuilt(&device, "transpose");
    let (rows, columns) = (45u32, 70u32);
    let mut x: Vec<f32> = (0..rows * columns).map(|i| i as f32).collect();
    let mut out = vec![0f32; x.len()];
    let arguments = Arguments::default()
        .u64(device.lend(&mut x))
        .u64(device.lend(&mut out))
        .u32(rows)
        .u32(columns)
        .done();
    let launch = LaunchParameters { grid: [3, 2, 1], block: [32, 8, 1], ..launch(1, 1, arguments) };
    run(&device, &module, &kernel(&module, "IfLj32E"), launch).unwrap();
    for (row, column) in [(0, 0), (44, 69), (13, 57), (44, 0)] {
        assert_eq!(out[column * rows as usize + row], x[row * columns as usize + column]);
    }
}

#[test]
fn dynamic_shared_memory() {
    let device = Device::default();
    let module = prebuilt(&device, "shared");
    let mut values: Vec<u32> = (0..2000).map(|i| i * 37 % 300).collect();
    let mut bins = vec![0u32; 256];
    let arguments = Arguments::default()
        .u32(2000)
        .u64(device.lend(&mut values))
        .u32(256)
        .u64(device.lend(&mut bins))
        .done();
    let launch = LaunchParameters { dynamic_shared: 1024, ..launch(4, 128, arguments) };
    run(&device, &module, &kernel(&module, "histogram"), launch.clone()).unwrap();
    for (bin, count) in bins.iter().enumerate() {
        assert_eq!(*count as usize, values.iter().filter(|value| **value as usize == bin).count());
    }
    let short = LaunchParameters { dynamic_shared: 512, ..launch };
    let fault = run(&device, &module, &kernel(&module, "histogram"), short).unwrap_err();
    assert!(fault.to_string().contains("of 512 bytes of shared memory"), "{fault}");
}

#[test]
fn a_structure_by_value() {
    let device = Device::default();
    let module = prebuilt(&device, "particles");
    /// `float4`. Kernels read it with one access, so it must be aligned to 16 bytes; Rust would align it to
    /// four.
    #[derive(Clone, Copy)]
    #[repr(align(16))]
    struct Float4([f32; 4]);

    let mut positions = [Float4([1.0, 2.0, 3.0, 9.0]); 5];
    let mut velocities = [Float4([4.0, 5.0, 6.0, 8.0]); 5];
    let step = [0.5f32.to_bits(), 0.25f32.to_bits(), 4].map(u32::to_le_bytes).concat();
    let (p, v) = (device.lend(&mut positions), device.lend(&mut velocities));
    // `step` has twelve bytes and is aligned to four; the pointers begin at offset 16.
    let arguments = [step, vec![0; 4], p.to_le_bytes().to_vec(), v.to_le_bytes().to_vec()].concat();
    run(&device, &module, &kernel(&module, "advance"), launch(1, 32, arguments)).unwrap();
    assert_eq!(positions[3].0, [3.0, 4.5, 6.0, 9.0]);
    assert_eq!(velocities[3].0, [1.0, 1.25, 1.5, 8.0]);
    assert_eq!(positions[4].0, [1.0, 2.0, 3.0, 9.0]);
}

#[test]
fn half_precision() {
    let device = Device::default();
    let module = prebuilt(&device, "half");
    // Computes 2 * 1.5 + 0.25 with 16 bits each.
    let (mut x, mut y) = ([0x3e00u16; 4], [0x3400u16; 4]);
    let arguments = Arguments::default()
        .u32(3)
        .bytes(&0x4000u16.to_le_bytes())
        .u64(device.lend(&mut x))
        .u64(device.lend(&mut y))
        .done();
    run(&device, &module, &kernel(&module, "haxpy"), launch(1, 32, arguments)).unwrap();
    assert_eq!(y, [0x4280, 0x4280, 0x4280, 0x3400]);
}

/// Computes what `shuffle` and `shuffle_large` compute for one seed.
fn first_card(seed: u32, size: usize) -> u32 {
    let mut deck = vec![0u32; size];
    let mut random = seed;
    for i in 1..size {
        random = random.wrapping_mul(1664525).wrapping_add(1013904223);
        let j = (random >> 16) as usize % (i + 1);
        deck[i] = i as u32;
        deck.swap(i, j);
    }
    deck[0]
}

#[test]
fn local_frames() {
    for (path, size, threads) in
        [("prebuilt/cuda__frame.cu.ptx", 512, 40), ("big-frame/prebuilt/cuda__large_deck.cu.ptx", 8192, 3)]
    {
        let device = Device::default();
        let module = sample(&device, path);
        let mut seeds: Vec<u32> = (0..threads).map(|i| i * 12345).collect();
        let mut firsts = vec![0u32; threads as usize];
        let arguments = Arguments::default()
            .u32(threads)
            .u64(device.lend(&mut seeds))
            .u64(device.lend(&mut firsts))
            .done();
        run(&device, &module, &kernel(&module, "shuffle"), launch(1, 64, arguments)).unwrap();
        for (seed, first) in seeds.iter().zip(firsts) {
            assert_eq!(first, first_card(*seed, size));
        }
    }
}

#[test]
fn clusters_read_each_others_shared_memory() {
    let device = Device::default();
    let module = prebuilt(&device, "cluster");
    let (mut x, mut out) = (numbers(1000), vec![0f32; 2]);
    let arguments = Arguments::default().u32(1000).u64(device.lend(&mut x)).u64(device.lend(&mut out)).done();
    run(&device, &module, &kernel(&module, "pair_sum"), launch(4, 64, arguments.clone())).unwrap();
    assert_eq!(out.iter().sum::<f32>(), x.iter().sum::<f32>());
    assert!(Grid::new(&module, &kernel(&module, "pair_sum"), launch(3, 64, arguments)).is_err());
}

#[test]
fn blocks_that_wait_for_each_other() {
    let device = Device::default();
    let module = prebuilt(&device, "cooperative");
    let start: Vec<f32> = (0..200).map(|i| (i % 10) as f32).collect();
    let (mut a, mut b, mut state) = (start.clone(), start.clone(), [0u32; 2]);
    let (pa, pb, ps) = (device.lend(&mut a), device.lend(&mut b), device.lend(&mut state));
    let arguments =
        Arguments::default().u32(200).u32(4).u64(pa).u64(pb).u64(ps).u64(ps + 4).u64(1 << 40).done();
    run(&device, &module, &kernel(&module, "smooth"), launch(5, 32, arguments.clone())).unwrap();
    let mut expected = start;
    for _ in 0..4 {
        let old = expected.clone();
        (1..199).for_each(|i| expected[i] = 0.5 * (old[i - 1] + old[i + 1]));
    }
    assert_eq!(a, expected);
    assert_eq!(state, [20, 1]);

    // Only two of the five blocks run at once, so they wait in vain. The grid reports that long before the
    // deadline.
    state.fill(0);
    let few = LaunchParameters { resident: 2, ..launch(5, 32, arguments) };
    let mut grid = Grid::new(&module, &kernel(&module, "smooth"), few).unwrap();
    let stuck = (0..100).any(|_| grid.step(10_000, &device) == Status::Running { progressed: false });
    assert!(stuck, "a wait without progress is not noticed");
}

#[test]
fn printf_assert_and_malloc() {
    let device = Device::default();
    let module = prebuilt(&device, "diagnose");
    let mut x = numbers(64);
    (x[3], x[40]) = (f32::NAN, f32::INFINITY);
    let px = device.lend(&mut x);
    let arguments = Arguments::default().u32(64).u64(px).done();
    run(&device, &module, &kernel(&module, "report_nan"), launch(1, 64, arguments.clone())).unwrap();
    assert_eq!(*device.printed.lock().unwrap(), "x[3] is not a number\n");
    let fault =
        run(&device, &module, &kernel(&module, "check_finite"), launch(2, 32, arguments)).unwrap_err();
    assert_eq!((fault.block, fault.thread), ([0; 3], [3, 0, 0]));
    assert!(fault.to_string().contains("assertion `isfinite(x[i])` does not hold"), "{fault}");

    let (mut rows, mut medians) = (numbers(70), [0f32; 10]);
    let before = device.allocations();
    let arguments =
        Arguments::default().u32(10).u32(7).u64(device.lend(&mut rows)).u64(device.lend(&mut medians)).done();
    run(&device, &module, &kernel(&module, "row_medians"), launch(1, 32, arguments)).unwrap();
    for (row, median) in rows.chunks(7).zip(medians) {
        let mut row = row.to_vec();
        row.sort_by(f32::total_cmp);
        assert_eq!(row[3], median);
    }
    assert_eq!(device.allocations(), before, "every thread frees what it allocated");
}

/// Returns a control block of the device header, version 2, without a limit, for a grid of this many blocks.
fn control(blocks: usize) -> Vec<u32> {
    let mut words = vec![0, 2, blocks as u32, 0, u32::MAX, u32::MAX];
    words.resize(16 + blocks, 0);
    words
}

#[test]
fn a_kernel_spins_until_another_thread_sets_a_flag() {
    let device = Device::default();
    let module = prebuilt(&device, "spin");
    let (mut state, mut control) = ([0u32; 2], control(2));
    let (state_at, control_at) = (device.lend(&mut state), device.lend(&mut control));
    let arguments = Arguments::default().u64(state_at).u64(control_at).done();
    let mut grid = Grid::new(&module, &kernel(&module, "spin_until_flag"), launch(2, 64, arguments)).unwrap();
    let mut steps = (0..50).map(|_| grid.step(10_000, &device));
    assert!(steps.any(|status| status == Status::Running { progressed: false }), "the spin is not noticed");

    let flag = state_at as usize;
    let host = std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_millis(20));
        // SAFETY: the array outlives the thread, which is joined; all accesses are atomic.
        unsafe { AtomicU32::from_ptr(flag as *mut u32) }.store(1, Ordering::SeqCst);
    });
    finish(&mut grid, &device).unwrap();
    host.join().unwrap();
    // The kernel was not told to stop, and both blocks have left.
    assert_eq!((control[0], &control[16..]), (0, &[2, 2][..]));

    let arguments = Arguments::default().u64(state_at + 4).u32(77).done();
    run(&device, &module, &kernel(&module, "set_flag"), launch(1, 1, arguments)).unwrap();
    let arguments = Arguments::default().u64(state_at + 4).done();
    run(&device, &module, &kernel(&module, "touch"), launch(1, 1, arguments)).unwrap();
    assert_eq!(state[1], 78);
}

#[test]
fn a_worker_with_a_queue() {
    let device = Device::default();
    let module = prebuilt(&device, "worker");
    let (mut x, mut y) = (numbers(100), vec![1f32; 100]);
    let (px, py) = (device.lend(&mut x), device.lend(&mut y));
    // A queue of two lanes, each with two slots of 24 bytes. One task is pushed into each lane, and none is
    // done.
    let mut queue = [0u64; 40 + 2 * 2 * 3];
    let task = |first: u64, n: u64| [px + 4 * first, py + 4 * first, u64::from(2f32.to_bits()) | n << 32];
    queue[..2].copy_from_slice(&[2 | 2 << 32, 24]);
    (queue[8], queue[24]) = (1, 1);
    queue[40..43].copy_from_slice(&task(0, 60));
    queue[46..49].copy_from_slice(&task(60, 40));
    let mut control = control(2);
    // The kernel was told to stop, but it does the tasks that were pushed before.
    control[0] = 1;
    let arguments = Arguments::default().u64(device.lend(&mut control)).u64(device.lend(&mut queue)).done();
    run(&device, &module, &kernel(&module, "worker"), launch(2, 64, arguments)).unwrap();
    assert_eq!(([queue[16], queue[32]], &control[16..]), ([1, 1], &[4, 4][..]));
    assert!(y.iter().zip(&x).all(|(y, x)| *y == 2.0 * x + 1.0));
}
