//! Tests each call of a program whose images are loaded, with each result.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use kernel_registry::WarmError;
use kernel_registry::cudarc::driver::{CudaContext, sys};
use kernel_registry_sim::{Call, Live, live, record_calls};
use kernels::blas1::saxpy;

use super::expected::{Case, ends_context, said};
use super::program::{self, Vectors};
use super::{alone, child, within};

/// Records the calls of each step: getting a context, warming it, launching, rechecking, and dropping everything.
fn record() -> Result<[Vec<Call>; 5], Box<dyn Error>> {
    let recording = record_calls();
    let context = kernel_registry::context(0)?;
    let for_context = recording.calls();
    let mut vectors = Vectors::new(&context)?;
    let recording = record_calls();
    let warm = program::warm(&context)?;
    let for_warming = recording.calls();
    let recording = record_calls();
    vectors.launch()?;
    let for_launching = recording.calls();
    vectors.check(1)?;
    let recording = record_calls();
    warm.recheck()?;
    let for_asking = recording.calls();
    let recording = record_calls();
    drop((warm, vectors, context));
    Ok([for_context, for_warming, for_launching, for_asking, recording.calls()])
}

/// Returns the live objects after a program without faults: only its libraries.
fn settled() -> Result<Live, Box<dyn Error>> {
    program::run()?;
    // In the second run the libraries are loaded already.
    program::run()?;
    let live = live();
    assert_eq!((live.contexts, live.streams, live.modules, live.allocations), (0, 0, 0, 0));
    assert!(live.libraries > 0);
    Ok(live)
}

