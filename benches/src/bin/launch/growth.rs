//! Measures whether repeated warming leaks memory, in fresh contexts and in one that stays.

use std::fs;
use std::sync::Arc;

use kernel_registry::cudarc::driver::CudaContext;
use kernel_registry::warm_all;

use benches::Result;

use crate::context::new_context;

/// How many fresh contexts are warmed, then destroyed.
pub(crate) const CONTEXTS: usize = 300;

/// How often the same context is warmed.
pub(crate) const REPETITIONS: usize = 100_000;

/// Measures. Returns the lost KiB of host and device memory after the fresh contexts, then after the
/// repetitions.
pub(crate) fn measure() -> Result<Vec<f64>> {
    let context = kernel_registry::context(0)?;
    let _warm = warm_all(&context)?;
    let fresh = growth(&context, CONTEXTS, new_context)?;
    let repeated = growth(&context, REPETITIONS, || Ok(context.clone()))?;
    Ok([fresh, repeated].concat())
}

fn growth(
    observer: &CudaContext,
    times: usize,
    context: impl Fn() -> Result<Arc<CudaContext>>,
) -> Result<[f64; 2]> {
    let memory = || -> Result<[f64; 2]> { Ok([host()?, -(observer.mem_get_info()?.0 as f64 / 1024.0)]) };
    // The first warm-ups fill the driver's and the allocator's pools.
    for _ in 0..times / 10 {
        drop(warm_all(&context()?)?);
    }
    let before = memory()?;
    for _ in 0..times {
        drop(warm_all(&context()?)?);
    }
    let after = memory()?;
    Ok([after[0] - before[0], after[1] - before[1]])
}

/// Returns the process's resident memory in KiB.
fn host() -> Result<f64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or("there is no VmRSS")?;
    Ok(line.trim().trim_end_matches("kB").trim().parse()?)
}
