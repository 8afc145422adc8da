//! Runs kernels of three crates that know nothing of kernel-registry, beside a resident kernel where their calls allow that. Counts what
//! is loaded after the program is ready. If the kernels are warmed, nothing is; with `--cold` they are not warmed. Exits with 3 if
//! something was loaded late or waited.

use std::error::Error;
use std::ffi::{CStr, c_char, c_void};
use std::process::ExitCode;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use kernel_registry::cudarc::driver::{CudaSlice, CudaStream, DevicePtr, DevicePtrMut};
use kernel_registry_resident::{Control, Mapped, Presence};
use kernel_registry::{LaunchConfig, Warmup};
use kernels::waiting::spin_until_flag;
use pasta_curves::group::Group;
use pasta_curves::group::ff::Field;
use pasta_curves::pallas;
use risc0_sys as _;

type Result<T = ()> = std::result::Result<T, Box<dyn Error>>;

/// The time after which the resident kernel ends by itself.
const LIMIT: Duration = Duration::from_secs(2);

fn main() -> Result<ExitCode> {
    kernel_audit::install()?;
    let context = kernel_registry::context(0)?;
    let stream = context.new_stream()?;
    let is_cold = std::env::args().any(|argument| argument == "--cold");
    let linked = kernel_registry::kernels()?.iter().filter(|kernel| kernel.is_linked()).count();
    let begun = Instant::now();
    let warm = Warmup::new().only(move |kernel| !is_cold || !kernel.is_linked()).warm(&context)?;
    let words = if is_cold { "cold" } else { "warm" };
    println!("{linked} linked kernels are {words}: {:.1?}", begun.elapsed());
    for line in warm.report().to_string().lines().filter(|line| line.contains("STACK") || line.contains("verified")) {
        println!("{line}");
    }
    // This fills the memory pool, from which the tried functions allocate.
    drop(stream.alloc_zeros::<u8>(1 << 20)?);
    stream.synchronize()?;
    let beside: [(&str, Box<dyn Fn() -> Result>); 2] =
        [("candle-kernels", experts(&stream)?), ("risc0-sys", elements(&stream)?)];

    kernel_audit::ready()?;
    let mut waited = false;
    for (name, work) in &beside {
        let (control, flag) = (Control::new(&context, 1)?, Mapped::<AtomicU32>::zeroed(&context, 1)?);
        control.limit(LIMIT);
        let stays = context.new_stream()?;
        // SAFETY: the kernel ends before the memory of its arguments is freed, because freeing waits for the kernel.
        unsafe { spin_until_flag::launch(&stays, LaunchConfig::new([1, 1, 1], [1, 1, 1]), &flag, &control)? };
        control.wait_for_blocks(LIMIT)?;
        let begun = Instant::now();
        work()?;
        let stayed = control.presence() == Presence::There;
        control.stop();
        stays.synchronize()?;
        println!("{name}: right after {:.1?}, beside a resident kernel{}", begun.elapsed(), if stayed { "" } else { " that gave up: it waited" });
        waited |= !stayed;
    }
    let begun = Instant::now();
    multiples()?;
    println!("pasta-msm: right after {:.1?}", begun.elapsed());

    let late = kernel_audit::findings()?;
    for event in &late {
        println!("late: {} {} ({})", event.call, event.subject, event.library);
    }
    println!("{} calls were late", late.len());
    Ok(if late.is_empty() && !waited { ExitCode::SUCCESS } else { ExitCode::from(3) })
}

