//! Tests of warming and launching on the simulated driver, and of the errors of both.

mod saxpy_check;
mod serial;

use std::error::Error;
use std::sync::Arc;

use kernel_registry::cudarc::driver::{CudaContext, sys};
use kernel_registry::{Late, Warm, WarmError, Warmup, find, warm_all};
use kernel_registry_sim::Config;
use kernels::diagnose::check_finite;
use serial::Turn;

kernel_registry::link_kernels!(kernels);

/// Waits for the test's turn, and opens the device. Tests run one at a time, because one measures free memory, which
/// others allocate. The caller drops the turn last.
fn device() -> Result<(Turn, Arc<CudaContext>), Box<dyn Error>> {
    let turn = serial::take();
    Config::default().contained(true).install()?;
    Ok((turn, kernel_registry::context(0)?))
}

#[test]
fn every_kernel_of_the_sample_crate_is_warm_and_launches() -> Result<(), Box<dyn Error>> {
    let (_turn, context) = device()?;
    let before = context.mem_get_info()?.0;
    let warm = warm_all(&context)?;
    let report = warm.report();
    assert!(report.verified && report.loads_lazily);
    assert_eq!(report.kernels.len(), kernel_registry::kernels()?.len());
    // A frame of 2 KiB takes 264 MiB more memory on such a device, as was measured.
    assert!(report.stack >= 2048);
    assert!(before - context.mem_get_info()?.0 >= 264 << 20);
    saxpy_check::saxpy(&context, 10_000)
}

#[test]
fn a_warm_up_of_no_kernel_says_so() -> Result<(), Box<dyn Error>> {
    let (_turn, context) = device()?;
    let said = |warm: &Warm| {
        warm.report().to_string().contains("\nNOTHING TO WARM: this program registers no kernel, or ")
    };
    assert!(said(&Warmup::new().only(|_| false).late(Late::Allow).warm(&context)?));
    assert!(!said(
        &Warmup::new().only(|kernel| kernel == check_finite::INFO).late(Late::Allow).warm(&context)?
    ));
    Ok(())
}

#[test]
fn a_crate_that_was_not_linked_is_an_error() -> Result<(), Box<dyn Error>> {
    let (_turn, context) = device()?;
    let warm = |crates: &[&str]| {
        Warmup::new().only(|_| false).late(Late::Allow).expect(crates.iter().copied()).warm(&context)
    };
    assert!(warm(&[]).is_ok() && warm(&["kernels"]).is_ok());
    let error = warm(&["kernels", "attention-kernels"]).unwrap_err();
    let WarmError::NotRegistered { missing, registered } = &error else { panic!("{error}") };
    assert_eq!((&**missing, &**registered), (&["attention-kernels".to_owned()][..], &["kernels"][..]));
    assert_eq!(
        error.to_string(),
        "no kernel of `attention-kernels` is registered, kernels of `kernels` are: rustc links no crate that the code never names, so \
         write `kernel_registry::link_kernels!(attention_kernels);` in the program, or correct the name in `Warmup::expect`"
    );
    Ok(())
}

/// A handle of a destroyed object is refused, and not dereferenced.
#[test]
fn handles_of_destroyed_objects_are_refused() -> Result<(), Box<dyn Error>> {
    let (_turn, context) = device()?;
    context.bind_to_thread()?;
    // SAFETY: the simulated driver returns an error for invalid handles and addresses.
    unsafe {
        let mut stream = std::ptr::null_mut();
        sys::cuStreamCreate(&mut stream, 1).result()?;
        sys::cuStreamDestroy_v2(stream).result()?;
        assert_eq!(sys::cuStreamSynchronize(stream), sys::CUresult::CUDA_ERROR_INVALID_HANDLE);
        assert_eq!(sys::cuStreamDestroy_v2(stream), sys::CUresult::CUDA_ERROR_INVALID_HANDLE);

        let mut memory = 0;
        sys::cuMemAlloc_v2(&mut memory, 1000).result()?;
        assert_eq!(sys::cuMemFree_v2(memory + 4), sys::CUresult::CUDA_ERROR_INVALID_VALUE);
        assert_eq!(sys::cuMemsetD8_v2(memory, 1, 1001), sys::CUresult::CUDA_ERROR_INVALID_VALUE);
        sys::cuMemFree_v2(memory).result()?;
        assert_eq!(sys::cuMemFree_v2(memory), sys::CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    Ok(())
}

/// An access beyond the end of memory is an error of its context. Other contexts have no error if faults are contained.
#[test]
fn a_contained_fault_is_an_error_of_its_context_only() -> Result<(), Box<dyn Error>> {
    let (_turn, context) = device()?;
    let device = context.cu_device();
    // SAFETY: the context is new, and only the `CudaContext` uses it from here on.
    let other = unsafe {
        let mut other = std::ptr::null_mut();
        sys::cuCtxCreate_v4(&mut other, std::ptr::null_mut(), 0, device).result()?;
        CudaContext::from_raw_context(0, device, other)?
    };
    drop(warm_all(&other)?);
    let stream = other.new_stream()?;
    let x = stream.alloc_zeros::<f32>(16)?;
    // SAFETY: the vector is shorter than the length that is passed, which a simulated device detects.
    unsafe { check_finite::launch(&stream, check_finite::over(100_000), 100_000, &x)? };
    let broken = stream.synchronize().expect_err("it reads beyond the end");
    assert_eq!(broken.0, sys::CUresult::CUDA_ERROR_ILLEGAL_ADDRESS);
    assert!(other.new_stream().is_err(), "the context has the error from then on");
    context.new_stream()?.synchronize()?;
    assert!(find("kernels::blas1::saxpy").is_ok());
    Ok(())
}
