//! A fake driver of CUDA 12.3 with one GPU, which has only the functions that `cargo kernels doctor` calls. The test compiles
//! this file as a libcuda.so.

#![allow(non_snake_case)]

use std::env;
use std::ffi::{c_char, c_int, c_uint, c_void};
use std::ptr;

const STUB_LIBRARY: c_int = 34;
const NO_DEVICE: c_int = 100;
const EXCLUSIVE_PROCESS: c_int = 3;

/// Returns whether the test asks for this kind of driver.
fn is(what: &str) -> bool {
    env::var("FAKE_DRIVER").is_ok_and(|value| value == what)
}

#[unsafe(no_mangle)]
extern "C" fn cuDriverGetVersion(version: &mut c_int) -> c_int {
    *version = 12030;
    if is("a stub") { STUB_LIBRARY } else { 0 }
}

#[unsafe(no_mangle)]
extern "C" fn cuInit(flags: c_uint) -> c_int {
    assert_eq!(flags, 0);
    if is("without a device") { NO_DEVICE } else { 0 }
}

#[unsafe(no_mangle)]
extern "C" fn cuGetErrorName(code: c_int, name: &mut *const c_char) -> c_int {
    *name = match code {
        NO_DEVICE => c"CUDA_ERROR_NO_DEVICE".as_ptr(),
        _ => ptr::null(),
    };
    0
}

#[unsafe(no_mangle)]
extern "C" fn cuModuleGetLoadingMode(mode: &mut c_uint) -> c_int {
    *mode = 2;
    0
}

#[unsafe(no_mangle)]
extern "C" fn cuDeviceGetCount(count: &mut c_int) -> c_int {
    *count = 1;
    0
}

#[unsafe(no_mangle)]
extern "C" fn cuDeviceGet(device: &mut c_int, ordinal: c_int) -> c_int {
    assert_eq!(ordinal, 0);
    *device = 7;
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceGetName(name: *mut c_char, room: c_int, device: c_int) -> c_int {
    assert_eq!(device, 7);
    let text = c"Fake GPU".to_bytes_with_nul();
    assert!(text.len() <= room as usize);
    // SAFETY: the caller's buffer has room for the text.
    unsafe { ptr::copy_nonoverlapping(text.as_ptr(), name.cast(), text.len()) };
    0
}

#[unsafe(no_mangle)]
extern "C" fn cuDeviceTotalMem_v2(bytes: &mut usize, _device: c_int) -> c_int {
    *bytes = 16 << 30;
    0
}

#[unsafe(no_mangle)]
extern "C" fn cuDeviceGetAttribute(value: &mut c_int, which: c_int, _device: c_int) -> c_int {
    // The numbers of the attributes are those of cuda.h.
    *value = match which {
        16 => 40,
        17 => 1,
        20 => EXCLUSIVE_PROCESS,
        39 => 1024,
        75 => 8,
        76 => 6,
        // The attribute for MPS is newer than this driver.
        _ => return 1,
    };
    0
}

#[unsafe(no_mangle)]
extern "C" fn cuDevicePrimaryCtxRetain(context: &mut *mut c_void, _device: c_int) -> c_int {
    *context = ptr::without_provenance_mut(64);
    0
}

#[unsafe(no_mangle)]
extern "C" fn cuCtxSetCurrent(context: *mut c_void) -> c_int {
    assert_eq!(context.addr(), 64);
    0
}

#[unsafe(no_mangle)]
extern "C" fn cuDevicePrimaryCtxRelease_v2(device: c_int) -> c_int {
    assert_eq!(device, 7);
    0
}

#[unsafe(no_mangle)]
extern "C" fn cuMemGetInfo_v2(free: &mut usize, total: &mut usize) -> c_int {
    (*free, *total) = (8 << 30, 16 << 30);
    0
}

#[unsafe(no_mangle)]
extern "C" fn cuCtxGetLimit(bytes: &mut usize, which: c_uint) -> c_int {
    assert_eq!(which, 0);
    *bytes = 2048;
    0
}
