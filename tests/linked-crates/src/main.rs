//! Runs kernels of two crates that know nothing of kernel-registry, and counts what was loaded after the program was ready: nothing, if
//! their kernels were warmed. With `--cold` they are not. Exits with 3 if something was late.

use std::error::Error;
use std::ffi::c_void;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use kernel_registry::cudarc::driver::{CudaStream, DevicePtr, DevicePtrMut};
use pasta_curves::group::Group;
use pasta_curves::group::ff::Field;
use pasta_curves::pallas;

type Result<T = ()> = std::result::Result<T, Box<dyn Error>>;

fn main() -> Result<ExitCode> {
    kernel_registry_audit::install()?;
    let context = kernel_registry::context(0)?;
    let stream = context.new_stream()?;
    let listed = kernel_registry::kernels()?.len();
    if std::env::args().any(|argument| argument == "--cold") {
        println!("{listed} kernels are linked, and cold");
    } else {
        let begun = Instant::now();
        let warm = kernel_registry::warm_all(&context)?;
        let report = warm.report().to_string();
        println!("{listed} kernels are linked, {} are warm: {:.1?}", warm.report().kernels.len(), begun.elapsed());
        for line in report.lines().filter(|line| line.contains("STACK") || line.contains("verified") || line.contains(" ms:")) {
            println!("{line}");
        }
    }
    kernel_registry_audit::ready()?;
    for (name, work) in [("candle-kernels", experts as fn(&Arc<CudaStream>) -> Result), ("pasta-msm", multiples)] {
        let begun = Instant::now();
        work(&stream)?;
        let first = begun.elapsed();
        let begun = Instant::now();
        work(&stream)?;
        println!("{name}: the first call took {first:.1?}, the second {:.1?}; both are right", begun.elapsed());
    }
    let late = kernel_registry_audit::findings()?;
    for event in &late {
        println!("late: {} {} ({})", event.call, event.subject, event.library);
    }
    println!("{} calls were late", late.len());
    Ok(if late.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(3) })
}

/// One expert of candle's mixture of experts: a row of ones, times a matrix of ones that is quantised.
fn experts(stream: &Arc<CudaStream>) -> Result {
    const K: usize = 256;
    const N: usize = 8;
    // A block: a scale of 16 bits, 1.0, and 32 values.
    let block = [&[0x00_u8, 0x3c][..], &[1; 32]].concat();
    let weights = stream.clone_htod(&block.repeat(N * K / 32))?;
    let (input, mut output) = (stream.clone_htod(&[1.0_f32; K])?, stream.alloc_zeros::<f32>(N)?);
    let zero = stream.clone_htod(&[0_i32])?;
    let (at_weights, at_input, at_zero) =
        (weights.device_ptr(stream).0, input.device_ptr(stream).0, zero.device_ptr(stream).0);
    let at_output = output.device_ptr_mut(stream).0;
    // SAFETY: the sizes are those of the memory.
    unsafe {
        candle_kernels::ffi::moe_gemm_gguf(
            at_input as *const f32,
            at_weights as *const c_void,
            at_zero as *const i32,
            at_zero as *const i32,
            std::ptr::null(),
            at_output as *mut c_void,
            1,
            1,
            1,
            N as i32,
            K as i32,
            0,
            stream.cu_stream() as i64,
        );
    }
    let output = stream.clone_dtoh(&output)?;
    match output.iter().find(|value| (**value - K as f32).abs() > 1.0) {
        Some(value) => Err(format!("{value} is not {K}").into()),
        None => Ok(()),
    }
}

/// The generator of a curve times 1, 2, 3, .., added up.
fn multiples(_: &Arc<CudaStream>) -> Result {
    const COUNT: u64 = 1 << 16;
    let generator = pallas::Affine::from(pallas::Point::generator());
    let points = vec![generator; COUNT as usize];
    let scalars: Vec<_> = (1..=COUNT).map(pallas::Scalar::from).collect();
    let sum = scalars.iter().fold(pallas::Scalar::ZERO, |sum, scalar| sum + scalar);
    let expected = pallas::Point::generator() * sum;
    if pasta_msm::pallas(&points, &scalars) == expected { Ok(()) } else { Err("the sum is wrong".into()) }
}
