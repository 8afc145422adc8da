//! Runs the kernels of the differential test on a GPU, and writes what they answer to the file that is named.

#[path = "../tests/differential/generate.rs"]
mod generate;

use std::error::Error;

use cudarc::driver::{CudaContext, LaunchConfig, PushKernelArg};
use cudarc::nvrtc::Ptx;
use generate::{KERNELS, THREADS, WORDS, case};

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1).ok_or("name the file to write: tests/differential/golden.bin")?;
    let context = CudaContext::new(0)?;
    let stream = context.default_stream();
    let mut golden = Vec::new();
    for seed in 0..KERNELS {
        let case = case(seed);
        let kernel = context
            .load_module(Ptx::from_src(case.text))
            .and_then(|module| module.load_function("k"))
            .map_err(|error| format!("kernel {seed}: {error}"))?;
        let input = stream.clone_htod(&case.input)?;
        let mut out = stream.alloc_zeros::<u32>(THREADS as usize * WORDS)?;
        let shape = LaunchConfig { grid_dim: (1, 1, 1), block_dim: (THREADS, 1, 1), shared_mem_bytes: 0 };
        let mut launch = stream.launch_builder(&kernel);
        launch.arg(&input).arg(&mut out);
        // SAFETY: the kernel reads and writes `WORDS` words a thread, which is what both buffers have, and ends.
        unsafe { launch.launch(shape) }?;
        golden.extend(stream.clone_dtoh(&out)?.into_iter().flat_map(u32::to_le_bytes));
    }
    std::fs::write(&path, golden)?;
    println!("{KERNELS} kernels recorded in {path}");
    Ok(())
}
