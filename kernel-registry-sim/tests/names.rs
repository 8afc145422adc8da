//! Tests the library names under which programs find the driver.

use std::ffi::{CStr, c_void};

/// NVIDIA's own libraries open `libcuda.so.1`, cudarc opens `libcuda.so`. Both names give the same driver. Closing the
/// library does not unload it for other users.
#[test]
fn both_names_are_one_driver() {
    kernel_registry_sim::install().unwrap();
    let found = |name: &CStr| -> *mut c_void {
        // SAFETY: the names end with zero bytes. The installed driver is found, and closed as often as it is opened.
        unsafe {
            let library = libc::dlopen(name.as_ptr(), libc::RTLD_NOW);
            assert!(!library.is_null(), "{name:?}");
            let function = libc::dlsym(library, c"cuInit".as_ptr());
            libc::dlclose(library);
            function
        }
    };
    let [first, second] = [c"libcuda.so", c"libcuda.so.1"].map(found);
    assert!(!first.is_null());
    assert_eq!(first, second);
    assert_eq!(first, found(c"libcuda.so"));
}
