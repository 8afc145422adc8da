//! Tests kernels that fail after their launch was accepted, and calls that take too long.

use std::error::Error;
use std::thread;
use std::time::{Duration, Instant};

use kernel_registry::{Late, LaunchError, RecheckError, WarmError, Warmup};
use kernel_registry_sim::{Fault, live};

use super::alone;
use super::expected::said;
use super::program::{self, Vectors};

const ILLEGAL_ADDRESS: u32 = 700;
const LAUNCH_FAILED: u32 = 719;

/// Runs `work`, and checks that programs run after it and that it leaves nothing behind.
fn leaves_nothing(work: impl FnOnce() -> Result<(), Box<dyn Error>>) -> Result<(), Box<dyn Error>> {
    let _turn = alone();
    program::run()?;
    let before = live();
    work()?;
    program::run()?;
    assert_eq!(live(), before);
    Ok(())
}

/// The launch succeeds. The next call that waits returns the error, and so do all later calls.
#[test]
fn a_failed_kernel_breaks_its_context() -> Result<(), Box<dyn Error>> {
    leaves_nothing(|| {
        let context = kernel_registry::context(0)?;
        let warm = program::warm(&context)?;
        let mut vectors = Vectors::new(&context)?;
        let fault = Fault::breaks("cuLaunchKernelEx", ILLEGAL_ADDRESS).nth(1).inject()?;
        vectors.launch()?;
        assert_eq!(fault.hits(), 1);
        drop(fault);

        assert_eq!(vectors.stream.synchronize().map_err(|error| error.0 as u32), Err(ILLEGAL_ADDRESS));
        let stale = warm.recheck().expect_err("nothing works there any more");
        assert!(matches!(stale, RecheckError::Driver(error) if error.code == ILLEGAL_ADDRESS), "{stale}");
        let words = said(&vectors.launch().expect_err("nothing is launched any more"));
        assert!(
            words.contains("kernels::blas1::saxpy") && words.contains("CUDA_ERROR_ILLEGAL_ADDRESS"),
            "{words}"
        );
        let words = said(&program::warm(&context).expect_err("and nothing is warmed"));
        assert!(
            words.contains("CUDA_ERROR_ILLEGAL_ADDRESS") && words.contains("start the process anew"),
            "{words}"
        );
        Ok(())
    })
}

/// Kernels that kernel-registry launches itself can fail like any other.
#[test]
fn a_failed_kernel_during_a_warm_up_is_an_error() -> Result<(), Box<dyn Error>> {
    leaves_nothing(|| {
        let context = kernel_registry::context(0)?;
        let fault = Fault::breaks("cuLaunchKernel", LAUNCH_FAILED).nth(1).inject()?;
        let words = said(&program::warm(&context).expect_err("it waits for them"));
        assert_eq!(fault.hits(), 1);
        drop(fault);
        assert!(
            words.contains("kernel-registry's own kernels") && words.contains("CUDA_ERROR_LAUNCH_FAILED"),
            "{words}"
        );
        Ok(())
    })
}

/// The error of a timeout names the call that waits. Later work waits until that call ends.
#[test]
fn a_call_that_takes_too_long_is_named() -> Result<(), Box<dyn Error>> {
    leaves_nothing(|| {
        // The timeout is long enough for all other calls, even on a busy machine. The delayed call takes longer than
        // the whole warm-up.
        const LONG: Duration = Duration::from_secs(4);
        let before = live();
        for (call, named, about) in [
            ("cuModuleLoadDataEx", "`cuModuleLoadDataEx`", "first.fatbin"),
            ("cuStreamCreate", "`cuStreamCreate`", "kernel-registry's own kernels"),
            ("cuKernelGetFunction", "`cuKernelGetFunction`", "kernels::"),
        ] {
            let context = kernel_registry::context(0)?;
            let fault = Fault::delays(call, LONG).nth(1).inject()?;
            let begun = Instant::now();
            let gave_up = Warmup::new().timeout(Duration::from_millis(800)).warm(&context);
            let error = gave_up.expect_err("it was not to wait so long");
            assert!(begun.elapsed() < LONG);
            let words = error.to_string();
            assert!(
                matches!(error, WarmError::TimedOut { .. }) && words.contains(named) && words.contains(about),
                "{words}"
            );
            assert_eq!(fault.hits(), 1);
            // The thread that was left behind continues when its call ends. Until then, all other work waits.
            program::run_in(&context)?;
            drop((fault, context));
            // That thread also keeps the context alive until the thread ends.
            let dropped = Instant::now();
            while live() != before && dropped.elapsed() < LONG {
                thread::sleep(Duration::from_millis(5));
            }
        }
        Ok(())
    })
}

/// A kernel that is loaded late fails like a kernel that is warmed, and the next launch succeeds.
#[test]
fn a_late_load_that_fails_is_an_error_that_names_the_kernel() -> Result<(), Box<dyn Error>> {
    leaves_nothing(|| {
        let context = kernel_registry::context(0)?;
        let _warm = Warmup::new().only(|_| false).late(Late::Allow).warm(&context)?;
        let mut vectors = Vectors::new(&context)?;
        let fault = Fault::fails("cuFuncLoad", 2).nth(1).inject()?;
        let error = vectors.launch().expect_err("it cannot be loaded");
        assert_eq!(fault.hits(), 1);
        drop(fault);
        assert!(matches!(error, LaunchError::Late { .. }), "{error}");
        let words = said(&error);
        assert!(
            words.contains("kernel `kernels::blas1::saxpy`") && words.contains("cuFuncLoad returned"),
            "{words}"
        );
        vectors.launch()?;
        vectors.check(1)
    })
}
