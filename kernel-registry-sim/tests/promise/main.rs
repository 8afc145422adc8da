//! Tests that `warm_all` keeps its promise under difficulties: hooks, late launches, other warm-ups, resets, unloaded
//! modules.

#[path = "../child/mod.rs"]
mod child;
mod hooks;
mod identity;
mod late;
mod resident;
mod sizes;
mod stack;
mod taken;
mod turns;

use std::error::Error;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kernel_registry::Warmup;
use kernel_registry::cudarc::driver::CudaContext;
use kernel_registry_sim::Config;
use kernels::blas1::saxpy;
use kernels::waiting::touch;

kernel_registry::link_kernels!(kernels);

type Outcome = Result<(), Box<dyn Error>>;

/// A turn in which no other test runs, because hooks, faults and the driver belong to the whole process.
struct Alone {
    context: Arc<CudaContext>,
    _turn: MutexGuard<'static, ()>,
}

/// Takes a turn with a new primary context.
fn alone() -> Result<Alone, Box<dyn Error>> {
    static TURN: Mutex<()> = Mutex::new(());
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    Config::default().contained(true).install()?;
    hooks::choose(None);
    let context = kernel_registry::context(0)?;
    reset(&context)?;
    Ok(Alone { context, _turn: turn })
}

/// Resets the device of a context, and creates the context again at its old address, so that the `CudaContext` can
/// still be used.
fn reset(context: &CudaContext) -> Outcome {
    use kernel_registry::cudarc::driver::sys;
    // SAFETY: no other thread uses the context.
    unsafe { sys::cuDevicePrimaryCtxReset_v2(context.cu_device()).result()? };
    // The new context is kept alive until the next reset.
    static KEPT: Mutex<Option<Arc<CudaContext>>> = Mutex::new(None);
    *KEPT.lock().unwrap_or_else(PoisonError::into_inner) = Some(CudaContext::new(0)?);
    context.bind_to_thread()?;
    Ok(())
}

/// Creates another context of the device.
fn another() -> Result<Arc<CudaContext>, Box<dyn Error>> {
    use kernel_registry::cudarc::driver::{result, sys};
    let device = result::device::get(0)?;
    // SAFETY: the context is new, and belongs to the `CudaContext` from here on.
    unsafe {
        let mut context = std::ptr::null_mut();
        sys::cuCtxCreate_v4(&mut context, std::ptr::null_mut(), 0, device).result()?;
        Ok(CudaContext::from_raw_context(0, device, context)?)
    }
}

/// Selects one kernel to warm.
fn only_touch<'a>() -> Warmup<'a> {
    Warmup::new().only(|kernel| kernel == touch::INFO)
}

/// Launches saxpy and checks its result.
fn launch_saxpy(context: &Arc<CudaContext>) -> Outcome {
    let stream = context.new_stream()?;
    let (x, mut y) = (stream.clone_htod(&[1.0_f32; 8])?, stream.clone_htod(&[2.0_f32; 8])?);
    // SAFETY: both vectors have 8 elements.
    unsafe { saxpy::launch(&stream, saxpy::over(8), 8, 3.0, &x, &mut y)? };
    assert_eq!(stream.clone_dtoh(&y)?, [5.0; 8]);
    Ok(())
}
