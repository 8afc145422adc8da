//! Tests that calls that load a kernel or a library wait for the device, and that they do not wait if it is loaded
//! already. `KERNEL_REGISTRY_SIM=0` tests NVIDIA's driver.

mod device;
mod resident;

use device::*;
use resident::waits;

/// Loads a library that no context has yet.
fn library() -> usize {
    get("cuLibraryLoadData", &[place(&mut *image()), 0, 0, 0, 0, 0, 0])
}

/// Returns a library's kernel that is not loaded.
fn cold_kernel() -> usize {
    get("cuLibraryGetKernel", &[library(), place(&mut *b"store\0".to_vec())])
}

#[test]
fn every_call_that_is_given_a_cold_kernel_loads_it() {
    context(0);
    let device = get("cuCtxGetDevice", &[]);
    let blocks = |name: &str, kernel| _ = get(name, &[kernel, 32, 0, 0]);
    type Call<'c> = &'c dyn Fn(usize);
    let calls: [(&str, Call<'_>); 8] = [
        ("cuKernelGetFunction", &|kernel| _ = get("cuKernelGetFunction", &[kernel])),
        ("cuKernelSetAttribute", &|kernel| ok("cuKernelSetAttribute", &[8, 0, kernel, device])),
        ("cuKernelSetCacheConfig", &|kernel| ok("cuKernelSetCacheConfig", &[kernel, 1, device])),
        ("cuKernelGetParamInfo", &|kernel| {
            let mut size = 0_usize;
            ok("cuKernelGetParamInfo", &[kernel, 1, place(&mut 0_usize), place(&mut size)]);
            expect_eq!(size, 4);
        }),
        ("blocks", &|kernel| blocks("cuOccupancyMaxActiveBlocksPerMultiprocessor", kernel)),
        ("blocks with flags", &|kernel| {
            blocks("cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags", kernel)
        }),
        ("block size", &|kernel| {
            _ = get("cuOccupancyMaxPotentialBlockSize", &[place(&mut 0_usize), kernel, 0, 0, 0]);
        }),
        ("shared memory", &|kernel| {
            _ = get("cuOccupancyAvailableDynamicSMemPerBlock", &[kernel, 1, 32]);
        }),
    ];
    for (name, call) in calls {
        let kernel = cold_kernel();
        // The library is loaded before the resident kernel starts.
        expect_eq!(waits(true, || call(kernel)), true, "{name} of a cold kernel");
        expect_eq!(waits(false, || call(kernel)), false, "{name} of a loaded kernel");
    }
}

/// The calls return, and the driver says that the kernel is loaded, but its first launch waits.
#[test]
fn a_cold_kernel_of_a_library_in_the_context_is_loaded_without_waiting() {
    context(0);
    let device = get("cuCtxGetDevice", &[]);
    type Call<'c> = &'c dyn Fn(usize);
    let calls: [(&str, Call<'_>); 4] = [
        ("cuKernelGetFunction", &|kernel| _ = get("cuKernelGetFunction", &[kernel])),
        ("cuKernelSetAttribute", &|kernel| ok("cuKernelSetAttribute", &[8, 0, kernel, device])),
        ("cuKernelSetCacheConfig", &|kernel| ok("cuKernelSetCacheConfig", &[kernel, 1, device])),
        ("occupancy", &|kernel| {
            _ = get("cuOccupancyMaxActiveBlocksPerMultiprocessor", &[kernel, 32, 0, 0]);
        }),
    ];
    let (to, stream) = (memory(4), stream());
    for (name, call) in calls {
        let library = library();
        get("cuLibraryGetModule", &[library]);
        let kernel = get("cuLibraryGetKernel", &[library, place(&mut *b"store\0".to_vec())]);
        expect_eq!(waits(false, || call(kernel)), false, "{name}");

        let store = |kernel| {
            launch(kernel, stream, &[to as u64, 7]);
            ok("cuStreamSynchronize", &[stream]);
        };
        expect_eq!(
            waits(false, || store(kernel)),
            false,
            "a launch after {name}, and after the other kernel"
        );

        let other = get("cuLibraryGetKernel", &[library, place(&mut *b"load\0".to_vec())]);
        let waited = waits(true, || {
            call(other);
            let mut is_loaded = 0_u32;
            ok("cuFuncIsLoaded", &[place(&mut is_loaded), get("cuKernelGetFunction", &[other])]);
            expect_eq!(is_loaded, 1);
            launch(other, stream, &[to as u64, to as u64]);
            ok("cuStreamSynchronize", &[stream]);
        });
        expect_eq!(waited, true, "a launch after {name} beside another kernel");
    }
}

#[test]
fn a_function_of_a_module_is_loaded_without_waiting() {
    context(0);
    let function = get("cuModuleEnumerateFunctions", &[1, module()]);
    expect_eq!(waits(false, || ok("cuFuncLoad", &[function])), false, "cuFuncLoad");
    let function = get("cuModuleEnumerateFunctions", &[1, module()]);
    expect_eq!(waits(false, || _ = get("cuFuncGetAttribute", &[4, function])), false, "cuFuncGetAttribute");
    // These functions do not accept a library's kernel.
    expect_eq!(call("cuFuncLoad", &[cold_kernel()]), INVALID_HANDLE);
    expect_eq!(call("cuFuncGetAttribute", &[place(&mut 0_usize), 4, cold_kernel()]), INVALID_HANDLE);
}

const INVALID_HANDLE: u32 = 400;

#[test]
fn a_library_is_loaded_into_a_context_on_first_use() {
    context(0);
    let global = |library| _ = get("cuLibraryGetGlobal", &[0, library, place(&mut *b"shown\0".to_vec())]);
    let module = |library| _ = get("cuLibraryGetModule", &[library]);
    type Call<'c> = &'c dyn Fn(usize);
    let calls: [(&str, Call<'_>); 2] = [("cuLibraryGetModule", &module), ("cuLibraryGetGlobal", &global)];
    for (name, call) in calls {
        let library = library();
        expect_eq!(waits(true, || call(library)), true, "{name}");
        expect_eq!(waits(false, || call(library)), false, "{name} again");
    }
    let library = library();
    let shown = get("cuLibraryGetGlobal", &[0, library, place(&mut *b"shown\0".to_vec())]);
    expect_eq!(words(shown, 1), [7]);
}
