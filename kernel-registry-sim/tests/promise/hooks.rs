//! Tests of `#[warmup]` functions: the operations that they may do, and their time limit.

use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use kernel_registry::cudarc::driver::sys::{self, CUresult};
use kernel_registry::cudarc::driver::{CudaContext, CudaFunction};
use kernel_registry::cudarc::nvrtc::Ptx;
use kernel_registry::{
    HookCause, LaunchError, PreloadError, WarmContext, WarmError, Warmup, warm_all, warmup,
};

use super::{Outcome, alone, another, launch_saxpy};

/// The body of this program's hook.
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
    choose(Some(|warm| match warm_all(warm.context()) {
        Err(WarmError::InHook { hook }) if hook.ends_with("::hooks::hook") => Ok(()),
        other => Err(format!("{other:?}")),
    }));
    warm_all(&alone.context)?;
    Ok(())
}

/// A kernel that the warm-up does not select would be warmed late, which is the same.
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
    // Others wait for it as long, and no longer.
    let again = Warmup::new().hook_timeout(limit).warm(&alone.context).expect_err("it still runs");
    assert!(matches!(again, WarmError::HookTimedOut { .. }), "{again}");
    warm_all(&alone.context)?;
    Ok(())
}

#[test]
fn a_stack_that_a_hook_lowers_is_raised_again() -> Outcome {
    let alone = alone()?;
    choose(Some(|_| {
        // SAFETY: it concerns the current context.
        unsafe { sys::cuCtxSetLimit(sys::CUlimit::CU_LIMIT_STACK_SIZE, 1024) }
            .result()
            .map_err(|error| error.to_string())
    }));
    let warm = warm_all(&alone.context)?;
    assert!(warm.report().stack >= 2048, "{}", warm.report());
    warm.recheck()?;
    Ok(())
}

/// The module's kernel, through cudarc.
fn function_of(context: &std::sync::Arc<CudaContext>) -> Result<CudaFunction, Box<dyn std::error::Error>> {
    let text = ".version 7.0\n.target sm_60\n.address_size 64\n.visible .entry other() { ret; }\n";
    let module = context.load_module(Ptx::from_src(text))?;
    Ok(module.load_function("other")?)
}

#[test]
fn what_belongs_to_another_context_is_not_preloaded() -> Outcome {
    let alone = alone()?;
    choose(Some(|warm| {
        let text = |error: &dyn std::error::Error| error.to_string();
        let other = another().map_err(|error| text(&*error))?;
        let foreign = function_of(&other).map_err(|error| text(&*error))?;
        let own = function_of(warm.context()).map_err(|error| text(&*error))?;
        assert_eq!(warm.preload_function(&foreign), Err(PreloadError::OtherContext));
        assert_eq!(warm.preload_function(&own), Ok(()));
        let mut module = std::ptr::null_mut();
        // SAFETY: the function is one of a module that stays loaded meanwhile.
        unsafe {
            let asked = sys::cuFuncGetModule(&mut module, foreign.cu_function());
            assert_eq!(asked, CUresult::CUDA_SUCCESS);
            assert_eq!(warm.preload_module(module), Err(PreloadError::OtherContext));
        }
        Ok(())
    }));
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
