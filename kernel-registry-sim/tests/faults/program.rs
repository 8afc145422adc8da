//! Defines the program under test, which gets a context, warms kernels, and launches a kernel.

use std::error::Error;
use std::sync::Arc;

use kernel_registry::cudarc::driver::{CudaContext, CudaSlice, CudaStream};
use kernel_registry::{LaunchError, Warm, WarmError, Warmup, gpu_kernel};
use kernels::blas1::saxpy;

/// A kernel in machine code, which is loaded by other calls than PTX.
#[gpu_kernel(image = "../kernel-registry-cuda/cuda/first.fatbin", block = 1)]
pub unsafe fn first(zero: i32);

const N: u32 = 100;

/// A stream, and vectors for saxpy.
pub struct Vectors {
    pub stream: Arc<CudaStream>,
    x: CudaSlice<f32>,
    y: CudaSlice<f32>,
}

/// Warms all kernels in two threads. The number of threads affects the driver calls, and must not depend on the
/// machine.
pub fn warm(context: &Arc<CudaContext>) -> Result<Warm, WarmError> {
    Warmup::new().threads(2).warm(context)
}

impl Vectors {
    pub fn new(context: &Arc<CudaContext>) -> Result<Self, Box<dyn Error>> {
        let stream = context.new_stream()?;
        let x = stream.clone_htod(&[1.0_f32; N as usize])?;
        let y = stream.clone_htod(&[2.0_f32; N as usize])?;
        Ok(Vectors { stream, x, y })
    }

    pub fn launch(&mut self) -> Result<(), LaunchError> {
        // SAFETY: both vectors have `N` elements.
        unsafe { saxpy::launch(&self.stream, saxpy::over(N), N, 3.0, &self.x, &mut self.y) }
    }

    /// Checks the results of saxpy after this many launches.
    pub fn check(&self, launches: u32) -> Result<(), Box<dyn Error>> {
        let y = self.stream.clone_dtoh(&self.y)?;
        let expected = 2.0 + 3.0 * launches as f32;
        if y.iter().all(|y| *y == expected) {
            Ok(())
        } else {
            Err(format!("{} is not {expected}", y[0]).into())
        }
    }
}

/// Runs the whole program.
pub fn run() -> Result<(), Box<dyn Error>> {
    let context = kernel_registry::context(0)?;
    run_in(&context)
}

pub fn run_in(context: &Arc<CudaContext>) -> Result<(), Box<dyn Error>> {
    let _warm = warm(context)?;
    let mut vectors = Vectors::new(context)?;
    vectors.launch()?;
    vectors.check(1)
}
