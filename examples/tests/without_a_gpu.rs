//! Shows how a crate tests its kernels without a GPU. Each test first installs the simulated driver. A process has only one driver, so
//! all tests of a file share it. Another test file can configure its driver differently:
//! `Config::default().devices(2).driver((12, 4)).install()?`.

use std::error::Error;

use kernel_registry::{Warm, warm_all};
use kernels::blas1::{saxpy, sdot};

/// Installs the simulated driver and warms all kernels. This is the first step of each test.
fn warm() -> Result<Warm, Box<dyn Error>> {
    kernel_registry_sim::install()?;
    let context = kernel_registry::context(0)?;
    Ok(warm_all(&context)?)
}

#[test]
fn saxpy_computes() -> Result<(), Box<dyn Error>> {
    let warm = warm()?;
    let stream = warm.context().new_stream()?;
    let x = stream.clone_htod(&[1.0_f32, 2.0, 3.0])?;
    let mut y = stream.clone_htod(&[10.0_f32, 20.0, 30.0])?;
    // SAFETY: both vectors have three elements.
    unsafe { saxpy::launch(&stream, saxpy::over(3), 3, 2.0, &x, &mut y)? };
    assert_eq!(stream.clone_dtoh(&y)?, [12.0, 24.0, 36.0]);
    Ok(())
}

#[test]
fn sdot_adds_to_what_is_there() -> Result<(), Box<dyn Error>> {
    let warm = warm()?;
    let stream = warm.context().new_stream()?;
    let x = stream.clone_htod(&[1.0_f32; 1000])?;
    let mut sum = stream.clone_htod(&[0.5_f32])?;
    // SAFETY: the vectors have 1000 elements, and the sum has one.
    unsafe { sdot::launch(&stream, sdot::over(1000), 1000, &x, &x, &mut sum)? };
    assert_eq!(stream.clone_dtoh(&sum)?, [1000.5]);
    Ok(())
}
