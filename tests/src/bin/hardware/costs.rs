//! Measures the time of a launch, and how much memory contexts and warm-ups leave allocated.

use std::error::Error;
use std::ffi::c_void;
use std::hint::black_box;
use std::ptr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use kernel_registry::cudarc::driver::{CudaContext, CudaStream, DevicePtrMut, PushKernelArg, sys};
use kernel_registry::cudarc::nvrtc::Ptx;
use kernel_registry::{Prepared, Warm, warm_all};
use kernels::waiting::touch;

use crate::checked::Checked;
use crate::checks::{ensure, other_context};
use crate::counting::allocations;

/// Measures the nanoseconds per launch, with few launches in a row, so that the stream's queue never fills.
fn nanoseconds(stream: &CudaStream, mut launch: impl FnMut()) -> Result<f64, Box<dyn Error>> {
    let mut times = Vec::new();
    for _ in 0..200 {
        let begun = Instant::now();
        (0..100).for_each(|_| launch());
        times.push(begun.elapsed().as_nanos() as f64 / 100.0);
        stream.synchronize()?;
    }
    times.sort_by(f64::total_cmp);
    Ok(times[times.len() / 2])
}

pub(crate) fn cost(warm: &Warm, _: Duration) -> Checked {
    let stream = warm.context().new_stream()?;
    let mut count = stream.alloc_zeros::<u32>(1)?;
    let mut address = count.device_ptr_mut(&stream).0;
    let prepared = Prepared::untyped(touch::INFO, warm.context(), touch::INFO.over(1))?;
    let ours = |args: &mut [*mut c_void; 1]| {
        // SAFETY: the kernel takes one pointer, and the memory outlives the stream's work.
        black_box(unsafe { prepared.launch(&stream, args) }).is_ok()
    };
    let function = touch::INFO.cu_function(warm.context())?;
    let bare = |args: &mut [*mut c_void; 1]| {
        let launch = sys::CUlaunchConfig {
            gridDimX: 1,
            gridDimY: 1,
            gridDimZ: 1,
            blockDimX: 1,
            blockDimY: 1,
            blockDimZ: 1,
            sharedMemBytes: 0,
            hStream: stream.cu_stream(),
            attrs: ptr::null_mut(),
            numAttrs: 0,
        };
        // SAFETY: as above.
        black_box(unsafe { sys::cuLaunchKernelEx(&launch, function, args.as_mut_ptr(), ptr::null_mut()) });
    };
    let image = touch::INFO.image().ok_or("no image")?.bytes();
    // cudarc treats text and bytes differently.
    let image = match std::str::from_utf8(image) {
        Ok(text) => Ptx::from_src(text),
        Err(_) => Ptx::from_binary(image.to_vec()),
    };
    let module = warm.context().load_module(image)?;
    let cudarcs = module.load_function(touch::INFO.symbol())?;
    let theirs = |address: &u64| {
        let config = kernel_registry::cudarc::driver::LaunchConfig {
            grid_dim: (1, 1, 1),
            block_dim: (1, 1, 1),
            shared_mem_bytes: 0,
        };
        // SAFETY: as above.
        black_box(unsafe { stream.launch_builder(&cudarcs).arg(address).launch(config) }).is_ok()
    };

    let mut args = [(&raw mut address).cast()];
    let before = allocations();
    let all = (0..100).all(|_| ours(&mut args));
    let allocated = allocations() - before;
    // The simulated driver is part of this process, and allocates for each launch.
    ensure(
        all && (allocated == 0 || crate::checked::is_simulated()),
        format!("100 launches took memory {allocated} times"),
    )?;
    stream.synchronize()?;

    let mut rounds = Vec::new();
    for _ in 0..3 {
        let bare = nanoseconds(&stream, || bare(&mut args))?;
        let ours = nanoseconds(&stream, || assert!(ours(&mut args)))?;
        let theirs = nanoseconds(&stream, || assert!(theirs(&address)))?;
        rounds.push(format!("{bare:.0}/{ours:.0}/{theirs:.0}"));
    }
    Ok(format!("ns bare/ours/cudarc's builder: {}", rounds.join(", ")))
}

/// Returns the process's resident memory in kilobytes.
fn resident_memory() -> Result<i64, Box<dyn Error>> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or("no VmRSS")?;
    Ok(line.trim().trim_end_matches(" kB").parse()?)
}

/// Measures how much host and device memory grow in `times` warm-ups of contexts that `context` returns.
fn growth(
    warm: &Warm,
    times: u32,
    context: impl Fn() -> Result<Arc<CudaContext>, Box<dyn Error>>,
) -> Result<[i64; 2], Box<dyn Error>> {
    let memory = || -> Result<[i64; 2], Box<dyn Error>> {
        Ok([resident_memory()?, warm.context().mem_get_info()?.0 as i64 >> 10])
    };
    // The first warm-ups may fill the driver's pools.
    for _ in 0..times / 4 {
        drop(warm_all(&context()?)?);
    }
    let [host, free] = memory()?;
    for _ in 0..times {
        drop(warm_all(&context()?)?);
    }
    let [host_after, free_after] = memory()?;
    Ok([host_after - host, free - free_after])
}

pub(crate) fn come_and_go(warm: &Warm, _: Duration) -> Checked {
    let [host, device] = growth(warm, 40, other_context)?;
    let [host_again, device_again] = growth(warm, 4000, || Ok(warm.context().clone()))?;
    let words = format!(
        "KiB of host and device: {host} and {device} for 40 contexts, \
         {host_again} and {device_again} for 4000 repetitions"
    );
    ensure([device, device_again].iter().all(|grown| *grown < 2048), words.clone())?;
    ensure([host, host_again].iter().all(|grown| *grown < 4096), words.clone())?;
    Ok(words)
}
