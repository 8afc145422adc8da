//! Tests kernels whose body is Rust, which take the lengths of their slices. They are launched with slices of different
//! lengths.

use std::error::Error;
use std::sync::Arc;

use kernel_registry::cudarc::driver::CudaStream;
use kernel_registry::{DynArg, Kernel, Nullable, SliceLength, gpu_kernel, launch_dyn};

/// A kernel that rustc compiled, which passes a slice as one parameter.
#[gpu_kernel(image = "tests/images/rust_kernels.ptx", block = 32)]
unsafe fn scale(a: f32, x: &[f32], y: &mut [f32]);

/// A kernel in the way of cuda-oxide, which passes a slice as two parameters.
#[gpu_kernel(image = "tests/images/rust_kernels.ptx", block = 32)]
unsafe fn scale_in_parts(a: f32, x: &[f32], y: &mut [f32]);

/// The kernel `scale`, declared with slices that may be missing.
#[gpu_kernel(image = "tests/images/rust_kernels.ptx", name = "scale", block = 32)]
unsafe fn scale_if_any(a: f32, x: Option<&[f32]>, y: Option<&mut [f32]>);

/// The kernel `scale_in_parts`, declared with its single parameters as they are in the image.
#[gpu_kernel(image = "tests/images/rust_kernels.ptx", name = "scale_in_parts", block = 32)]
unsafe fn scale_by_hand(a: f32, x: *const f32, x_len: u64, y: *mut f32, y_len: u64);

/// Returns a stream of the simulated driver, in a context in which all kernels are warm.
fn stream() -> Result<Arc<CudaStream>, Box<dyn Error>> {
    kernel_registry_sim::install()?;
    let context = kernel_registry::context(0)?;
    kernel_registry::warm_all(&context)?;
    Ok(context.new_stream()?)
}

/// Launches a kernel over 64 threads that doubles `x_len` ones into `y_len` zeros. Returns the numbers of twos and of
/// zeros in `y`.
macro_rules! launched {
    ($kernel:ident, $stream:expr, $x_len:expr, $y_len:expr, |$x:ident, $y:ident| $args:expr) => {{
        let $x = $stream.clone_htod(&vec![1.0_f32; $x_len])?;
        let mut $y = $stream.clone_htod(&vec![0.0_f32; $y_len])?;
        let (x, y) = $args;
        // SAFETY: the kernel accesses only as many elements as the lengths that it gets.
        unsafe { $kernel::launch(&$stream, $kernel::over(64), 2.0, x, y)? };
        counted(&$stream.clone_dtoh(&$y)?)
    }};
}

fn counted(y: &[f32]) -> [usize; 2] {
    [2.0, 0.0].map(|value| y.iter().filter(|y| **y == value).count())
}

#[test]
fn the_kernel_sees_the_length_of_each_slice() -> Result<(), Box<dyn Error>> {
    let stream = stream()?;
    for (x_len, y_len, twos) in [(50, 64, 50), (64, 41, 41), (1, 7, 1)] {
        let expected = [twos, y_len - twos];
        assert_eq!(launched!(scale, stream, x_len, y_len, |x, y| (&x, &mut y)), expected);
        assert_eq!(launched!(scale_in_parts, stream, x_len, y_len, |x, y| (&x, &mut y)), expected);
        assert_eq!(launched!(scale_if_any, stream, x_len, y_len, |x, y| (Some(&x), Some(&mut y))), expected);
    }
    // A view has its own length.
    let halves = |kernel: [usize; 2]| assert_eq!(kernel, [20, 44]);
    halves(launched!(scale, stream, 64, 64, |x, y| (&x.slice(..20), &mut y)));
    halves(launched!(scale_in_parts, stream, 64, 64, |x, y| (&x, &mut y.slice_mut(44..))));
    halves(launched!(scale_if_any, stream, 64, 64, |x, y| (Nullable(Some(&x.slice(9..29))), &mut y)));
    // A missing slice has no elements.
    assert_eq!(
        launched!(scale_if_any, stream, 64, 64, |x, y| {
            drop(x);
            (None, &mut y)
        }),
        [0, 64]
    );
    Ok(())
}

#[test]
fn a_launch_at_run_time_passes_lengths_too() -> Result<(), Box<dyn Error>> {
    let stream = stream()?;
    for kernel in [scale::INFO, scale_in_parts::INFO] {
        let x = stream.clone_htod(&[1.0_f32; 20])?;
        let mut y = stream.clone_htod(&[0.0_f32; 64])?;
        let args = [DynArg::value(&2.0_f32), DynArg::slice(&x), DynArg::slice_mut(&mut y)];
        // SAFETY: the kernel accesses only as many elements as the lengths that it gets.
        unsafe { launch_dyn(kernel, &stream, kernel.over(64), args)? };
        assert_eq!(counted(&stream.clone_dtoh(&y)?), [20, 44], "{}", kernel.path());
    }
    Ok(())
}

#[test]
fn the_record_tells_where_the_length_is() {
    let lengths = |kernel: &'static kernel_registry::KernelInfo| {
        kernel.params().iter().map(|param| (param.length, param.size)).collect::<Vec<_>>()
    };
    let slice = |length, size| [(None, 4), (Some(length), size), (Some(length), size)];
    assert_eq!(lengths(scale::INFO), slice(SliceLength::Within, 16));
    assert_eq!(lengths(scale_in_parts::INFO), slice(SliceLength::Next, 8));
    assert!(lengths(<scale_by_hand as Kernel>::INFO).iter().all(|(length, _)| length.is_none()));
}
