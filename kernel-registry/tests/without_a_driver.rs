//! Tests calls without a driver, and that the compiler accepts every kind of argument in a launch.

use std::sync::Arc;

use kernel_registry::cudarc::driver::{self, CudaSlice, CudaStream, CudaView, CudaViewMut, DriverError, sys};
use kernel_registry::{
    DeviceAddress, DriverUnavailable, Kernel, LaunchConfig, LaunchError, MainError, PointerTo, PointerToMut,
    gpu_kernel,
};

/// y = a*x + y
#[gpu_kernel(image = "tests/images/saxpy.ptx", block = 128, shared = 64)]
pub unsafe fn saxpy(n: u32, a: f32, x: &[f32], y: &mut [f32]);

/// The sum of each block.
#[gpu_kernel(image = "tests/images/reduce.ptx", instances(<f32, 128>, <f64, 256>), block = BLOCK)]
pub unsafe fn reduce<T, const BLOCK: u32>(x: &[T], out: &mut [T], n: u32);

/// The parameters have names that the generated `launch` uses itself.
#[gpu_kernel(image = "tests/images/saxpy.ptx", name = "saxpy")]
pub unsafe fn named(stream: u32, config: f32, launch: *const f32, args: *mut f32);

/// Passes every type that can be passed for a slice. This function is compiled but never run.
#[allow(dead_code)]
fn slices_and_views(
    stream: &Arc<CudaStream>,
    slice: &CudaSlice<f32>,
    view: &CudaView<'_, f32>,
    slice_mut: &mut CudaSlice<f32>,
    view_mut: &mut CudaViewMut<'_, f32>,
) -> Result<(), LaunchError> {
    let cudarcs = driver::LaunchConfig::for_num_elems(1);
    // SAFETY: this function is never called.
    unsafe {
        saxpy::launch(stream, saxpy::over(1), 1, 2.0, slice, slice_mut)?;
        saxpy::launch(stream, saxpy::over(1).grid(4).cooperative(), 1, 2.0, view, view_mut)?;
        saxpy::launch(stream, cudarcs, 1, 2.0, slice_mut, view_mut)?;
        reduce::<f32, 128>::launch(stream, reduce::<f32, 128>::over(1), view, view_mut, 1)?;
        let address = DeviceAddress(0);
        named::launch(stream, named::over(1), 1, 2.0, address, std::ptr::null_mut())
    }
}

/// Launches an instance of a generic kernel, in a function that is generic over the instance.
#[allow(dead_code)]
fn generic<T, const BLOCK: u32>(
    stream: &CudaStream,
    x: &CudaSlice<T>,
    out: &mut CudaSlice<T>,
) -> Result<(), LaunchError>
where
    reduce<T, BLOCK>: Kernel,
{
    // SAFETY: this function is never called.
    unsafe { reduce::<T, BLOCK>::launch(stream, reduce::<T, BLOCK>::over(1), x, out, 1) }
}

#[test]
fn pointers_of_every_kind_are_addresses() {
    fn read<T>(pointer: impl PointerTo<T>) -> sys::CUdeviceptr {
        pointer.address()
    }
    fn write<T>(pointer: impl PointerToMut<T>) -> sys::CUdeviceptr {
        pointer.address()
    }
    let address = 0x7f00_0000_1000_u64;
    let (pointer, untyped) = (address as *mut f32, DeviceAddress(address));
    assert_eq!([read::<f32>(pointer), read(pointer.cast_const()), read::<f32>(untyped)], [address; 3]);
    assert_eq!([write::<f32>(pointer), write::<f32>(untyped)], [address; 2]);
}

#[test]
fn launches_have_the_declared_block_and_shared_memory() {
    assert_eq!(saxpy::over(1000), saxpy::INFO.over(1000));
    assert_eq!(saxpy::over(1000), LaunchConfig::new([8, 1, 1], [128, 1, 1]).shared(64));
    assert_eq!(saxpy::INFO.config((3, 2)).grid, [3, 2, 1]);
}

#[test]
#[cfg_attr(miri, ignore = "Miri opens no libraries")]
fn a_missing_driver_is_an_error_and_no_panic() {
    // The test passes with and without a driver on this machine.
    // The simulated driver is for Linux.
    let simulated = if cfg!(target_os = "linux") {
        "; without a GPU `cargo kernels sim PROGRAM` runs it on a simulated driver"
    } else {
        ""
    };
    assert_eq!(
        DriverUnavailable::Missing.to_string(),
        format!(
            "no CUDA driver: `libcuda.so` (`nvcuda.dll` on Windows) was not found; install NVIDIA's driver, or start the \
             container with its GPUs{simulated}"
        )
    );
    let is_there = kernel_registry_cudarc::has_driver();
    match kernel_registry::context(0) {
        Err(DriverUnavailable::Missing) => assert!(!is_there),
        // The driver is there, with or without a device.
        Err(DriverUnavailable::Failed(_) | DriverUnavailable::TooOld { .. }) | Ok(_) => assert!(is_there),
        Err(error) => panic!("{error}"),
    }
}

/// The driver has the texts of its errors, and cudarc panics when it asks a driver that is missing.
#[test]
#[cfg_attr(miri, ignore = "Miri opens no libraries")]
fn an_error_of_cudarc_is_printed_without_a_driver() {
    let error = DriverError(sys::CUresult::CUDA_ERROR_INVALID_VALUE);
    let printed = format!("{:?}", MainError::from(error));
    assert!(printed.starts_with("the driver returned CUDA_ERROR_INVALID_VALUE (1)"), "{printed}");
}

#[cfg(feature = "adopt")]
#[test]
fn nothing_is_adopted_where_the_driver_is_opened_at_run_time() {
    const PTX: &str = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k()\n{\n\tret;\n}\n";
    let refused = kernel_registry::RuntimeImage::new("adopted.ptx", PTX).adopt().register().unwrap_err();
    let text = refused.to_string();
    assert!(text.contains("`dynamic-linking`") && text.contains("`kernel-audit --preload`"), "{text}");
    assert!(kernel_registry::find("adopted.ptx::k").is_err(), "nothing is registered");
}
