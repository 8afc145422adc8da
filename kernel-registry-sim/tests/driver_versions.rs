//! Tests drivers of several versions: which functions they lack, and what kernel-registry does without these.

mod child;
mod saxpy_check;

use std::error::Error;
use std::ffi::{CStr, c_void};
use std::ptr;

use kernel_registry::cudarc::driver::{CudaContext, sys};
use kernel_registry::{WarmError, warm_all};
use kernel_registry_sim::Config;
use sys::CUresult;

kernel_registry::link_kernels!(kernels);

fn on(driver: &str, test: &str) -> String {
    child::run(test, &[("KERNEL_REGISTRY_SIM_DRIVER", driver)])
}

#[test]
fn a_driver_that_can_tell_whether_kernels_are_loaded() {
    for driver in ["13.0", "12.4", "12.6"] {
        let words = on(driver, "warm_and_launch");
        assert!(words.contains(&format!("driver for CUDA {driver}, lazy")), "{words}");
        assert!(words.contains("every kernel verified") && words.contains("it computes"), "{words}");
    }
}

#[test]
fn a_driver_that_cannot_tell_says_so_in_the_report() {
    for driver in ["12.0", "12.3"] {
        let words = on(driver, "warm_and_launch");
        assert!(words.contains(&format!("driver for CUDA {driver}, lazy")), "{words}");
        assert!(words.contains("not verified: drivers before 12.4 cannot tell"), "{words}");
        assert!(words.contains("it computes"), "{words}");
    }
}

#[test]
fn a_driver_that_is_too_old_is_an_error_that_says_which_to_install() {
    for driver in ["11.8", "11.4"] {
        let words = on(driver, "refuse");
        let expected = format!(
            "the CUDA driver supports CUDA {driver}, and kernels are warmed with functions of CUDA 12.0"
        );
        assert!(
            words.contains(&expected) && words.contains("install a driver of the 525 series or newer"),
            "{words}"
        );
    }
}

#[test]
fn functions_exist_from_their_version_on() {
    for driver in ["11.8", "12.0", "12.4", "13.0"] {
        on(driver, "find_functions");
    }
}

#[test]
fn ptx_that_is_newer_than_the_driver_is_refused() {
    for (driver, newest) in
        [("12.0", "8.0"), ("12.4", "8.4"), ("12.6", "8.5"), ("12.8", "8.7"), ("13.0", "9.0")]
    {
        let words = on(driver, "load_ptx_of_every_age");
        assert!(words.contains(&format!("the newest PTX is {newest}\n")), "{driver}: {words}");
    }
}

#[test]
#[ignore = "run by the tests above, for one driver version"]
fn warm_and_launch() -> Result<(), Box<dyn Error>> {
    kernel_registry_sim::install()?;
    let context = kernel_registry::context(0)?;
    let warm = warm_all(&context)?;
    println!("{}", warm.report());
    saxpy_check::saxpy(&context, 1000)?;
    println!("it computes");
    warm.recheck()?;
    Ok(())
}

#[test]
#[ignore = "run by the tests above, for one driver version"]
fn refuse() -> Result<(), Box<dyn Error>> {
    kernel_registry_sim::install()?;
    println!("{}", kernel_registry::context(0).expect_err("it is too old"));
    // A context that was created without kernel-registry gets the same error.
    let error = warm_all(&CudaContext::new(0)?).expect_err("it is too old");
    assert!(matches!(error, WarmError::DriverUnavailable(_)), "{error}");
    println!("{error}");
    Ok(())
}

/// Status values of `cuGetProcAddress_v2`.
const FOUND: u32 = 0;
const NOT_FOUND: u32 = 1;
const VERSION_NOT_SUFFICIENT: u32 = 2;

#[test]
#[ignore = "run by the tests above, for one driver version"]
fn find_functions() -> Result<(), Box<dyn Error>> {
    kernel_registry_sim::install()?;
    let mut driver = 0;
    // SAFETY: `driver` has room for the result.
    unsafe { sys::cuDriverGetVersion(&mut driver).result()? };
    // SAFETY: the name ends with a zero byte, and the library of that name is simulated.
    let library = unsafe { libc::dlopen(c"libcuda.so".as_ptr(), libc::RTLD_NOW) };
    // SAFETY: the library is open, and the names end with zero bytes.
    let exported = |name: &CStr| !unsafe { libc::dlsym(library, name.as_ptr()) }.is_null();
    for (name, since) in [
        (c"cuCtxSetCurrent", 4000),
        (c"cuMemAllocAsync", 11_020),
        (c"cuModuleGetLoadingMode", 11_070),
        (c"cuLibraryLoadData", 12_000),
        (c"cuCtxGetId", 12_000),
        (c"cuFuncLoad", 12_040),
        (c"cuFuncIsLoaded", 12_040),
        (c"cuCtxCreate_v4", 12_050),
        (c"cuEventElapsedTime_v2", 12_080),
        (c"cuMemGetMemPool", 13_000),
        (c"cuLaunchHostFunc_v2", 13_020),
    ] {
        assert_eq!(exported(name), since <= driver, "{name:?}");
    }
    if driver < 12_000 {
        assert!(!exported(c"cuGetProcAddress_v2") && exported(c"cuGetProcAddress"));
        return Ok(());
    }
    let ask = |name: &CStr, version| {
        let (mut address, mut status) = (ptr::null_mut::<c_void>(), u32::MAX);
        // SAFETY: the name ends with a zero byte, and there is room for both results. The status is a 32-bit
        // enumeration.
        let result = unsafe {
            sys::cuGetProcAddress_v2(name.as_ptr(), &mut address, version, 0, (&raw mut status).cast())
        };
        assert_eq!(result == CUresult::CUDA_SUCCESS, !address.is_null());
        status
    };
    assert_eq!(ask(c"cuLibraryLoadData", driver), FOUND);
    assert_eq!(ask(c"cuNothing", driver), NOT_FOUND);
    let load = ask(c"cuFuncLoad", driver);
    assert_eq!(load, if driver < 12_040 { NOT_FOUND } else { FOUND });
    // A program that was built for an older CUDA does not get functions that this older version lacks.
    if driver >= 12_040 {
        assert_eq!(ask(c"cuFuncLoad", 12_000), VERSION_NOT_SUFFICIENT);
    }
    Ok(())
}

#[test]
#[ignore = "run by the tests above, for one driver version"]
fn load_ptx_of_every_age() -> Result<(), Box<dyn Error>> {
    Config::from_environment().install()?;
    let context = kernel_registry::context(0)?;
    context.bind_to_thread()?;
    let mut newest = "";
    for version in ["7.8", "8.0", "8.1", "8.4", "8.5", "8.6", "8.7", "8.8", "9.0", "9.1"] {
        let text = format!(
            ".version {version}\n.target sm_80\n.address_size 64\n.visible .entry k() {{ ret; }}\n\0"
        );
        let mut module = ptr::null_mut();
        // SAFETY: the text ends with a zero byte.
        match unsafe { sys::cuModuleLoadData(&mut module, text.as_ptr().cast()) } {
            CUresult::CUDA_SUCCESS => newest = version,
            result => assert_eq!(result, CUresult::CUDA_ERROR_UNSUPPORTED_PTX_VERSION, "PTX {version}"),
        }
    }
    println!("the newest PTX is {newest}");
    Ok(())
}
