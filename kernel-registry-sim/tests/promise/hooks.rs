//! Tests `#[warmup]` functions: which operations they may do, and their time limit.

use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use kernel_registry::cudarc::driver::sys::{self, CUresult};
use kernel_registry::cudarc::driver::{CudaContext, CudaFunction};
use kernel_registry::cudarc::nvrtc::Ptx;
use kernel_registry::{
    HookCause, LaunchError, LoadError, Warm, WarmContext, WarmError, Warmup, warm_all, warmup,
};

use super::{Outcome, alone, another, launch_saxpy};

/// The function that the hook of this test executable calls.
pub type Hook = fn(&WarmContext<'_>) -> Result<(), String>;

static CHOSEN: Mutex<Option<Hook>> = Mutex::new(None);

pub fn choose(hook: Option<Hook>) {
    *CHOSEN.lock().expect("no test panics here") = hook;
}

#[warmup]
fn hook(warm: &WarmContext<'_>) -> Result<(), String> {
    let chosen = *CHOSEN.lock().expect("no test panics here");
    chosen.map_or(Ok(()), |chosen| chosen(warm))
}

#[test]
fn a_hook_launches_registered_kernels() -> Outcome {
    let alone = alone()?;
    choose(Some(|warm| launch_saxpy(warm.context()).map_err(|error| error.to_string())));
    warm_all(&alone.context)?;
    Ok(())
}

#[test]
fn a_hook_cannot_warm_its_own_context() -> Outcome {
    let alone = alone()?;
    choose(Some(|warm| is_refused(warm_all(warm.context()))));
    warm_all(&alone.context)?;
    Ok(())
}

/// Checks that warming this context from the hook's thread was refused. Such a warm-up would wait for the hook, and the
/// hook for it.
fn is_refused(warmed: Result<Warm, WarmError>) -> Result<(), String> {
    match warmed {
        Err(WarmError::InHook { hook }) if hook.ends_with("::hooks::hook") => Ok(()),
        other => Err(format!("{other:?}")),
    }
}

fn soon<'a>() -> Warmup<'a> {
    Warmup::new().hook_timeout(Duration::from_secs(5))
}

#[test]
fn a_hook_cannot_wait_for_a_thread_that_warms_its_context() -> Outcome {
    let alone = alone()?;
    choose(Some(|warm| {
        let in_thread = |thread: thread::Builder| {
            let context = warm.context().clone();
            let nested = move || thread::spawn(move || soon().warm(&context)).join().expect("no panic");
            let thread = thread.spawn(nested).map_err(|error| error.to_string())?;
            is_refused(thread.join().expect("no panic"))
        };
        in_thread(thread::Builder::new())?;
        in_thread(thread::Builder::new().name("loader".to_owned()))
    }));
    soon().warm(&alone.context)?;
    Ok(())
}

/// The hook of each context warms the other context.
#[test]
fn hooks_of_two_contexts_cannot_wait_for_each_other() -> Outcome {
    static FIRST: Mutex<Option<Arc<CudaContext>>> = Mutex::new(None);
    let alone = alone()?;
    *FIRST.lock()? = Some(alone.context.clone());
    choose(Some(|warm| {
        let first = FIRST.lock().expect("no panic").clone().expect("it is there");
        if warm.context().cu_ctx() == first.cu_ctx() {
            let other = another().map_err(|error| error.to_string())?;
            soon().warm(&other).map(drop).map_err(|error| error.to_string())
        } else {
            is_refused(soon().warm(&first))
        }
    }));
    soon().warm(&alone.context)?;
    *FIRST.lock()? = None;
    Ok(())
}

#[test]
fn other_threads_wait_for_a_hook() -> Outcome {
    static BEGUN: AtomicBool = AtomicBool::new(false);
    let alone = alone()?;
    choose(Some(|_| {
        BEGUN.store(true, Ordering::SeqCst);
        thread::sleep(Duration::from_millis(300));
        Ok(())
    }));
    thread::scope(|scope| {
        let first = scope.spawn(|| warm_all(&alone.context));
        while !BEGUN.load(Ordering::SeqCst) {
            thread::yield_now();
        }
        // Both threads began to warm before or after the hook, but not in it.
        let late = scope.spawn(|| warm_all(&alone.context)).join().expect("no panic");
        assert!(warm_all(&alone.context).is_ok() && late.is_ok(), "{late:?}");
        first.join().expect("no panic").map(drop)
    })?;
    Ok(())
}

/// A late load of a kernel that the warm-up does not select is refused in a hook like a nested warm-up.
#[test]
fn a_hook_cannot_launch_what_is_not_warm() -> Outcome {
    let alone = alone()?;
    choose(Some(|warm| {
        let error = launch_saxpy(warm.context()).expect_err("it is not warm");
        match error.downcast_ref() {
            Some(LaunchError::Late { error, .. }) if matches!(**error, WarmError::InHook { .. }) => Ok(()),
            _ => Err(error.to_string()),
        }
    }));
    super::only_touch().warm(&alone.context)?;
    Ok(())
}

#[test]
fn a_slow_hook_does_not_keep_the_device_busy() -> Outcome {
    let alone = alone()?;
    choose(Some(|_| {
        thread::sleep(Duration::from_millis(700));
        Ok(())
    }));
    Warmup::new().timeout(Duration::from_millis(100)).warm(&alone.context)?;
    Ok(())
}

#[test]
fn a_hook_that_does_not_return_is_named() -> Outcome {
    let alone = alone()?;
    choose(Some(|_| {
        thread::sleep(Duration::from_secs(2));
        Ok(())
    }));
    let limit = Duration::from_millis(200);
    let error = Warmup::new().hook_timeout(limit).warm(&alone.context).expect_err("it takes too long");
    let words = error.to_string();
    assert!(matches!(error, WarmError::HookTimedOut { .. }), "{words}");
    assert!(words.contains("hooks::hook") && words.contains("Warmup::hook_timeout"), "{words}");
    // Other warm-ups wait for the hook for the same time limit.
    let again = Warmup::new().hook_timeout(limit).warm(&alone.context).expect_err("it still runs");
    assert!(matches!(again, WarmError::HookTimedOut { .. }), "{again}");
    warm_all(&alone.context)?;
    Ok(())
}

#[test]
fn a_stack_that_a_hook_lowers_is_raised_again() -> Outcome {
    let alone = alone()?;
    choose(Some(|_| {
        // SAFETY: the call affects only the current context.
        unsafe { sys::cuCtxSetLimit(sys::CUlimit::CU_LIMIT_STACK_SIZE, 1024) }
            .result()
            .map_err(|error| error.to_string())
    }));
    let warm = warm_all(&alone.context)?;
    assert!(warm.report().stack >= 2048, "{}", warm.report());
    warm.recheck()?;
    Ok(())
}

/// Loads a module with cudarc, and returns its kernel.
fn function_of(context: &Arc<CudaContext>) -> Result<CudaFunction, Box<dyn std::error::Error>> {
    let text = ".version 7.0\n.target sm_60\n.address_size 64\n.visible .entry other() { ret; }\n";
    let module = context.load_module(Ptx::from_src(text))?;
    Ok(module.load_function("other")?)
}

#[test]
fn what_belongs_to_another_context_is_not_loaded() -> Outcome {
    let alone = alone()?;
    choose(Some(|warm| {
        let text = |error: &dyn std::error::Error| error.to_string();
        let other = another().map_err(|error| text(&*error))?;
        let foreign = function_of(&other).map_err(|error| text(&*error))?;
        let own = function_of(warm.context()).map_err(|error| text(&*error))?;
        assert_eq!(warm.load_function(&foreign), Err(LoadError::OtherContext));
        assert_eq!(warm.load_function(&own), Ok(()));
        let mut module = std::ptr::null_mut();
        // SAFETY: the function belongs to a module that stays loaded.
        unsafe {
            let asked = sys::cuFuncGetModule(&mut module, foreign.cu_function());
            assert_eq!(asked, CUresult::CUDA_SUCCESS);
            assert_eq!(warm.load_module(module), Err(LoadError::OtherContext));
        }
        Ok(())
    }));
    warm_all(&alone.context)?;
    Ok(())
}

#[test]
fn a_panic_of_a_hook_reaches_the_caller_and_leaves_the_kernels_warm() -> Outcome {
    let alone = alone()?;
    choose(Some(|_| panic!("as expected")));
    let panicked = panic::catch_unwind(AssertUnwindSafe(|| warm_all(&alone.context).map(drop)));
    assert!(panicked.is_err(), "{panicked:?}");
    launch_saxpy(&alone.context)?;
    choose(None);
    warm_all(&alone.context)?;
    Ok(())
}

#[test]
fn a_hook_that_fails_leaves_the_kernels_warm() -> Outcome {
    let alone = alone()?;
    choose(Some(|_| Err("not today".to_owned())));
    let Err(WarmError::Kernels { report }) = warm_all(&alone.context) else { panic!("a hook failed") };
    assert!(
        matches!(&report.hook_failures[..], [failure] if matches!(failure.cause, HookCause::Returned { .. })),
        "{report}"
    );
    launch_saxpy(&alone.context)?;
    choose(None);
    warm_all(&alone.context)?;
    Ok(())
}
