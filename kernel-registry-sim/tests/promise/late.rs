//! Tests late loads, which are launches of kernels that are not warm: the policy for late loads, and the threads that
//! do them.

use std::fs;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use kernel_registry::cudarc::driver::CudaContext;
use kernel_registry::{Late, LaunchError, MainError, Warmup, warm_all};
use kernels::blas1::saxpy;
use kernels::diagnose::check_finite;
use kernels::memory::shuffle;
use kernels::waiting::touch;

use super::resident::Resident;
use super::{Outcome, alone, launch_saxpy, only_touch, reset};

fn threads() -> usize {
    fs::read_dir("/proc/self/task").map_or(0, |tasks| tasks.count())
}

#[test]
fn a_library_cannot_allow_what_the_application_denies() -> Outcome {
    let alone = alone()?;
    only_touch().late(Late::Deny).warm(&alone.context)?;
    // A library warms its own kernels, and sets no policy.
    only_touch().warm(&alone.context)?;
    Warmup::new().only(|_| false).hooks(false).warm(&alone.context)?;
    let error = launch_saxpy(&alone.context).expect_err("late loads are denied");
    assert!(matches!(error.downcast_ref(), Some(LaunchError::NotWarm { .. })), "{error}");
    // A warm-up that sets the policy changes it.
    only_touch().late(Late::Allow).warm(&alone.context)?;
    launch_saxpy(&alone.context)
}

#[test]
fn a_sealed_context_loads_nothing_late() -> Outcome {
    let alone = alone()?;
    let warm = only_touch().late(Late::Allow).warm(&alone.context)?;
    // No audit runs that the receipt could tell.
    warm.seal();
    let error = launch_saxpy(&alone.context).expect_err("late loads are denied");
    assert!(matches!(error.downcast_ref(), Some(LaunchError::NotWarm { .. })), "{error}");
    // A warm-up is no late load, and may set another policy.
    only_touch().late(Late::Allow).warm(&alone.context)?;
    launch_saxpy(&alone.context)?;
    only_touch().warm(&alone.context)?.seal();
    let stream = alone.context.new_stream()?;
    let x = stream.alloc_zeros::<f32>(8)?;
    // SAFETY: the vector has 8 elements.
    let error = unsafe { check_finite::launch(&stream, check_finite::over(8), 8, &x) };
    assert!(matches!(error, Err(LaunchError::NotWarm { .. })), "{error:?}");
    Ok(())
}

/// The policy changes during a late load that was allowed when it started.
#[test]
fn a_denial_during_a_late_load_stays() -> Outcome {
    let alone = alone()?;
    let context = alone.context.clone();
    let deny = move |_: &kernel_registry::LateLoad| {
        let denied = Warmup::new().only(|_| false).hooks(false).late(Late::Deny).warm(&context);
        denied.expect("nothing is to be loaded");
    };
    only_touch().late(Late::Warn).on_late(deny).warm(&alone.context)?;
    launch_saxpy(&alone.context)?;
    let stream = alone.context.new_stream()?;
    let x = stream.alloc_zeros::<f32>(8)?;
    // SAFETY: the vector has 8 elements.
    let error = unsafe { check_finite::launch(&stream, check_finite::over(8), 8, &x) };
    assert!(matches!(error, Err(LaunchError::NotWarm { .. })), "{error:?}");
    Ok(())
}

/// The application's callback for late loads may launch kernels, even the kernel that is loaded late, and in another
/// thread.
#[test]
fn the_callback_may_launch_the_kernel_that_is_loaded_late() -> Outcome {
    for elsewhere in [false, true] {
        let alone = alone()?;
        let (context, told) = (alone.context.clone(), Arc::new(Mutex::new(0)));
        let count = told.clone();
        let on_late = move |_: &kernel_registry::LateLoad| {
            *count.lock().expect("no panic") += 1;
            assert!(*count.lock().expect("no panic") < 5, "it is told again and again");
            let launch = || launch_saxpy(&context).expect("it is loaded");
            if elsewhere {
                thread::scope(|scope| scope.spawn(launch).join().expect("no panic"))
            } else {
                launch()
            }
        };
        only_touch().on_late(on_late).warm(&alone.context)?;
        launch_saxpy(&alone.context)?;
        assert_eq!(*told.lock().expect("no panic"), 1);
    }
    Ok(())
}

