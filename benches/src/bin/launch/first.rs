//! Measures the first launch of every sample kernel after warming, and later launches. After each launch, the
//! benchmark waits for the kernel.

use std::ffi::c_void;
use std::sync::Arc;
use std::time::Instant;

use kernel_registry::cudarc::driver::{CudaStream, DevicePtrMut};
use kernel_registry::{KernelInfo, LaunchConfig, Pass, Prepared, warm_all};
use kernels::waiting::{set_flag, touch};

use benches::Result;
use benches::sample::Sample;

use crate::context::new_context;

/// The number of contexts. Every kernel has one first launch in each.
const CONTEXTS: usize = 60;

/// The number of later launches of each kernel in each context.
const LATER: usize = 5;

/// Measures. Returns microseconds: median and 99th percentile of first launches, then of later launches. The
/// last value is the number of first launches.
pub(crate) fn measure() -> Result<Vec<f64>> {
    let (mut first, mut later) = (Sample::default(), Sample::default());
    let mut count = 0;
    for round in 0..CONTEXTS {
        let context = new_context()?;
        let warm = warm_all(&context)?;
        let stream = context.new_stream()?;
        let mut memory = stream.alloc_zeros::<u8>(1 << 20)?;
        let address = memory.device_ptr_mut(&stream).0;
        // A stream's first launch takes longer, so an unmeasured starter makes it. Two kernels alternate as
        // the starter, so that each is measured in every other context.
        let starter = [touch::INFO, set_flag::INFO][round % 2];
        for _ in 0..20 {
            launch(starter, &stream, address)?;
        }
        let warmed = |kernel: &&&KernelInfo| {
            **kernel != starter && warm.report().kernels.iter().any(|report| report.path == kernel.path())
        };
        let kernels: Vec<_> = kernel_registry::kernels()?.iter().filter(warmed).copied().collect();
        count += kernels.len();
        for (turn, kernel) in (0..=LATER).flat_map(|turn| kernels.iter().map(move |kernel| (turn, kernel))) {
            let sample = if turn == 0 { &mut first } else { &mut later };
            let begun = Instant::now();
            launch(kernel, &stream, address)?;
            sample.push(begun.elapsed());
        }
    }
    let both = |sample: &Sample| [sample.median() * 1e6, sample.quantile(0.99) * 1e6];
    Ok([&both(&first)[..], &both(&later)[..], &[count as f64]].concat())
}

/// Launches a kernel with nothing to do: all numbers (elements, time limits) are 0, and all pointers lead to
/// zeros.
fn launch(kernel: &'static KernelInfo, stream: &Arc<CudaStream>, address: u64) -> Result<()> {
    // Room for the largest struct parameter.
    type Slot = [u64; 8];
    let is_value = |pass| matches!(pass, Pass::Value);
    let slots = kernel.params().iter().map(|param| [if is_value(param.pass) { 0 } else { address }; 8]);
    let mut slots: Vec<Slot> = slots.collect();
    let mut args: Vec<*mut c_void> = slots.iter_mut().map(|slot| slot.as_mut_ptr().cast()).collect();
    // Two blocks, because one kernel needs pairs.
    let config = LaunchConfig::new([2, 1, 1], kernel.block().unwrap_or([32, 1, 1]))
        .shared(kernel.shared().unwrap_or(0));
    let prepared = Prepared::untyped(kernel, stream.context(), config)?;
    // SAFETY: there is an argument for each parameter, at least as large. With these arguments the sample
    // kernels access only the first few bytes at an address, and no kernel waits.
    unsafe { prepared.launch(stream, &mut args)? };
    Ok(stream.synchronize()?)
}
