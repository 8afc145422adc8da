//! Launches kernels on the simulated driver, which is for Linux: no GPU is needed.
#![cfg(target_os = "linux")]

use {{crate}}::saxpy;

#[test]
fn saxpy_computes() -> Result<(), kernel_registry::MainError> {
    kernel_registry_sim::install()?;
    let context = kernel_registry::context(0)?;
    kernel_registry::warm_all(&context)?;

    let stream = context.new_stream()?;
    let x = stream.clone_htod(&[1.0_f32, 2.0, 3.0])?;
    let mut y = stream.clone_htod(&[10.0_f32, 20.0, 30.0])?;
    // SAFETY: both vectors have three elements.
    unsafe { saxpy::launch(&stream, saxpy::over(3), 3, 2.0, &x, &mut y)? };
    assert_eq!(stream.clone_dtoh(&y)?, [12.0, 24.0, 36.0]);
    Ok(())
}