fn each(
    cases: &[Case],
    what: impl Fn(Case) -> Result<bool, Box<dyn Error>> + Copy + Send + 'static,
) -> usize {
    let mut wrong = Vec::new();
    let mut errors = 0;
    for case in cases {
        let case = *case;
        let what = move || what(case).map_err(|error| error.to_string());
        match within(Duration::from_secs(20), format!("{case:?}"), what) {
            Ok(is_error) => errors += usize::from(is_error),
            Err(words) => wrong.push(format!("{case:?}: {words}")),
        }
    }
    assert!(wrong.is_empty(), "{} of {} went wrong:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
    errors
}

/// Fails if there are other live objects than after a program that succeeded.
fn nothing_is_left(than: Live) -> Result<(), Box<dyn Error>> {
    match live() {
        live if live == than => Ok(()),
        live => Err(format!("{live:?} is left, and not {than:?}").into()),
    }
}

/// Checks that no objects are left, that a program now succeeds, and that it leaves no objects either.
fn all_is_well(before: Live) -> Result<(), Box<dyn Error>> {
    nothing_is_left(before)?;
    program::run().map_err(|error| format!("in a new context: {error}"))?;
    nothing_is_left(before)
}

#[test]
fn getting_a_context_fails() -> Result<(), Box<dyn Error>> {
    let _turn = alone();
    let before = settled()?;
    let [calls, ..] = record()?;
    let cases = Case::all(&calls);
    let errors = each(&cases, move |case| {
        let found = case.during(|| kernel_registry::context(0))?;
        let Err(error) = found else { return Err("it is no error".into()) };
        let words = said(&error);
        if !case.is_named_in(&words) {
            return Err(words.into());
        }
        if case.call == "cuDeviceGetAttribute" {
            // cudarc does not release the reference that it has just taken.
            // SAFETY: this call releases that reference, and there is no other.
            unsafe { sys::cuDevicePrimaryCtxRelease_v2(0) };
        }
        program::run().map_err(|error| format!("trying again: {error}"))?;
        nothing_is_left(before)?;
        Ok(true)
    });
    assert_eq!(errors, cases.len());
    Ok(())
}

#[test]
fn warming_fails() -> Result<(), Box<dyn Error>> {
    let _turn = alone();
    warming_fails_with(|_| true)
}

/// An older driver gets other calls. None of its calls tells whether a kernel is loaded. Kernels are loaded with their
/// image.
#[test]
fn warming_fails_on_an_older_driver_that_loads_eagerly() {
    let older = [("KERNEL_REGISTRY_SIM_DRIVER", "12.0"), ("CUDA_MODULE_LOADING", "EAGER")];
    child::run("matrix::warming_fails_as_the_variables_say", &older);
}

#[test]
#[ignore = "run by the test above, in a process of its own"]
fn warming_fails_as_the_variables_say() -> Result<(), Box<dyn Error>> {
    let _turn = alone();
    warming_fails_with(|case| matches!(case.name, "CUDA_ERROR_OUT_OF_MEMORY" | "CUDA_ERROR_ILLEGAL_ADDRESS"))
}

fn warming_fails_with(is_tested: impl Fn(&Case) -> bool) -> Result<(), Box<dyn Error>> {
    let before = settled()?;
    let [_, calls, ..] = record()?;
    assert!(calls.len() > 300, "{}", calls.len());
    let mut cases = Case::all(&calls);
    cases.retain(is_tested);
    let errors = each(&cases, move |case| {
        let is_error = warming_fails_once(case)?;
        if ends_context(case.result) {
            all_is_well(before)?
        } else {
            nothing_is_left(before)?
        }
        Ok(is_error)
    });
    assert!(errors * 10 > cases.len() * 9, "{errors} of {}", cases.len());
    Ok(())
}

/// Returns whether a kernel is warm, without warming it late.
fn is_warm(context: &Arc<CudaContext>) -> bool {
    let recording = record_calls();
    saxpy::INFO.cu_function(context).is_ok()
        && recording.calls().iter().all(|call| call.name != "cuLibraryGetKernel")
}

fn warming_fails_once(case: Case) -> Result<bool, Box<dyn Error>> {
    let context = kernel_registry::context(0)?;
    let warmed = case.during(|| program::warm(&context))?;
    let is_error = match warmed {
        Ok(_) if case.is_tolerated() => false,
        Ok(_) => return Err("it is no error".into()),
        Err(error) => {
            check_words(&error, case)?;
            if matches!(error, WarmError::Driver { .. }) && is_warm(&context) {
                return Err(format!("kernels are warm, and the error is {error}").into());
            }
            true
        }
    };
    if !ends_context(case.result) {
        program::run_in(&context).map_err(|error| format!("trying again: {error}"))?;
    }
    Ok(is_error)
}

/// Checks that the error names the call and the result, and each failure its kernel and its image, if it has one.
fn check_words(error: &WarmError, case: Case) -> Result<(), Box<dyn Error>> {
    let words = said(error);
    if let WarmError::Kernels { report } = error {
        for failure in &report.failures {
            let line = failure.to_string();
            let image = failure.image.unwrap_or("without image");
            if !line.contains(failure.kernel) || !line.contains(image) {
                return Err(format!("kernel or image are not named: {line}").into());
            }
        }
    }
    let names_kernel =
        ["kernel `", " kernels, `", "kernel-registry's own kernels"].iter().any(|name| words.contains(name));
    if case.is_about_a_kernel() && !names_kernel && !case.is_tolerated() {
        return Err(format!("no kernel is named: {words}").into());
    }
    if case.is_named_in(&words) { Ok(()) } else { Err(words.into()) }
}

#[test]
fn launching_fails() -> Result<(), Box<dyn Error>> {
    let _turn = alone();
    let before = settled()?;
    let [_, _, calls, ..] = record()?;
    let cases = Case::all(&calls);
    let errors = each(&cases, move |case| {
        let is_error = launching_fails_once(case)?;
        all_is_well(before)?;
        Ok(is_error)
    });
    assert!(errors > 0);
    Ok(())
}

fn launching_fails_once(case: Case) -> Result<bool, Box<dyn Error>> {
    let context = kernel_registry::context(0)?;
    let warm = program::warm(&context)?;
    let mut vectors = Vectors::new(&context)?;
    let launched = case.during(|| vectors.launch())?;
    let mut launches = 1;
    let is_error = match &launched {
        Err(error) => {
            let words = said(error);
            if !words.contains("kernels::blas1::saxpy") || !case.is_named_in(&words) {
                return Err(words.into());
            }
            launches = 0;
            true
        }
        // cudarc records and waits for events before and after the launch. It keeps an error of these calls for its
        // next call.
        Ok(()) => {
            if context.check_err().is_ok() {
                return Err("it is no error, now or later".into());
            }
            false
        }
    };
    drop(warm);
    if ends_context(case.result) {
        return Ok(is_error);
    }
    // If all calls fail, some of them may be cudarc's, so cudarc may have kept an error as well.
    if context.check_err().is_err() && launched.is_err() && case.number != 0 {
        return Err("an error was returned, and kept too".into());
    }
    vectors.launch().map_err(|error| format!("trying again: {error}"))?;
    vectors.check(launches + 1)?;
    Ok(is_error)
}

#[test]
fn rechecking_fails() -> Result<(), Box<dyn Error>> {
    let _turn = alone();
    let before = settled()?;
    let [_, _, _, calls, _] = record()?;
    let cases = Case::all(&calls);
    each(&cases, move |case| {
        rechecking_fails_once(case)?;
        nothing_is_left(before)?;
        Ok(true)
    });
    Ok(())
}

fn rechecking_fails_once(case: Case) -> Result<(), Box<dyn Error>> {
    let context = kernel_registry::context(0)?;
    let warm = program::warm(&context)?;
    let asked = case.during(|| warm.recheck())?;
    match asked {
        Err(stale) if case.is_named_in(&said(&stale)) => {}
        Ok(()) if case.is_tolerated() => {}
        other => return Err(format!("{other:?}").into()),
    }
    if ends_context(case.result) { Ok(()) } else { Ok(warm.recheck()?) }
}

/// Errors during a drop cannot be returned. But nothing panics, and objects that remain are destroyed with the context.
#[test]
fn dropping_fails() -> Result<(), Box<dyn Error>> {
    let _turn = alone();
    let before = settled()?;
    let [.., calls] = record()?;
    let cases = Case::all(&calls);
    each(&cases, move |case| {
        dropping_fails_once(case)?;
        all_is_well(before)?;
        Ok(true)
    });
    Ok(())
}

fn dropping_fails_once(case: Case) -> Result<(), Box<dyn Error>> {
    let context = kernel_registry::context(0)?;
    let warm = program::warm(&context)?;
    let mut vectors = Vectors::new(&context)?;
    vectors.launch()?;
    vectors.check(1)?;
    case.during(|| drop((warm, vectors, context)))?;
    if case.call == "cuDevicePrimaryCtxRelease_v2" {
        // SAFETY: the release failed, so the reference still exists, and only this test has it.
        unsafe { sys::cuDevicePrimaryCtxRelease_v2(0).result()? };
    }
    Ok(())
}