/// Returns a function that runs one expert of candle's mixture of experts: a row of ones times a quantised matrix of ones.
fn experts(stream: &Arc<CudaStream>) -> Result<Box<dyn Fn() -> Result>> {
    const K: usize = 256;
    const N: usize = 8;
    // A block of a quantised matrix has a scale of 16 bits, here 1.0, and 32 values.
    let block = [&[0x00_u8, 0x3c][..], &[1; 32]].concat();
    let weights = stream.clone_htod(&block.repeat(N * K / 32))?;
    let (input, zero) = (stream.clone_htod(&[1.0_f32; K])?, stream.clone_htod(&[0_i32])?);
    let output = Mapped::<AtomicU32>::zeroed(stream.context(), N)?;
    let stream = stream.clone();
    Ok(Box::new(move || {
        let at_zero = zero.device_ptr(&stream).0 as *const i32;
        // SAFETY: the sizes match the allocated memory.
        unsafe {
            candle_kernels::ffi::moe_gemm_gguf(
                input.device_ptr(&stream).0 as *const f32,
                weights.device_ptr(&stream).0 as *const c_void,
                at_zero,
                at_zero,
                ptr::null(),
                output.as_ptr() as *mut c_void,
                1,
                1,
                1,
                N as i32,
                K as i32,
                0,
                stream.cu_stream() as i64,
            );
        }
        stream.synchronize()?;
        let values = output.iter().map(|value| f32::from_bits(value.load(Ordering::Relaxed)));
        match values.into_iter().find(|value| (value - K as f32).abs() > 1.0) {
            Some(value) => Err(format!("{value} is not {K}").into()),
            None => Ok(()),
        }
    }))
}

unsafe extern "C" {
    // risc0-sys exports these functions, and its users have to declare them.
    fn risc0_zkp_cuda_eltwise_add_fp(out: *mut u32, x: *const u32, y: *const u32, count: u32) -> *const c_char;
    fn risc0_zkp_cuda_eltwise_copy_fp(out: *mut u32, from: *const u32, count: u32) -> *const c_char;
}

/// Returns a function that adds elements of the prover's field, and copies the sums.
fn elements(stream: &Arc<CudaStream>) -> Result<Box<dyn Fn() -> Result>> {
    const COUNT: u32 = 1000;
    const MODULUS: u32 = 15 * (1 << 27) + 1;
    let (x, y) = (stream.clone_htod(&[MODULUS - 5; COUNT as usize])?, stream.clone_htod(&[7_u32; COUNT as usize])?);
    let mut sums = stream.alloc_zeros::<u32>(COUNT as usize)?;
    let copy = Mapped::<AtomicU32>::zeroed(stream.context(), COUNT as usize)?;
    let address = |slice: &CudaSlice<u32>| slice.device_ptr(stream).0 as *const u32;
    let (from, other, to) = (address(&x), address(&y), sums.device_ptr_mut(stream).0 as *mut u32);
    stream.synchronize()?;
    Ok(Box::new(move || {
        let _alive = (&x, &y, &sums);
        // SAFETY: the sizes match the allocated memory. Each call waits for its own stream.
        let failures = unsafe {
            [
                risc0_zkp_cuda_eltwise_add_fp(to, from, other, COUNT),
                risc0_zkp_cuda_eltwise_copy_fp(copy.as_ptr() as *mut u32, to, COUNT),
            ]
        };
        if let Some(failure) = failures.into_iter().find(|failure| !failure.is_null()) {
            // SAFETY: `failure` is a message that ends with a zero byte.
            return Err(unsafe { CStr::from_ptr(failure) }.to_string_lossy().into());
        }
        let is_two = |value: &AtomicU32| value.load(Ordering::Relaxed) == 2;
        if copy.iter().all(is_two) { Ok(()) } else { Err("a sum is wrong".into()) }
    }))
}

/// Adds up the multiples 1, 2, 3, .. of a curve's generator.
fn multiples() -> Result {
    const COUNT: u64 = 1 << 16;
    let generator = pallas::Affine::from(pallas::Point::generator());
    let points = vec![generator; COUNT as usize];
    let scalars: Vec<_> = (1..=COUNT).map(pallas::Scalar::from).collect();
    let sum = scalars.iter().fold(pallas::Scalar::ZERO, |sum, scalar| sum + scalar);
    let expected = pallas::Point::generator() * sum;
    if pasta_msm::pallas(&points, &scalars) == expected { Ok(()) } else { Err("the sum is wrong".into()) }
}
