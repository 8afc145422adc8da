//! Tests contexts that are reset, destroyed and created again, and modules that are unloaded. Nothing of the earlier
//! context or module is used.

use std::sync::Arc;
use std::thread;

use kernel_registry::cudarc::driver::DevicePtrMut;
use kernel_registry::cudarc::driver::sys;
use kernel_registry::{Cause, LaunchError, Prepared, RecheckError, WarmError, Warmup, warm_all};
use kernels::blas1::saxpy;
use kernels::waiting::touch;

use super::{Outcome, alone, another, launch_saxpy, reset};

/// After a reset, another kernel may have the handle that the kernel had before.
#[test]
fn a_prepared_launch_does_not_survive_a_reset() -> Outcome {
    let alone = alone()?;
    warm_all(&alone.context)?;
    let prepared = Prepared::<touch>::new(&alone.context, touch::over(1))?;
    let launch = |prepared: &Prepared<touch>| -> Result<(), Box<dyn std::error::Error>> {
        let stream = alone.context.new_stream()?;
        let mut out = stream.alloc_zeros::<u32>(1)?;
        let (address, _sync) = out.device_ptr_mut(&stream);
        // SAFETY: the kernel writes one word.
        unsafe { touch::launch(&stream, prepared, address as *mut u32)? };
        Ok(())
    };
    launch(&prepared)?;
    reset(&alone.context)?;
    let error = launch(&prepared).expect_err("nothing is warm, and the old handle is void");
    assert!(matches!(error.downcast_ref(), Some(LaunchError::Reset { .. })), "{error}");
    warm_all(&alone.context)?;
    let recording = kernel_registry_sim::record_calls();
    let error = launch(&prepared).expect_err("its context was reset");
    assert!(matches!(error.downcast_ref(), Some(LaunchError::Reset { .. })), "{error}");
    assert!(recording.calls().iter().all(|call| !call.name.starts_with("cuLaunch")), "it was submitted");
    launch(&Prepared::<touch>::new(&alone.context, touch::over(1))?)?;
    Ok(())
}

/// When any context ends, a prepared launch checks again whether its own context still exists.
#[test]
fn a_prepared_launch_survives_the_end_of_other_contexts() -> Outcome {
    let alone = alone()?;
    warm_all(&alone.context)?;
    let stream = alone.context.new_stream()?;
    let (x, mut y) = (stream.clone_htod(&[1.0_f32; 8])?, stream.clone_htod(&[2.0_f32; 8])?);
    let prepared = Prepared::<saxpy>::new(&alone.context, saxpy::over(8))?;
    for _ in 0..3 {
        let other = another()?;
        warm_all(&other)?;
        drop(other);
        alone.context.bind_to_thread()?;
        // SAFETY: both vectors have 8 elements.
        unsafe { saxpy::launch(&stream, &prepared, 8, 3.0, &x, &mut y)? };
    }
    assert_eq!(stream.clone_dtoh(&y)?, [11.0; 8]);
    Ok(())
}

#[test]
fn contexts_of_one_device_that_are_warmed_at_once_have_all_kernels() -> Outcome {
    let _alone = alone()?;
    for _ in 0..20 {
        let contexts: Vec<_> = (0..4).map(|_| another()).collect::<Result<_, _>>()?;
        thread::scope(|scope| {
            for context in &contexts {
                scope.spawn(|| {
                    warm_all(context).expect("they are warmed");
                    for kernel in kernel_registry::kernels().expect("a registry") {
                        kernel.cu_function(context).expect("it is warm, and was not lost");
                    }
                });
            }
        });
    }
    Ok(())
}

/// Each call would otherwise leak a `CudaContext`, which must not be dropped.
#[test]
fn a_context_is_borrowed_once() -> Outcome {
    let _alone = alone()?;
    let raw = another()?;
    let borrow = || {
        // SAFETY: the context lives as long as `raw`.
        unsafe { kernel_registry::borrow_context(raw.cu_ctx().cast()) }
    };
    let first = borrow()?;
    assert!(Arc::ptr_eq(&first, &borrow()?), "it was borrowed again");
    drop(first);
    let again = borrow()?;
    warm_all(&again)?;
    assert!(Arc::ptr_eq(&again, &borrow()?), "it was borrowed again");
    Ok(())
}

/// One thread asks whether a context still exists while another thread ends it.
#[test]
fn a_context_may_end_while_a_thread_asks_for_it() -> Outcome {
    let alone = alone()?;
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for _ in 0..15 {
                    let context = another().expect("there is room");
                    Warmup::new().only(|kernel| kernel == touch::INFO).warm(&context).expect("it is warmed");
                }
            });
        }
    });
    warm_all(&alone.context)?;
    launch_saxpy(&alone.context)
}

#[test]
fn an_unloaded_module_is_noticed_and_loaded_again() -> Outcome {
    let alone = alone()?;
    // Machine code is loaded as a module. PTX would be loaded as a library, whose modules cannot be unloaded.
    let machine_code = || Warmup::new().only(|kernel| kernel == first::INFO);
    let receipt = machine_code().warm(&alone.context)?;
    let prepared = Prepared::<first>::new(&alone.context, first::over(1))?;
    let function = first::INFO.cu_function(&alone.context)?;
    let mut module = std::ptr::null_mut();
    // SAFETY: the module is loaded, and none of its kernels runs.
    unsafe {
        sys::cuFuncGetModule(&mut module, function).result()?;
        sys::cuModuleUnload(module).result()?;
    }
    assert!(matches!(receipt.recheck(), Err(RecheckError::NotLoaded { .. })));
    let Err(WarmError::Kernels { report }) = machine_code().warm(&alone.context) else {
        panic!("a kernel is gone");
    };
    assert!(matches!(report.failures[0].cause, Cause::Unloaded), "{report}");
    assert!(report.kernels.is_empty() && !report.to_string().contains("every kernel verified"), "{report}");
    assert!(
        matches!(receipt.recheck(), Err(RecheckError::NotLoaded { .. })),
        "a receipt holds for what it names"
    );
    assert!(matches!(first::INFO.cu_function(&alone.context), Ok(new) if new != function));
    let stream = alone.context.new_stream()?;
    // SAFETY: with the argument 0 the kernel does nothing.
    let launched = unsafe { first::launch(&stream, &prepared, 0) };
    assert!(matches!(launched, Err(LaunchError::LoadedAnew { .. })), "{launched:?}");
    machine_code().warm(&alone.context)?;
    receipt.recheck()?;
    Ok(())
}

/// A kernel in machine code, which is loaded as a module.
#[kernel_registry::gpu_kernel(image = "../kernel-registry-cuda/cuda/first.fatbin", block = 1)]
pub unsafe fn first(zero: i32);