#[test]
fn the_callback_is_called_before_a_kernel_is_loaded_late() -> Outcome {
    let alone = alone()?;
    let told = Arc::new(Mutex::new(Vec::new()));
    let tell = told.clone();
    let on_late = move |load: &kernel_registry::LateLoad| {
        tell.lock().expect("no panic").push((load.kernel.path(), load.device));
    };
    only_touch().on_late(on_late).warm(&alone.context)?;
    launch_saxpy(&alone.context)?;
    launch_saxpy(&alone.context)?;
    assert_eq!(*told.lock().expect("no panic"), [(saxpy::INFO.path(), 0)]);
    Ok(())
}

/// The stack budget and the timeout are those of the application's warm-up.
#[test]
fn a_late_load_obeys_the_limits_of_the_application() -> Outcome {
    let alone = alone()?;
    let budget = only_touch().late(Late::Allow).stack_budget(1000).timeout(Duration::from_millis(200));
    budget.warm(&alone.context)?;
    let stream = alone.context.new_stream()?;
    let seeds = stream.clone_htod(&[1_u32; 32])?;
    let mut firsts = stream.alloc_zeros::<u32>(32)?;
    // SAFETY: both vectors have 32 elements.
    let launched = unsafe { shuffle::launch(&stream, shuffle::over(32), 32, &seeds, &mut firsts) };
    let words = format!("{:?}", MainError::from(launched.expect_err("its frame exceeds the budget")));
    assert!(words.contains("Warmup::stack_budget"), "{words}");

    let resident = Resident::start(&alone.context)?;
    let begun = Instant::now();
    let error = launch_saxpy(&alone.context).expect_err("a kernel is resident");
    assert!(begun.elapsed() < Duration::from_secs(20), "it waited as long as it does by default");
    let cause = error.source().map(ToString::to_string).unwrap_or_default();
    assert!(cause.contains("0.2 s"), "{error}: {cause}");
    resident.stop()
}

#[test]
fn a_late_load_beside_a_stuck_one_fails_at_once() -> Outcome {
    let alone = alone()?;
    let timeout = Duration::from_millis(200);
    only_touch().late(Late::Allow).timeout(timeout).warm(&alone.context)?;
    // Allocations and copies come first, because they would wait for the stuck load too.
    let stream = alone.context.new_stream()?;
    let (x, mut y) = (stream.clone_htod(&[1.0_f32; 8])?, stream.clone_htod(&[2.0_f32; 8])?);
    stream.synchronize()?;
    let resident = Resident::start(&alone.context)?;
    // SAFETY: both vectors have 8 elements.
    let mut launch = || unsafe { saxpy::launch(&stream, saxpy::over(8), 8, 3.0, &x, &mut y) };
    launch().expect_err("a kernel is resident");
    let before = threads();
    let mut shortest = Duration::MAX;
    for _ in 0..20 {
        let begun = Instant::now();
        let error = launch().expect_err("it still does");
        shortest = shortest.min(begun.elapsed());
        assert!(matches!(error, LaunchError::Late { .. }), "{error}");
    }
    assert!(shortest < timeout, "each waited once more");
    assert!(threads() <= before, "{} threads were left behind", threads() - before);
    resident.stop()?;
    // The stuck load continues, and ends a moment later.
    let begun = Instant::now();
    while launch().is_err() {
        assert!(begun.elapsed() < Duration::from_secs(20), "it is stuck although the device is free");
        thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

#[test]
fn late_loads_work_after_the_warmed_object_is_dropped() -> Outcome {
    let alone = alone()?;
    // These are two `CudaContext`s of one context, which `alone` keeps alive.
    let first = CudaContext::new(0)?;
    only_touch().late(Late::Allow).warm(&first)?;
    drop(first);
    launch_saxpy(&alone.context)?;
    let stream = alone.context.new_stream()?;
    let mut out = stream.alloc_zeros::<u32>(1)?;
    // SAFETY: the kernel writes one word.
    unsafe {
        use kernel_registry::cudarc::driver::DevicePtrMut;
        let (address, _sync) = out.device_ptr_mut(&stream);
        touch::launch(&stream, touch::over(1), address as *mut u32)?;
    }
    Ok(())
}

/// A context that was reset has no policy, as if it had never been warmed.
#[test]
fn a_reset_clears_the_policy() -> Outcome {
    let alone = alone()?;
    only_touch().late(Late::Deny).warm(&alone.context)?;
    reset(&alone.context)?;
    let error = launch_saxpy(&alone.context).expect_err("nothing was warmed there");
    assert!(matches!(error.downcast_ref(), Some(LaunchError::NotWarm { .. })), "{error}");
    warm_all(&alone.context)?;
    launch_saxpy(&alone.context)
}
