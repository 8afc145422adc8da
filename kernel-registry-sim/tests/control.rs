//! Tests faults, delays and recordings that are set by code or by environment variables.

mod child;
mod serial;

use std::error::Error;
use std::ptr;
use std::thread;
use std::time::{Duration, Instant};

use kernel_registry::cudarc::driver::{CudaContext, CudaSlice, sys};
use kernel_registry::{LaunchConfig, warm_all};
use kernel_registry_sim::{Config, Fault, InstallError, live, record_calls};
use kernels::blas1::saxpy;
use serial::Turn;
use sys::CUresult;

kernel_registry::link_kernels!(kernels);

/// Takes a turn, because faults and recordings affect the whole process.
fn alone() -> Turn {
    let turn = serial::take();
    let config = Config::from_environment().contained(true);
    config.install().expect("the simulated driver can be installed");
    turn
}

fn allocate() -> Result<(), CUresult> {
    let mut address = 0;
    // SAFETY: `address` has room for the result, and only allocated memory is freed.
    unsafe {
        match sys::cuMemAlloc_v2(&mut address, 1000) {
            CUresult::CUDA_SUCCESS => assert_eq!(sys::cuMemFree_v2(address), CUresult::CUDA_SUCCESS),
            result => return Err(result),
        }
    }
    Ok(())
}

const NO_MEMORY: Result<(), CUresult> = Err(CUresult::CUDA_ERROR_OUT_OF_MEMORY);

#[test]
fn a_fault_fails_calls_by_their_number_until_it_is_removed() -> Result<(), Box<dyn Error>> {
    let _turn = alone();
    let _context = CudaContext::new(0)?;
    let second = Fault::fails("cuMemAlloc", 2).nth(2).inject()?;
    assert_eq!([allocate(), allocate(), allocate()], [Ok(()), NO_MEMORY, Ok(())]);
    assert_eq!(second.hits(), 1);
    let all: Fault = "cuMemAlloc:2+=CUDA_ERROR_OUT_OF_MEMORY".parse()?;
    let all = all.inject()?;
    assert_eq!([allocate(), allocate(), allocate()], [Ok(()), NO_MEMORY, NO_MEMORY]);
    assert_eq!((all.hits(), second.hits()), (2, 1));
    drop((second, all));
    assert_eq!(allocate(), Ok(()));
    assert_eq!(live().allocations, 0);
    Ok(())
}

#[test]
fn calls_are_recorded_with_their_results() -> Result<(), Box<dyn Error>> {
    let _turn = alone();
    let _context = CudaContext::new(0)?;
    let recording = record_calls();
    let fault = Fault::fails("cuMemAlloc_v2", 2).nth(2).inject()?;
    let _ = (allocate(), allocate());
    drop(fault);
    let calls = recording.calls().into_iter().map(|call| (call.name, call.result));
    let expected = [("cuMemAlloc_v2", 0), ("cuMemFree_v2", 0), ("cuMemAlloc_v2", 2)];
    assert_eq!(calls.collect::<Vec<_>>(), expected);
    Ok(())
}

#[test]
fn a_delay_is_no_failure() -> Result<(), Box<dyn Error>> {
    let _turn = alone();
    let _context = CudaContext::new(0)?;
    let fault: Fault = "cuMemAlloc:1=+30ms".parse()?;
    let fault = fault.inject()?;
    let begun = Instant::now();
    assert_eq!(allocate(), Ok(()));
    assert!(begun.elapsed() >= Duration::from_millis(30));
    assert_eq!(fault.hits(), 1);
    Ok(())
}

/// Slices that another stream has used make a launch wait for that stream. A launch that is refused makes no such call.
#[test]
fn a_refused_launch_makes_no_driver_calls() -> Result<(), Box<dyn Error>> {
    let _turn = alone();
    let context = kernel_registry::context(0)?;
    let _warm = warm_all(&context)?;
    let (stream, other) = (context.new_stream()?, context.new_stream()?);
    let (x, mut y) = (other.clone_htod(&[1.0_f32; 8])?, other.clone_htod(&[2.0_f32; 8])?);
    let called = |config: LaunchConfig, y: &mut CudaSlice<f32>| {
        let recording = record_calls();
        // SAFETY: both vectors have 8 elements.
        let launched = unsafe { saxpy::launch(&stream, config, 8, 3.0, &x, y) };
        let calls: Vec<_> = recording.calls().iter().map(|call| call.name).collect();
        (launched.is_ok(), calls)
    };
    let (launched, calls) = called(saxpy::over(8), &mut y);
    assert!(launched && calls.contains(&"cuStreamWaitEvent"), "{calls:?}");
    assert_eq!(called(saxpy::over(8).block(4096), &mut y), (false, vec![]));
    Ok(())
}

/// An injected error that stands for a failed kernel is sticky in its context. A new context does not have it.
#[test]
fn an_error_of_a_kernel_is_sticky() -> Result<(), Box<dyn Error>> {
    let _turn = alone();
    let context = CudaContext::new(0)?;
    let fault = Fault::fails("cuMemAlloc", 719).nth(1).inject()?;
    let failed = Err(CUresult::CUDA_ERROR_LAUNCH_FAILED);
    assert_eq!([allocate(), allocate()], [failed, failed]);
    assert_eq!(fault.hits(), 1);
    drop(context);
    let _context = CudaContext::new(0)?;
    assert_eq!(allocate(), Ok(()));
    Ok(())
}

#[test]
fn a_fault_that_cannot_happen_is_not_installed() {
    child::run("install_what_cannot_happen", &[]);
}

