//! Measures the processor time of one launch, made in several ways.

use std::ffi::c_void;
use std::hint::black_box;
use std::ptr;
use std::time::{Duration, Instant};

use kernel_registry::cudarc::driver::{CudaStream, DevicePtrMut, LaunchConfig, PushKernelArg, sys};
use kernel_registry::cudarc::nvrtc::Ptx;
use kernel_registry::{DeviceAddress, Prepared, warm_all};
use kernels::blas1::saxpy;
use kernels::waiting::touch;

use benches::Result;
use benches::sample::Sample;

/// The ways to launch, in the order of `measure`'s results.
pub(crate) const WAYS: [&str; 7] = [
    "one pointer: bare `cuLaunchKernelEx`",
    "one pointer: `Prepared::launch`",
    "one pointer: `touch::launch`",
    "one pointer: cudarc's builder",
    "two slices: `saxpy::launch`",
    "two slices: `saxpy::launch`, prepared",
    "two slices: cudarc's builder",
];

/// Measurements of each way.
const ROUNDS: usize = 400;
/// Launches in a measurement.
const LAUNCHES: u32 = 100;

/// Measures. Returns nanoseconds per launch in each way, then the allocations in a hundred launches of each
/// of kernel-registry's ways. `allocations` returns the number of allocations so far.
pub(crate) fn measure(allocations: fn() -> usize) -> Result<Vec<f64>> {
    let context = kernel_registry::context(0)?;
    let _warm = warm_all(&context)?;
    let stream = context.new_stream()?;
    let n = 0;
    let vector = || stream.alloc_zeros::<f32>(1);
    let (x, mut y, mut z, mut w) = (vector()?, vector()?, vector()?, vector()?);
    let mut count = stream.alloc_zeros::<u32>(1)?;
    let address = count.device_ptr_mut(&stream).0;
    let mut args = [(&raw const address).cast_mut().cast::<c_void>()];
    let mut raw_args = args;

    let function = touch::INFO.cu_function(&context)?;
    let (config, prepared) = (touch::over(1), Prepared::<saxpy>::new(&context, saxpy::over(1))?);
    let untyped = Prepared::untyped(touch::INFO, &context, touch::INFO.over(1))?;
    let theirs = LaunchConfig { grid_dim: (1, 1, 1), block_dim: (1, 1, 1), shared_mem_bytes: 0 };
    let load = |kernel: &'static kernel_registry::KernelInfo| -> Result<_> {
        let image = kernel.image().ok_or("the sample kernels have no images")?.bytes();
        // The driver needs a zero byte at the end of PTX.
        Ok(context.load_module(Ptx::from_binary([image, &[0]].concat()))?.load_function(kernel.symbol())?)
    };
    let (their_touch, their_saxpy) = (load(touch::INFO)?, load(saxpy::INFO)?);

    // `touch` writes to memory that outlives the launch, and `saxpy` gets 0 elements.
    let mut ways: [&mut dyn FnMut() -> bool; 7] = [
        &mut || bare(&stream, function, &mut args),
        // SAFETY: as above.
        &mut || unsafe { untyped.launch(&stream, &mut raw_args) }.is_ok(),
        // SAFETY: as above.
        &mut || unsafe { touch::launch(&stream, config, DeviceAddress(address)) }.is_ok(),
        // SAFETY: as above.
        &mut || unsafe { stream.launch_builder(&their_touch).arg(&address).launch(theirs) }.is_ok(),
        // SAFETY: as above.
        &mut || unsafe { saxpy::launch(&stream, saxpy::over(1), n, 2.0, &x, &mut y) }.is_ok(),
        // SAFETY: as above.
        &mut || unsafe { saxpy::launch(&stream, &prepared, n, 2.0, &x, &mut z) }.is_ok(),
        &mut || {
            let mut builder = stream.launch_builder(&their_saxpy);
            // SAFETY: as above.
            unsafe { builder.arg(&n).arg(&2.0_f32).arg(&x).arg(&mut w).launch(theirs) }.is_ok()
        },
    ];

    let mut samples = [const { Vec::<Duration>::new() }; 7];
    for _ in 0..ROUNDS {
        for (way, samples) in ways.iter_mut().zip(&mut samples) {
            let begun = Instant::now();
            let done = (0..LAUNCHES).all(|_| black_box(way()));
            samples.push(begun.elapsed());
            stream.synchronize()?;
            if !done {
                return Err("a launch was refused".into());
            }
        }
    }
    let mut results: Vec<f64> = samples.map(|times| nanoseconds(&times)).into();
    for way in [1, 2, 4, 5] {
        let before = allocations();
        for _ in 0..100 {
            black_box(ways[way]());
        }
        results.push((allocations() - before) as f64);
        stream.synchronize()?;
    }
    Ok(results)
}

fn nanoseconds(times: &[Duration]) -> f64 {
    let mut sample = Sample::default();
    times.iter().for_each(|time| sample.push(*time));
    sample.median() * 1e9 / f64::from(LAUNCHES)
}

/// Launches one thread with the driver's function.
fn bare(stream: &CudaStream, function: sys::CUfunction, args: &mut [*mut c_void; 1]) -> bool {
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
    // SAFETY: `touch` takes one pointer, and the memory outlives the stream's work.
    let launched = unsafe { sys::cuLaunchKernelEx(&launch, function, args.as_mut_ptr(), ptr::null_mut()) };
    launched == sys::CUresult::CUDA_SUCCESS
}
