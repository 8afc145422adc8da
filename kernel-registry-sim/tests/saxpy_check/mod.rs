//! Checks that a device computes.

use std::error::Error;
use std::sync::Arc;

use kernel_registry::cudarc::driver::CudaContext;
use kernels::blas1::saxpy;

/// Adds three times 1 to 2, in each of so many elements.
pub fn saxpy(context: &Arc<CudaContext>, n: u32) -> Result<(), Box<dyn Error>> {
    let stream = context.new_stream()?;
    let x = stream.clone_htod(&vec![1.0_f32; n as usize])?;
    let mut y = stream.clone_htod(&vec![2.0_f32; n as usize])?;
    // SAFETY: both vectors have `n` elements.
    unsafe { saxpy::launch(&stream, saxpy::over(n), n, 3.0, &x, &mut y)? };
    let found = stream.clone_dtoh(&y)?;
    if found.iter().all(|y| *y == 5.0) { Ok(()) } else { Err(format!("{found:?}").into()) }
}
