//! Does a thread's operations, and checks their results.

use std::error::Error;
use std::ptr;
use std::sync::Arc;

use kernel_registry::cudarc::driver::{CudaContext, DevicePtrMut};
use kernel_registry::{DynArg, Late, LaunchError, Prepared, RecheckError, Warmup, launch_dyn};
use kernels::blas1::{daxpy, saxpy};
use kernels::waiting::touch;

use crate::context::{Context, Kept, Slot};
use crate::tally::Tally;

pub(crate) type Done = Result<&'static str, Box<dyn Error>>;

/// The state of one thread.
pub(crate) struct Worker<'a> {
    number: usize,
    random: fastrand::Rng,
    slots: &'a [Slot],
    tally: &'a Tally,
}

/// The number of elements of a vector.
const N: u32 = 300;

impl<'a> Worker<'a> {
    pub(crate) fn new(number: usize, seed: u64, slots: &'a [Slot], tally: &'a Tally) -> Self {
        let random = fastrand::Rng::with_seed(seed.wrapping_add(number as u64));
        Worker { number, random, slots, tally }
    }

    /// Does one random operation.
    pub(crate) fn work(&mut self) {
        let index = self.random.usize(0..self.slots.len());
        let slot = &self.slots[index];
        let begin = |operation| self.tally.begin(self.number, operation, index);
        let done = match self.random.u32(0..1000) {
            // Contexts are rarely ended, because that ends the work of all threads in the context.
            0..4 => {
                begin("end");
                let ended = if slot.is_primary() { "reset" } else { "drop" };
                slot.replace(&mut slot.enter_alone()).map(|()| ended)
            }
            4..150 => {
                begin("warm");
                warm(&slot.enter())
            }
            150..250 => {
                begin("recheck");
                recheck(&slot.enter())
            }
            250..300 => {
                begin("use stale objects");
                stale(&slot.enter())
            }
            300..400 if slot.is_primary() => {
                begin("launch through another object");
                let context = slot.enter();
                let is_warm = context.is_warm();
                kernel_registry::context(0)
                    .map_err(Into::into)
                    .and_then(|object| launch(&object, is_warm, self.random.u32(0..4)))
            }
            _ => {
                begin("launch");
                let context = slot.enter();
                launch(&context.context, context.is_warm(), self.random.u32(0..4))
            }
        };
        match done {
            Ok(operation) => self.tally.count(operation),
            Err(error) => self.tally.fail(self.number, error),
        }
    }
}

pub(crate) fn warm(context: &Context) -> Done {
    let was_warm = context.is_warm();
    // Late loading is denied, because it would hide a lost table entry.
    let warm = Warmup::new().late(Late::Deny).warm(&context.context)?;
    if was_warm && warm.report().images_loaded > 0 {
        return Err("images were loaded again".into());
    }
    let touch = Prepared::<touch>::new(&context.context, touch::INFO.over(1))?;
    context.warmed(Kept { warm, touch });
    Ok(if was_warm { "warm again" } else { "warm" })
}

fn recheck(context: &Context) -> Done {
    let Some(kept) = context.kept() else { return Ok("recheck: nothing yet") };
    match kept.warm.recheck() {
        Ok(()) => Ok("recheck"),
        Err(RecheckError::Warming) => Ok("recheck: at work"),
        Err(stale) => Err(stale.into()),
    }
}

/// Checks that objects from before a reset are refused, and do nothing in the new context.
fn stale(context: &Context) -> Done {
    let Some(Kept { warm, touch }) = &context.stale else { return Ok("stale: nothing yet") };
    match warm.recheck() {
        Err(RecheckError::Reset) => {}
        other => return Err(format!("recheck after a reset: {other:?}").into()),
    }
    let stream = context.context.new_stream()?;
    let mut nothing = ptr::null_mut::<u32>();
    // SAFETY: it is refused.
    match unsafe { touch.launch(&stream, &mut [(&raw mut nothing).cast()]) } {
        Err(LaunchError::Reset { .. } | LaunchError::OtherContext { .. } | LaunchError::NotWarm { .. }) => {
            Ok("stale: refused")
        }
        other => Err(format!("a launch that was prepared before a reset: {other:?}").into()),
    }
}

