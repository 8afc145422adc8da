//! Launches Triton kernels on the simulated driver, and compares their results with the CPU's. The kernels are typical first
//! kernels in Triton; `make.py` has compiled them for sm_80.

mod products;
mod rows;
mod values;

use std::error::Error;
use std::sync::Arc;

use kernel_registry::cudarc::driver::{CudaContext, CudaStream};
use kernel_registry::{DynArg, KernelInfo, RuntimeImage, Warmup, launch_dyn};
use serde_json::Value;

type Outcome = Result<(), Box<dyn Error>>;

/// A warm kernel of Triton.
struct Kernel {
    info: &'static KernelInfo,
    stream: Arc<CudaStream>,
    _context: Arc<CudaContext>,
}

impl Kernel {
    /// Registers and warms the only kernel of `ptx/NAME.ptx`, with the block and the shared memory that Triton asks for.
    fn new(name: &str) -> Result<Self, Box<dyn Error>> {
        kernel_registry_sim::install()?;
        let context = kernel_registry::context(0)?;
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/triton/ptx");
        let launches: Value =
            serde_json::from_str(&std::fs::read_to_string(format!("{folder}/launches.json"))?)?;
        let number = |what: &str| launches[name][what].as_u64().and_then(|number| u32::try_from(number).ok());
        let entry = launches[name]["entry"].as_str().ok_or("no entry")?;
        let image = RuntimeImage::new(name, std::fs::read(format!("{folder}/{name}.ptx"))?)
            .block(entry, number("threads").ok_or("no threads")?)
            .shared(entry, number("shared").ok_or("no shared")?);
        let info = image.register()?[0];
        Warmup::new().only(move |kernel| kernel == info).warm(&context)?;
        Ok(Kernel { info, stream: context.new_stream()?, _context: context })
    }

    /// Launches the kernel. After the kernel's own arguments Triton passes two addresses of scratch memory, which these kernels do not use.
    fn launch<'a>(
        &'a self,
        grid: impl Into<kernel_registry::Dim3>,
        arguments: impl IntoIterator<Item = DynArg<'a>>,
    ) -> Outcome {
        let arguments: Vec<_> = arguments.into_iter().chain([DynArg::null(), DynArg::null()]).collect();
        // SAFETY: the tests pass vectors of the sizes that the kernels are told.
        unsafe { launch_dyn(self.info, &self.stream, self.info.config(grid), arguments)? };
        Ok(())
    }
}

/// Returns random numbers between -4 and 4, the same numbers in every run.
fn numbers(count: usize, seed: u64) -> Vec<f32> {
    let mut random = fastrand::Rng::with_seed(seed);
    (0..count).map(|_| random.f32() * 8.0 - 4.0).collect()
}

/// Panics if a number differs by more than the tolerance, which is relative to the number, or to 1 if the number is less.
#[track_caller]
fn assert_close(found: &[f32], expected: impl IntoIterator<Item = f64>, tolerance: f64) {
    let expected: Vec<_> = expected.into_iter().collect();
    assert_eq!(found.len(), expected.len());
    for (place, (found, expected)) in found.iter().zip(expected).enumerate() {
        let difference = (f64::from(*found) - expected).abs();
        assert!(
            difference <= tolerance * expected.abs().max(1.0),
            "{place}: {found}, and {expected} is expected"
        );
    }
}
