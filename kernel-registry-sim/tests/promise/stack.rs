//! Tests the stack limit. A change of the limit makes the next launch wait, so the library launches a kernel of its own
//! after each change.

use std::thread;
use std::time::{Duration, Instant};

use kernel_registry::cudarc::driver::{DevicePtrMut, sys};
use kernel_registry::{Warm, Warmup};
use kernels::memory::shuffle;
use kernels::waiting::touch;

use super::{Outcome, alone, hooks, only_touch, reset};

/// Launches a kernel while another stream waits for a word that is not set. Returns whether the kernel ran.
fn runs_beside_a_waiting_stream(warm: &Warm) -> Result<bool, Box<dyn std::error::Error>> {
    let context = warm.context();
    let (waits, ours) = (context.new_stream()?, context.new_stream()?);
    let mut out = ours.alloc_zeros::<u32>(1)?;
    ours.synchronize()?;
    let mut word = std::ptr::null_mut();
    // SAFETY: a context is current. The memory is zeroed, and is never freed.
    unsafe {
        sys::cuMemHostAlloc(&mut word, 8, 2).result()?;
        sys::cuStreamWaitValue32_v2(waits.cu_stream(), word as u64, 1, 1).result()?;
    }
    let (address, sync) = out.device_ptr_mut(&ours);
    // SAFETY: the kernel writes one word.
    unsafe { touch::launch(&ours, touch::over(1), address as *mut u32)? };
    let begun = Instant::now();
    let is_done = || {
        // SAFETY: the stream exists.
        unsafe { sys::cuStreamQuery(ours.cu_stream()) == sys::CUresult::CUDA_SUCCESS }
    };
    while !is_done() && begun.elapsed() < Duration::from_secs(60) {
        thread::sleep(Duration::from_millis(1));
    }
    let ran = is_done();
    // SAFETY: the word is never freed, and the driver reads it atomically.
    unsafe { word.cast::<u32>().write_volatile(1) };
    drop(sync);
    waits.synchronize()?;
    ours.synchronize()?;
    Ok(ran)
}

#[test]
fn a_launch_does_not_wait_for_a_stack_that_a_later_warm_up_raised() -> Outcome {
    let alone = alone()?;
    only_touch().warm(&alone.context)?;
    // This kernel needs nothing new except a larger stack.
    let warm = Warmup::new().only(|kernel| kernel == shuffle::INFO).warm(&alone.context)?;
    assert!(warm.report().stack >= 2048);
    assert!(runs_beside_a_waiting_stream(&warm)?);
    Ok(())
}

/// The hook restores the limit. But if the library launched no kernel after it, the next launch would wait.
#[test]
fn a_launch_does_not_wait_for_a_hook_that_changed_the_stack_and_restored_it() -> Outcome {
    let alone = alone()?;
    only_touch().warm(&alone.context)?;
    hooks::choose(Some(|_| {
        for bytes in [8192, 1024] {
            // SAFETY: the call affects only the current context.
            let set = unsafe { sys::cuCtxSetLimit(sys::CUlimit::CU_LIMIT_STACK_SIZE, bytes) };
            set.result().map_err(|error| error.to_string())?;
        }
        Ok(())
    }));
    // A hook runs once in each context, and in this context it ran without effect. So the context is reset.
    reset(&alone.context)?;
    let warm = only_touch().warm(&alone.context)?;
    assert!(runs_beside_a_waiting_stream(&warm)?);
    Ok(())
}

#[test]
fn a_launch_does_not_wait_for_a_stack_that_was_lowered_and_raised_again() -> Outcome {
    let alone = alone()?;
    Warmup::new().only(|kernel| kernel == shuffle::INFO || kernel == touch::INFO).warm(&alone.context)?;
    // SAFETY: the call affects only the current context.
    unsafe { sys::cuCtxSetLimit(sys::CUlimit::CU_LIMIT_STACK_SIZE, 1024).result()? };
    let warm = Warmup::new().only(|kernel| kernel == shuffle::INFO).warm(&alone.context)?;
    assert!(runs_beside_a_waiting_stream(&warm)?);
    Ok(())
}
