//! The time of a kernel over a million elements, together with copies and synchronisation.

use std::error::Error;
use std::io;
use std::time::{Duration, Instant};

use kernel_registry::warm_all;
use kernels::blas1::saxpy;

kernel_registry::link_kernels!(kernels);

const N: usize = 1 << 20;
/// Test builds check arithmetic and bounds as they go; here they take 75 ms.
const LIMIT: Duration = Duration::from_millis(if cfg!(debug_assertions) { 200 } else { 100 });

/// How long all threads together have had a processor, so that other load of the machine does not matter.
fn busy() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: there is room for the answer.
    let answer = unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) };
    assert_eq!(answer, 0, "nothing can be measured: {}", io::Error::last_os_error());
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Does it some times, and answers how long the fastest kept processors busy.
fn fastest(mut work: impl FnMut()) -> Duration {
    let measured = (0..5).map(|_| {
        let (begun, busy_before) = (Instant::now(), busy());
        work();
        let taken = busy() - busy_before;
        println!("{taken:?} busy, {:?} in all", begun.elapsed());
        assert!(taken > Duration::ZERO, "nothing was measured: the clock of the process stands still");
        taken
    });
    measured.min().unwrap()
}

#[test]
fn saxpy_over_a_million_elements() -> Result<(), Box<dyn Error>> {
    kernel_registry_sim::install()?;
    let context = kernel_registry::context(0)?;
    let _warm = warm_all(&context)?;
    let stream = context.new_stream()?;
    let (x, y) = (vec![1f32; N], vec![2f32; N]);
    let mut result = Vec::new();
    let taken = fastest(|| {
        let once = || -> Result<Vec<f32>, Box<dyn Error>> {
            let (x, mut y) = (stream.clone_htod(&x)?, stream.clone_htod(&y)?);
            // SAFETY: both vectors have `N` elements.
            unsafe { saxpy::launch(&stream, saxpy::over(N as u32), N as u32, 3.0, &x, &mut y)? };
            Ok(stream.clone_dtoh(&y)?)
        };
        result = once().unwrap();
    });
    assert!(result.iter().all(|y| *y == 5.0));
    assert!(taken < LIMIT, "{taken:?}");
    Ok(())
}
