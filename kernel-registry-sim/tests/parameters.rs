//! Tests launching kernels whose parameters are optional slices, vectors and other types of CUDA.

use std::error::Error;
use std::sync::Arc;

use kernel_registry::cudarc::driver::{CudaContext, CudaSlice, CudaStream};
use kernel_registry::types::{E4m3, Float3, Float4, TensorMap, Uint4};
use kernel_registry::{DynArg, LaunchConfig, LaunchError, Nullable, gpu_kernel, launch_dyn};

#[gpu_kernel(image = "tests/images/parameters.ptx", block = 1)]
unsafe fn add(bias: Option<&[f32]>, y: &mut [f32], before: Option<&mut [f32]>);

#[gpu_kernel(image = "tests/images/parameters.ptx", block = 1)]
unsafe fn take(v: Float4, e: E4m3, map: TensorMap, out: &mut [Float3], bits: &mut [Uint4]);

/// Returns a context of the simulated driver in which all kernels are warm.
fn context() -> Result<Arc<CudaContext>, Box<dyn Error>> {
    kernel_registry_sim::install()?;
    let context = kernel_registry::context(0)?;
    kernel_registry::warm_all(&context)?;
    Ok(context)
}

fn first(stream: &Arc<CudaStream>, slice: &CudaSlice<f32>) -> Result<f32, Box<dyn Error>> {
    Ok(stream.clone_dtoh(slice)?[0])
}

#[test]
fn slices_may_be_missing() -> Result<(), Box<dyn Error>> {
    let stream = context()?.new_stream()?;
    let bias = stream.clone_htod(&[10.0_f32, 100.0])?;
    let (mut y, mut before) = (stream.clone_htod(&[0.0_f32])?, stream.clone_htod(&[0.0_f32])?);
    let one = || add::over(1);

    // SAFETY: each slice has an element.
    unsafe {
        add::launch(&stream, one(), None, &mut y, None)?;
        assert_eq!(first(&stream, &y)?, 1.0);
        add::launch(&stream, one(), Some(&bias), &mut y, Some(&mut before))?;
        assert_eq!((first(&stream, &y)?, first(&stream, &before)?), (11.0, 1.0));
        add::launch(&stream, one(), &bias, &mut y, &mut before)?;
        assert_eq!((first(&stream, &y)?, first(&stream, &before)?), (21.0, 11.0));
        add::launch(&stream, one(), &bias.slice(1..), &mut y, &mut before.slice_mut(..))?;
        assert_eq!((first(&stream, &y)?, first(&stream, &before)?), (121.0, 21.0));

        let (mut kept, none) = (Some(before), None::<CudaSlice<f32>>);
        add::launch(&stream, one(), none.as_ref(), &mut y, kept.as_mut())?;
        let view = Some(bias.slice(1..));
        let mut view_mut = kept.as_mut().map(|slice| slice.slice_mut(..));
        add::launch(&stream, one(), Nullable(view.as_ref()), &mut y, Nullable(view_mut.as_mut()))?;
        let before = kept.ok_or("it is there")?;
        assert_eq!((first(&stream, &y)?, first(&stream, &before)?), (222.0, 122.0));
    }
    Ok(())
}

#[test]
fn cudarc_tracks_a_slice_that_is_there() -> Result<(), Box<dyn Error>> {
    let context = context()?;
    let (stream, other) = (context.new_stream()?, context.new_stream()?);
    let mut before = stream.clone_htod(&[0.0_f32])?;
    let mut y = stream.clone_htod(&[5.0_f32])?;
    // SAFETY: each slice has an element.
    unsafe { add::launch(&stream, add::over(1), None, &mut y, Some(&mut before))? };
    // The copy in another stream waits for the kernel, because cudarc recorded that it writes.
    assert_eq!(first(&other, &before)?, 5.0);
    Ok(())
}

#[test]
fn a_launch_at_run_time_passes_null_for_a_missing_slice() -> Result<(), Box<dyn Error>> {
    let stream = context()?.new_stream()?;
    let (bias, mut y) = (stream.clone_htod(&[10.0_f32])?, stream.clone_htod(&[0.0_f32])?);
    let nullable: Vec<_> = add::INFO.params().iter().map(|param| param.nullable).collect();
    assert_eq!(nullable, [true, false, true]);
    assert_eq!(
        add::INFO.signature().to_string(),
        "add(bias: Option<&[f32]>, y: &mut [f32], before: Option<&mut [f32]>)"
    );

    let config = LaunchConfig::over(1, [1, 1, 1]);
    let args = [DynArg::null(), DynArg::slice_mut(&mut y), DynArg::null()];
    // SAFETY: each slice has an element.
    unsafe { launch_dyn(add::INFO, &stream, config, args)? };
    let args = [DynArg::slice(&bias), DynArg::slice_mut(&mut y), DynArg::null()];
    // SAFETY: each slice has an element.
    unsafe { launch_dyn(add::INFO, &stream, config, args)? };
    assert_eq!(first(&stream, &y)?, 11.0);

    let args = [DynArg::null(), DynArg::null(), DynArg::null()];
    // SAFETY: the launch is refused.
    let refused = unsafe { launch_dyn(add::INFO, &stream, config, args) };
    assert!(matches!(&refused, Err(LaunchError::Argument { index: 1, .. })), "{refused:?}");
    Ok(())
}

#[test]
fn types_of_cuda_are_passed_to_kernels() -> Result<(), Box<dyn Error>> {
    let stream = context()?.new_stream()?;
    let mut out = stream.alloc_zeros::<Float3>(1)?;
    let mut bits = stream.clone_htod(&[Uint4::from([9; 4])])?;
    let v = Float4::new(1.0, 2.0, 3.0, 4.0);
    let map = TensorMap::from(std::array::from_fn(|word| word as u64));
    // SAFETY: the slices have an element.
    unsafe { take::launch(&stream, take::over(1), v, E4m3(0x7e), map, &mut out, &mut bits)? };
    assert_eq!(stream.clone_dtoh(&out)?, [Float3::new(4.0, 1.0, 2.0)]);
    assert_eq!(stream.clone_dtoh(&bits)?, [Uint4::new(0x7e, 15, 0, 0)]);
    Ok(())
}
