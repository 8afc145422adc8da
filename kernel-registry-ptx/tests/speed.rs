//! The processor time of a kernel over a million elements.

mod common;

use std::time::{Duration, Instant};
use std::{fs, io};

use common::{Arguments, Device, launch, run};

const N: usize = 1 << 20;
/// Test builds check arithmetic and bounds as they go; here they take 60 ms.
const LIMIT: Duration = Duration::from_millis(if cfg!(debug_assertions) { 200 } else { 100 });

/// The processor time of all threads together, so that other load of the machine does not matter.
fn busy() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: there is room for the answer.
    let answer = unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) };
    assert_eq!(answer, 0, "nothing can be measured: {}", io::Error::last_os_error());
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

#[test]
fn saxpy_over_a_million_elements() {
    let device = Device::default();
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../kernels/prebuilt/cuda__blas1.cu.ptx");
    let module = device.load(&fs::read_to_string(path).unwrap()).unwrap();
    let (mut x, mut y) = (vec![1f32; N], vec![2f32; N]);
    let arguments =
        Arguments::default().u32(N as u32).f32(3.0).u64(device.lend(&mut x)).u64(device.lend(&mut y)).done();
    let measured = (0..5).map(|_| {
        let (begun, busy_before) = (Instant::now(), busy());
        run(&device, &module, "_Z5saxpyjfPKfPf", launch(4096, 256, arguments.clone())).unwrap();
        let taken = busy() - busy_before;
        println!("{taken:?} busy, {:?} in all", begun.elapsed());
        assert!(taken > Duration::ZERO, "nothing was measured: the clock of the process stands still");
        taken
    });
    let fastest = measured.min().unwrap();
    assert!(y.iter().all(|y| *y == 2.0 + 3.0 * 5.0));
    assert!(fastest < LIMIT, "{fastest:?}");
}
