//! Shows what `CUDA_MODULE_LOADING=EAGER` does not prevent: some first launches wait for the whole device although their kernels are
//! loaded.
//!
//! Each first launch is tried in two separate processes with that variable, while a resident kernel runs: in one the kernels are loaded
//! by cudarc, in the other they are warmed by this library. With `--cold` the exit code says whether a kernel loaded by cudarc waited,
//! otherwise whether a warmed kernel waited.

use std::env;
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use cudarc::cublas::{self, CudaBlas, Gemm, GemmConfig};
use examples::{Ending, Fence, Loaded, Outcome, Resident, cold, patience, tell};
use kernel_registry::cudarc::driver::{CudaContext, CudaSlice, CudaStream, DevicePtrMut};
use kernel_registry::{KernelInfo, PointerTo, warm_all};
use kernel_registry_resident::Mapped;
use kernels::diagnose::{check_finite, report_nan, row_medians};
use kernels::memory::shuffle;
use kernels::waiting::{spin_until_flag, touch};

const THREADS: u64 = 256;

/// A function that tries an operation beside a resident kernel or a waiting stream, and returns whether the operation waited.
type Trial = fn(&Arc<CudaContext>) -> Outcome<Ending>;

const TRIALS: &[(&str, Trial)] = &[
    ("a frame of 2 KiB", |context| kernel(context, shuffle::INFO, &[THREADS])),
    ("printf", |context| kernel(context, report_nan::INFO, &[THREADS])),
    ("assert", |context| kernel(context, check_finite::INFO, &[THREADS])),
    ("malloc on the device", |context| kernel(context, row_medians::INFO, &[THREADS, 4])),
    ("the first launch, beside a stream that waits", first_launch),
    ("cuBLAS", cublas),
];

fn main() -> ExitCode {
    let name = env::args().skip_while(|argument| argument != "--try").nth(1);
    match TRIALS.iter().find(|(trial, _)| Some(*trial) == name.as_deref()) {
        Some((_, trial)) => tell(|context| trial(&context)),
        None => tell(|context| {
            // Only the children use the device.
            drop(context);
            table()
        }),
    }
}

/// Starts this program twice for each trial, cold and warm, and prints the results as a table.
fn table() -> Outcome<Ending> {
    println!("{:<44}  {:<12}  AFTER WARM_ALL", "CUDA_MODULE_LOADING=EAGER", "COLD");
    let mut deadlocked = [Vec::new(), Vec::new()];
    for (name, _) in TRIALS {
        let words = [started(name, true)?, started(name, false)?];
        println!("{name:<44}  {:<12}  {}", words[0], words[1]);
        for (words, deadlocked) in words.iter().zip(&mut deadlocked) {
            if words == "DEADLOCK" {
                deadlocked.push(*name);
            }
        }
    }
    let [cold_ones, warm_ones] = deadlocked;
    let (when, deadlocked) = if cold() { ("cold", cold_ones) } else { ("after `warm_all`", warm_ones) };
    Ok(match deadlocked.as_slice() {
        [] => Ending::Completed(format!("{when}, nothing waits")),
        names => Ending::Deadlock(format!(
            "{when}, these wait for a kernel or a stream that waits for what comes after them, because the driver makes \
             room or sets something up, which it does only once nothing runs on the device: {}",
            names.join(", ")
        )),
    })
}

/// Runs one trial in a child process. Returns its result.
fn started(name: &str, cold: bool) -> Outcome<String> {
    let child = Command::new(env::current_exe()?)
        .args(["--try", name])
        .args(cold.then_some("--cold"))
        .env("CUDA_MODULE_LOADING", "EAGER")
        .stdout(Stdio::piped())
        .spawn()?;
    let output = child.wait_with_output()?;
    match output.status.code() {
        Some(0) => Ok(String::from_utf8(output.stdout)?.trim().to_owned()),
        Some(3) => Ok("DEADLOCK".to_owned()),
        _ => Err(format!("{name}: {}", output.status).into()),
    }
}

