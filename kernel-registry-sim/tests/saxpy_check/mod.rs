//! Runs saxpy on a device, and checks its result.

use std::error::Error;
use std::sync::Arc;

use kernel_registry::cudarc::driver::CudaContext;
use kernels::blas1::saxpy;

/// Computes y = 3 * x + y for `n` elements, with x = 1 and y = 2. Fails unless every result is 5.
pub fn saxpy(context: &Arc<CudaContext>, n: u32) -> Result<(), Box<dyn Error>> {
    let stream = context.new_stream()?;
    let x = stream.clone_htod(&vec![1.0_f32; n as usize])?;
    let mut y = stream.clone_htod(&vec![2.0_f32; n as usize])?;
    // SAFETY: both vectors have `n` elements.
    unsafe { saxpy::launch(&stream, saxpy::over(n), n, 3.0, &x, &mut y)? };
    let found = stream.clone_dtoh(&y)?;
    if found.iter().all(|y| *y == 5.0) { Ok(()) } else { Err(format!("{found:?}").into()) }
}