#[test]
#[ignore = "run by the test above, in a process of its own"]
fn install_what_cannot_happen() {
    let error =
        Config::default().fault(Fault::fails("cuNothing", 1)).install().expect_err("there is no such call");
    assert!(matches!(error, InstallError::Fault(_)) && error.to_string().contains("cuNothing"), "{error}");
}

#[test]
fn environment_variables_configure_everything() {
    let words = child::run(
        "as_the_variables_say",
        &[
            ("KERNEL_REGISTRY_SIM_DEVICES", "t4,h200"),
            ("CUDA_VISIBLE_DEVICES", "1,0"),
            ("KERNEL_REGISTRY_SIM_MEMORY", "8589934592"),
            ("KERNEL_REGISTRY_SIM_FAULTS", "cuMemAlloc:2=CUDA_ERROR_OUT_OF_MEMORY, cuMemAlloc:3=+1ms"),
            ("KERNEL_REGISTRY_SIM_JIT", "soon"),
            ("KERNEL_REGISTRY_SIM_TIMING", "7:20us"),
        ],
    );
    assert!(words.contains("`KERNEL_REGISTRY_SIM_JIT` is `soon`, which cannot be parsed"), "{words}");
    // Images that some devices cannot run are not reported.
    assert!(!words.contains("refused"), "{words}");
}

#[test]
#[ignore = "run by the test above, in a process of its own"]
fn as_the_variables_say() -> Result<(), Box<dyn Error>> {
    kernel_registry_sim::install()?;
    let contexts = kernel_registry::contexts()?;
    let names: Vec<_> = contexts.iter().map(|context| context.name()).collect::<Result<_, _>>()?;
    assert_eq!(names, ["simulated NVIDIA H200", "simulated Tesla T4"]);
    assert_eq!(contexts[0].total_mem()?, 8 << 30);
    assert_eq!([allocate(), allocate(), allocate()], [Ok(()), NO_MEMORY, Ok(())]);
    warm_all(&contexts[0])?;
    Ok(())
}

/// Each seed makes the threads run in another order. Results must not depend on the order.
#[test]
fn warming_and_launching_work_in_any_order_of_threads() {
    for seed in 1..=8 {
        child::run("four_threads_at_once", &[("KERNEL_REGISTRY_SIM_TIMING", &format!("{seed}:300us"))]);
    }
}

#[test]
#[ignore = "run by the test above, in a process of its own"]
fn four_threads_at_once() -> Result<(), Box<dyn Error>> {
    kernel_registry_sim::install()?;
    let warm_and_launch = || -> Result<(), Box<dyn Error>> {
        let context = kernel_registry::context(0)?;
        let warm = warm_all(&context)?;
        assert!(warm.report().verified);
        let stream = context.new_stream()?;
        let x = stream.clone_htod(&[1.0_f32; 500])?;
        let mut y = stream.clone_htod(&[2.0_f32; 500])?;
        for _ in 0..3 {
            // SAFETY: both vectors have 500 elements.
            unsafe { saxpy::launch(&stream, saxpy::over(500), 500, 3.0, &x, &mut y)? };
        }
        assert!(stream.clone_dtoh(&y)?.iter().all(|y| *y == 11.0));
        Ok(warm.recheck()?)
    };
    let failed: Vec<_> = thread::scope(|scope| {
        let threads: Vec<_> =
            (0..4).map(|_| scope.spawn(|| warm_and_launch().map_err(|error| error.to_string()))).collect();
        threads.into_iter().filter_map(|thread| thread.join().expect("no thread panics").err()).collect()
    });
    assert!(failed.is_empty(), "{failed:?}");
    Ok(())
}

/// Several threads compile libraries at the same time, but modules one after the other, as was measured.
#[test]
fn only_libraries_are_compiled_in_parallel() {
    child::run("compile_in_four_threads", &[("KERNEL_REGISTRY_SIM_JIT", "100ms")]);
}

#[test]
#[ignore = "run by the test above, in a process of its own"]
fn compile_in_four_threads() -> Result<(), Box<dyn Error>> {
    kernel_registry_sim::install()?;
    let context = kernel_registry::context(0)?;
    let filler = "// nothing\n".repeat(90);
    let text =
        format!(".version 8.0\n.target sm_80\n.address_size 64\n{filler}.visible .entry k() {{ ret; }}\n\0");
    assert!((1000..1100).contains(&text.len()), "a KiB: {}", text.len());
    let time = |load: fn(*const std::ffi::c_void) -> CUresult| {
        let begun = Instant::now();
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    context.bind_to_thread().expect("there is a context");
                    assert_eq!(load(text.as_ptr().cast()), CUresult::CUDA_SUCCESS);
                });
            }
        });
        begun.elapsed().as_millis()
    };
    let modules = || {
        time(|text| {
            let mut module = ptr::null_mut();
            // SAFETY: the text ends with a zero byte.
            unsafe { sys::cuModuleLoadData(&mut module, text) }
        })
    };
    let libraries = || {
        time(|text| {
            let mut library = ptr::null_mut();
            let (options, values) = (ptr::null_mut(), ptr::null_mut());
            // SAFETY: the text ends with a zero byte, and there are no options.
            unsafe {
                let none = ptr::null_mut();
                sys::cuLibraryLoadData(&mut library, text, options, values, 0, none, ptr::null_mut(), 0)
            }
        })
    };
    // On a busy machine both take longer, so the comparison is repeated.
    for _ in 0..5 {
        let (module, library) = (modules(), libraries());
        assert!(module >= 400 && library >= 100, "{module} and {library} ms");
        if library * 2 < module {
            return Ok(());
        }
    }
    Err("libraries are compiled one after the other, like modules".into())
}
