//! Tests a driver with a configured version, configured devices and eager loading.

use std::error::Error;

use kernel_registry::cudarc::driver::{CudaContext, sys};
use kernel_registry::warm_all;
use kernel_registry_sim::Config;

kernel_registry::link_kernels!(kernels);

/// A driver before CUDA 12.4 has no call that tells whether a kernel is loaded. Clusters need sm_90.
#[test]
fn an_old_driver_with_two_old_devices_that_loads_eagerly() -> Result<(), Box<dyn Error>> {
    let config = Config::default().driver((12, 0)).devices(2).arch(80).processors(108).memory(40 << 30);
    config.eager(true).install()?;
    // A second configuration changes nothing.
    Config::default().install()?;
    let contexts = kernel_registry::contexts()?;
    assert_eq!(contexts.len(), 2);
    assert_eq!(contexts[1].compute_capability()?, (8, 0));
    assert_eq!(contexts[1].total_mem()?, 40 << 30);

    let warm = warm_all(&contexts[0])?;
    let report = warm.report();
    assert!(!report.verified && !report.loads_lazily);
    assert!(report.unavailable.iter().any(|kernel| kernel.path.ends_with("pair_sum")));
    contexts.iter().try_for_each(|context| warm_all(context).map(drop))?;

    let mut address = std::ptr::null_mut();
    // SAFETY: the name ends with a zero byte, and the pointer to the status may be null.
    let looked_up = |name: &std::ffi::CStr, address: &mut _| unsafe {
        sys::cuGetProcAddress_v2(name.as_ptr(), address, 13_000, 0, std::ptr::null_mut())
    };
    assert_eq!(looked_up(c"cuFuncIsLoaded", &mut address), sys::CUresult::CUDA_ERROR_NOT_FOUND);
    looked_up(c"cuLibraryLoadData", &mut address).result()?;
    assert!(!address.is_null());
    assert_eq!(CudaContext::device_count()?, 2);
    Ok(())
}
