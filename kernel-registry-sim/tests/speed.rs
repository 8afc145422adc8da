//! A test of the time that a kernel over a million elements takes, together with copies and synchronisation.

#[path = "../../kernel-registry-ptx/tests/processor_time/mod.rs"]
mod processor_time;

use std::error::Error;
use std::time::Duration;

use kernel_registry::warm_all;
use kernels::blas1::saxpy;
use processor_time::fastest;

kernel_registry::link_kernels!(kernels);

const N: usize = 1 << 20;
/// The longest time allowed. Builds for tests check arithmetic and bounds, and took 75 ms on one machine, 230 ms on another.
const LIMIT: Duration = Duration::from_millis(if cfg!(debug_assertions) { 600 } else { 300 });

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
