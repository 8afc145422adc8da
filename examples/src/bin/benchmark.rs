//! Measures the first use of a kernel: cold, after `warm_all`, and in steady state.
//!
//! A kernel has only one first use in each context, so the benchmark creates many contexts. Other first uses also take time: the
//! first uses of GPU clocks, memory pool and pinned memory, and a context's first launch. The benchmark makes these other first
//! uses before each of the three measurements.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::time::{Duration, Instant};

use examples::{Ending, Loaded, Outcome, tell};
use kernel_registry::cudarc::driver::{CudaContext, CudaStream, DevicePtrMut};
use kernel_registry::{KernelInfo, PointerTo, warm_all};
use kernel_registry_resident::Mapped;
use kernels::blas1::{daxpy, ddot, dnrm2, dscal, saxpy, sdot, snrm2, sscal};
use kernels::waiting::touch;

const CONTEXTS: usize = 24;
const STEADY: usize = 200;
const N: u64 = 1024;

fn main() -> ExitCode {
    tell(|context| {
        // Only one context at a time exists on the device.
        drop(context);
        let mut times = [Vec::new(), Vec::new(), Vec::new()];
        for _ in 0..CONTEXTS {
            round(&mut times)?;
        }
        println!("{:<42} {:>6} {:>10} {:>10}", "LAUNCH AND WAIT", "TIMES", "MEDIAN", "P99");
        let names = ["cold: load_module, load_function, launch", "the first one after warm_all", "steady"];
        for (name, times) in names.iter().zip(&mut times) {
            times.sort();
            let [median, p99] = [50, 99].map(|percent| times[(times.len() - 1) * percent / 100]);
            println!("{name:<42} {:>6} {:>10} {:>10}", times.len(), describe(median), describe(p99));
        }
        Ok(Ending::Completed(format!("8 kernels, each in {CONTEXTS} contexts")))
    })
}

fn describe(time: Duration) -> String {
    format!("{:.1} us", time.as_secs_f64() * 1e6)
}

/// Measures all kernels in a new context: cold, first and steady.
fn round([cold, first, steady]: &mut [Vec<Duration>; 3]) -> Outcome {
    let context = kernel_registry::context(0)?;
    let stream = context.new_stream()?;
    let mut vectors = stream.alloc_zeros::<f64>(2 * N as usize)?;
    let kernels = kernels(vectors.device_ptr_mut(&stream).0);
    make_other_first_uses(&context, &stream)?;
    for (kernel, args) in &kernels {
        let begun = Instant::now();
        let loaded = Loaded::by_hand(&context, kernel)?;
        launch(&loaded, &stream, kernel, args)?;
        cold.push(begun.elapsed());
    }

    warm_all(&context)?;
    make_other_first_uses(&context, &stream)?;
    for launches in 0..=STEADY {
        let times = if launches == 0 { &mut *first } else { &mut *steady };
        for (kernel, args) in &kernels {
            let begun = Instant::now();
            launch(&Loaded::Warm(kernel), &stream, kernel, args)?;
            times.push(begun.elapsed());
        }
    }
    Ok(())
}

/// Returns the kernels with their arguments: `N`, a factor of 0, and one or two vectors of zeros.
fn kernels(x: u64) -> [(&'static KernelInfo, Vec<u64>); 8] {
    let y = x + 8 * N;
    [
        (saxpy::INFO, vec![N, 0, x, y]),
        (daxpy::INFO, vec![N, 0, x, y]),
        (sscal::INFO, vec![N, 0, x]),
        (dscal::INFO, vec![N, 0, x]),
        (sdot::INFO, vec![N, x, x, y]),
        (ddot::INFO, vec![N, x, x, y]),
        (snrm2::INFO, vec![N, x, y]),
        (dnrm2::INFO, vec![N, x, y]),
    ]
}

fn launch(loaded: &Loaded, stream: &Arc<CudaStream>, kernel: &KernelInfo, args: &[u64]) -> Outcome {
    // SAFETY: `args` are the kernel's parameters, and the vectors exist until everything is measured.
    unsafe { loaded.launch(stream, kernel.over(N as u32), args)? };
    Ok(stream.synchronize()?)
}

/// Keeps the GPU busy until its clocks have risen, and makes the other first uses.
fn make_other_first_uses(context: &Arc<CudaContext>, stream: &Arc<CudaStream>) -> Outcome {
    let touch = Loaded::by_hand(context, touch::INFO)?;
    let pinned = Mapped::<AtomicU32>::zeroed(context, 1)?;
    let args = [PointerTo::<u32>::address(&pinned)];
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_millis(30) {
        drop(stream.alloc_zeros::<u8>(1 << 20)?);
        launch(&touch, stream, touch::INFO, &args)?;
    }
    Ok(())
}
