//! Makes all kernels ready, and launches one.

use {{crate}}::saxpy;

fn main() -> Result<(), kernel_registry::MainError> {
    let context = kernel_registry::context(0)?;
    let warm = kernel_registry::warm_all(&context)?;
    println!("{}", warm.report());

    let stream = context.new_stream()?;
    let x = stream.clone_htod(&[1.0_f32; 1000])?;
    let mut y = stream.clone_htod(&[2.0_f32; 1000])?;
    // SAFETY: both vectors have 1000 elements.
    unsafe { saxpy::launch(&stream, saxpy::over(1000), 1000, 0.5, &x, &mut y)? };
    println!("0.5 * 1 + 2 = {}", stream.clone_dtoh(&y)?[999]);
    Ok(())
}