/// Launches a kernel, and compares the result.
fn launch(context: &Arc<CudaContext>, is_warm: bool, which: u32) -> Done {
    let launched = match which {
        0 => typed(context),
        1 => dynamic(context),
        2 => raw(context),
        _ => prepared(context),
    };
    match launched {
        Ok(words) => Ok(words),
        Err(error) => match error.downcast_ref() {
            // The kernel was cold when this operation began, but may have been warmed since.
            Some(LaunchError::NotWarm { .. }) if !is_warm => Ok("launch: refused, not warm"),
            Some(LaunchError::NotWarm { .. }) => {
                Err(format!("a kernel that was warm is lost: {error}").into())
            }
            _ => Err(error),
        },
    }
}

fn typed(context: &Arc<CudaContext>) -> Done {
    let stream = context.new_stream()?;
    let x: Vec<f32> = (0..N).map(|i| i as f32).collect();
    let (device_x, mut device_y) = (stream.clone_htod(&x)?, stream.alloc_zeros::<f32>(N as usize)?);
    for _ in 0..3 {
        // SAFETY: both vectors have `N` elements.
        unsafe { saxpy::launch(&stream, saxpy::over(N), N, 2.0, &device_x, &mut device_y)? };
    }
    let y = stream.clone_dtoh(&device_y)?;
    same(y.iter().zip(&x).all(|(y, x)| *y == 6.0 * x), "launch: typed")
}

fn dynamic(context: &Arc<CudaContext>) -> Done {
    let stream = context.new_stream()?;
    let x: Vec<f64> = (0..N).map(f64::from).collect();
    let (device_x, mut device_y) = (stream.clone_htod(&x)?, stream.alloc_zeros::<f64>(N as usize)?);
    let args =
        [DynArg::value(&N), DynArg::value(&0.5), DynArg::slice(&device_x), DynArg::slice_mut(&mut device_y)];
    // SAFETY: both vectors have `N` elements.
    unsafe { launch_dyn(daxpy::INFO, &stream, daxpy::INFO.over(N), args)? };
    let y = stream.clone_dtoh(&device_y)?;
    same(y.iter().zip(&x).all(|(y, x)| *y == 0.5 * x), "launch: dynamic")
}

fn raw(context: &Arc<CudaContext>) -> Done {
    let stream = context.new_stream()?;
    let mut count = stream.alloc_zeros::<u32>(1)?;
    let mut address = count.device_ptr_mut(&stream).0;
    let untyped = Prepared::untyped(touch::INFO, context, touch::INFO.over(1))?;
    for _ in 0..2 {
        // SAFETY: the kernel takes one pointer, and the memory outlives the stream's work.
        unsafe { untyped.launch(&stream, &mut [(&raw mut address).cast()])? };
    }
    same(stream.clone_dtoh(&count)? == [2], "launch: raw")
}

fn prepared(context: &Arc<CudaContext>) -> Done {
    let touch = Prepared::<touch>::new(context, touch::INFO.over(1))?;
    let stream = context.new_stream()?;
    let mut count = stream.alloc_zeros::<u32>(1)?;
    let mut address = count.device_ptr_mut(&stream).0;
    for _ in 0..5 {
        // SAFETY: the kernel takes one pointer, and the memory outlives the stream's work.
        unsafe { touch.launch(&stream, &mut [(&raw mut address).cast()])? };
    }
    same(stream.clone_dtoh(&count)? == [5], "launch: prepared")
}

fn same(is_so: bool, operation: &'static str) -> Done {
    if is_so { Ok(operation) } else { Err(format!("{operation}: wrong result").into()) }
}