/// Loads kernels with cudarc, or returns warmed kernels.
fn load<const N: usize>(
    context: &Arc<CudaContext>,
    kernels: [&'static KernelInfo; N],
) -> Outcome<[Loaded; N]> {
    if !cold() {
        warm_all(context)?;
        return Ok(kernels.map(Loaded::Warm));
    }
    let loaded: Result<Vec<_>, _> =
        kernels.into_iter().map(|kernel| Loaded::by_hand(context, kernel)).collect();
    loaded?.try_into().map_err(|_| "not all kernels are loaded".into())
}

fn ending(waited: bool) -> Ending {
    if waited { Ending::Deadlock("it waited".to_owned()) } else { Ending::Completed("runs".to_owned()) }
}

/// Tries the first launch of a kernel that takes these numbers, and one or two vectors.
fn kernel(context: &Arc<CudaContext>, info: &'static KernelInfo, numbers: &[u64]) -> Outcome<Ending> {
    let [spin, kernel] = load(context, [spin_until_flag::INFO, info])?;
    let (stream, mut memory) = memory(context)?;
    let address = memory.device_ptr_mut(&stream).0;
    let mut args = numbers.to_vec();
    args.extend([address, address + 8 * THREADS * 4].iter().take(info.params().len() - numbers.len()));

    let resident = Resident::start(context, &spin, patience())?;
    // SAFETY: each thread works on four bytes, or on four times four, of each vector, which is 8 KiB long.
    unsafe { kernel.launch(&stream, info.over(THREADS as u32), &args)? };
    stream.synchronize()?;
    let waited = !resident.is_running();
    resident.release()?;
    Ok(ending(waited))
}

/// Tries the first launch in a context.
fn first_launch(context: &Arc<CudaContext>) -> Outcome<Ending> {
    let [word, count] = [Mapped::<AtomicU32>::zeroed(context, 1)?, Mapped::<AtomicU32>::zeroed(context, 1)?];
    let [waits, stream] = [context.new_stream()?, context.new_stream()?];
    let [kernel] = load(context, [touch::INFO])?;
    // `EAGER` loads all kernels of the program, so all other kernels are loaded, too.
    let others = if cold() { kernel_registry::kernels()? } else { &[] };
    let _others: Vec<_> = others.iter().filter_map(|kernel| Loaded::by_hand(context, kernel).ok()).collect();
    context.synchronize()?;
    let fence = Fence::start(waits, word, patience())?;
    // SAFETY: the word exists until the kernel has ended.
    unsafe { kernel.launch(&stream, touch::INFO.over(1), &[PointerTo::<u32>::address(&count)])? };
    stream.synchronize()?;
    let waited = !fence.is_closed();
    fence.open()?;
    Ok(ending(waited))
}

/// Tries the first matrix product. Only cuBLAS knows which kernels a product uses. So without `--cold` a product is computed before the
/// trial, which loads them.
fn cublas(context: &Arc<CudaContext>) -> Outcome<Ending> {
    // SAFETY: the call loads the library, whose initialisers may run at any time.
    if !unsafe { cublas::sys::is_culib_present() } {
        return Ok(Ending::Completed("left out: libcublas was not found".to_owned()));
    }
    let [spin] = load(context, [spin_until_flag::INFO])?;
    let (stream, matrix) = memory(context)?;
    let (blas, mut product) = (CudaBlas::new(stream.clone())?, matrix.clone());
    let n = 32;
    let no = cublas::sys::cublasOperation_t::CUBLAS_OP_N;
    let config =
        GemmConfig { transa: no, transb: no, m: n, n, k: n, alpha: 1.0, lda: n, ldb: n, beta: 0.0, ldc: n };
    let mut multiply = || -> Outcome {
        // SAFETY: the matrices have at least 32 times 32 elements.
        unsafe { blas.gemm(config, &matrix, &matrix, &mut product)? };
        Ok(stream.synchronize()?)
    };
    if !cold() {
        multiply()?;
    }
    let resident = Resident::start(context, &spin, patience())?;
    multiply()?;
    let waited = !resident.is_running();
    resident.release()?;
    Ok(ending(waited))
}

/// Creates a stream and 16 KiB of zeros.
fn memory(context: &Arc<CudaContext>) -> Outcome<(Arc<CudaStream>, CudaSlice<f32>)> {
    let stream = context.new_stream()?;
    let memory = stream.alloc_zeros(16 * THREADS as usize)?;
    stream.synchronize()?;
    Ok((stream, memory))
}
