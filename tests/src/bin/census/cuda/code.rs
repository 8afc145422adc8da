//! Driver calls for modules, libraries, functions and launches.

use std::ffi::{CStr, CString, c_void};
use std::mem::zeroed;
use std::ptr;

use kernel_registry::cudarc::driver::sys;
use kernel_registry::{KernelInfo, LaunchConfig};

use super::{Done, Failed, call, driver, get, lookup};

pub(crate) use sys::CUfunction_attribute_enum as FunctionAttribute;

/// Returns the image of a kernel with a zero byte at the end, which the driver needs after PTX.
pub(crate) fn image(kernel: &KernelInfo) -> Vec<u8> {
    let bytes = kernel.image().map_or(&[][..], |image| image.bytes());
    [bytes, &[0]].concat()
}

fn symbol(kernel: &KernelInfo) -> CString {
    CString::new(kernel.symbol()).expect("symbols have no zeros")
}

/// Loads a kernel's image as a module.
pub(crate) fn load_module(kernel: &KernelInfo) -> Done<sys::CUmodule> {
    load_module_data(&image(kernel))
}

/// Loads an image as a module. The image must end with a zero byte.
pub(crate) fn load_module_data(image: &[u8]) -> Done<sys::CUmodule> {
    // SAFETY: the image is complete, and ends with a zero byte.
    get("cuModuleLoadData", |module| unsafe { sys::cuModuleLoadData(module, image.as_ptr().cast()) })
}

pub(crate) fn unload_module(module: sys::CUmodule) -> Done {
    // SAFETY: nothing of the module is used afterwards.
    call("cuModuleUnload", unsafe { sys::cuModuleUnload(module) })
}

pub(crate) fn function(module: sys::CUmodule, kernel: &KernelInfo) -> Done<sys::CUfunction> {
    let symbol = symbol(kernel);
    // SAFETY: the module is loaded, and the name ends with a zero.
    get("cuModuleGetFunction", |function| unsafe {
        sys::cuModuleGetFunction(function, module, symbol.as_ptr())
    })
}

/// Returns the functions of a module, in no particular order.
pub(crate) fn functions(module: sys::CUmodule) -> Done<Vec<sys::CUfunction>> {
    let mut count = 0_u32;
    driver!(cuModuleGetFunctionCount(&raw mut count, module))?;
    let mut functions = vec![ptr::null_mut(); count as usize];
    driver!(cuModuleEnumerateFunctions(functions.as_mut_ptr(), count, module))?;
    Ok(functions)
}

/// Returns the function of a kernel that is alone in its image, by enumeration, because a lookup by name
/// would load it.
pub(crate) fn enumerated_function(kernel: &KernelInfo) -> Done<sys::CUfunction> {
    let functions = functions(load_module(kernel)?)?;
    functions.first().copied().ok_or(Failed("the module has no functions".into()))
}

/// Loads a function, if the driver has `cuFuncLoad` (12.4 or newer).
pub(crate) fn load_function(function: sys::CUfunction) -> Done {
    type FuncLoad = unsafe extern "C" fn(sys::CUfunction) -> sys::CUresult;
    // SAFETY: the function has had this type since its first version.
    match unsafe { lookup::<FuncLoad>(c"cuFuncLoad", 12_040) } {
        // SAFETY: the function is one of the current context.
        Some(load) => call("cuFuncLoad", unsafe { load(function) }),
        None => Ok(()),
    }
}

/// Returns whether a function is loaded, if the driver has `cuFuncIsLoaded` (12.4 or newer).
pub(crate) fn is_loaded(function: sys::CUfunction) -> Done<bool> {
    type IsLoaded = unsafe extern "C" fn(*mut u32, sys::CUfunction) -> sys::CUresult;
    // SAFETY: the function has had this type since its first version.
    let Some(is_loaded) = (unsafe { lookup::<IsLoaded>(c"cuFuncIsLoaded", 12_040) }) else {
        return Err(Failed("CUDA_ERROR_NOT_FOUND of cuFuncIsLoaded".into()));
    };
    // SAFETY: the driver answers a handle of the wrong kind with an error.
    get("cuFuncIsLoaded", |loaded| unsafe { is_loaded(loaded, function) }).map(|loaded| loaded == 1)
}

pub(crate) fn set_cache_config(function: sys::CUfunction) -> Done {
    // SAFETY: the function is one of the current context.
    let set =
        unsafe { sys::cuFuncSetCacheConfig(function, sys::CUfunc_cache_enum::CU_FUNC_CACHE_PREFER_SHARED) };
    call("cuFuncSetCacheConfig", set)
}

/// Returns the device address of a variable.
pub(crate) fn global(module: sys::CUmodule, name: &CStr) -> Done<sys::CUdeviceptr> {
    let mut bytes = 0;
    // SAFETY: the module is loaded, and the name ends with a zero.
    get("cuModuleGetGlobal", |address| unsafe {
        sys::cuModuleGetGlobal_v2(address, &mut bytes, module, name.as_ptr())
    })
}

pub(crate) fn function_attribute(function: sys::CUfunction, which: FunctionAttribute) -> Done<i32> {
    // SAFETY: the function is one of the current context.
    get("cuFuncGetAttribute", |value| unsafe { sys::cuFuncGetAttribute(value, which, function) })
}

pub(crate) fn set_function_attribute(
    function: sys::CUfunction,
    which: FunctionAttribute,
    value: u32,
) -> Done {
    // SAFETY: the function is one of the current context.
    let set = unsafe { sys::cuFuncSetAttribute(function, which, value.cast_signed()) };
    call("cuFuncSetAttribute", set)
}

/// Returns the number of blocks of a function that fit on a multiprocessor.
pub(crate) fn occupancy(function: sys::CUfunction) -> Done<i32> {
    // SAFETY: the handle is a function of the current context, or a library's kernel, which the driver
    // accepts too.
    get("cuOccupancyMaxActiveBlocksPerMultiprocessor", |blocks| unsafe {
        sys::cuOccupancyMaxActiveBlocksPerMultiprocessor(blocks, function, 128, 0)
    })
}

/// Loads a kernel's image as a library.
pub(crate) fn load_library(kernel: &KernelInfo) -> Done<sys::CUlibrary> {
    load_library_data(&image(kernel))
}

/// Loads an image as a library. The image must end with a zero byte.
pub(crate) fn load_library_data(image: &[u8]) -> Done<sys::CUlibrary> {
    // SAFETY: the image is complete, and ends with a zero byte; there are no options.
    get("cuLibraryLoadData", |library| unsafe {
        let (none, nothing) = (ptr::null_mut(), ptr::null_mut());
        let code = image.as_ptr().cast();
        sys::cuLibraryLoadData(library, code, none, nothing, 0, ptr::null_mut(), ptr::null_mut(), 0)
    })
}

pub(crate) fn unload_library(library: sys::CUlibrary) -> Done {
    // SAFETY: nothing of the library is used afterwards.
    call("cuLibraryUnload", unsafe { sys::cuLibraryUnload(library) })
}

pub(crate) fn kernel(library: sys::CUlibrary, kernel: &KernelInfo) -> Done<sys::CUkernel> {
    let symbol = symbol(kernel);
    // SAFETY: the library is loaded, and the name ends with a zero.
    get("cuLibraryGetKernel", |kernel| unsafe { sys::cuLibraryGetKernel(kernel, library, symbol.as_ptr()) })
}

pub(crate) fn module_of_library(library: sys::CUlibrary) -> Done<sys::CUmodule> {
    // SAFETY: the library is loaded.
    get("cuLibraryGetModule", |module| unsafe { sys::cuLibraryGetModule(module, library) })
}

pub(crate) fn function_of_kernel(kernel: sys::CUkernel) -> Done<sys::CUfunction> {
    // SAFETY: the kernel's library is loaded.
    get("cuKernelGetFunction", |function| unsafe { sys::cuKernelGetFunction(function, kernel) })
}

pub(crate) fn kernel_attribute(
    kernel: sys::CUkernel,
    which: FunctionAttribute,
    device: sys::CUdevice,
) -> Done<i32> {
    // SAFETY: the kernel's library is loaded, and the device is one of the driver's.
    get("cuKernelGetAttribute", |value| unsafe { sys::cuKernelGetAttribute(value, which, kernel, device) })
}

pub(crate) fn set_kernel_attribute(
    kernel: sys::CUkernel,
    which: FunctionAttribute,
    value: i32,
    device: sys::CUdevice,
) -> Done {
    // SAFETY: the kernel's library is loaded, and the device is one of the driver's.
    let set = unsafe { sys::cuKernelSetAttribute(which, value, kernel, device) };
    call("cuKernelSetAttribute", set)
}

/// Casts a library's kernel to a function handle. The driver launches both kinds of handle.
pub(crate) fn as_function(kernel: sys::CUkernel) -> sys::CUfunction {
    kernel.cast()
}

/// Launches a function with pointers to its arguments.
pub(crate) fn launch(
    function: sys::CUfunction,
    stream: sys::CUstream,
    config: &LaunchConfig,
    args: &mut [*mut c_void],
) -> Done {
    let (args, none) = (args.as_mut_ptr(), ptr::null_mut());
    let LaunchConfig { grid: [gx, gy, gz], block: [bx, by, bz], shared, cluster, cooperative, .. } = *config;
    // SAFETY: callers pass arguments of the kernel's types. The structures are plain data, for which zero is
    // valid.
    unsafe {
        if let Some([x, y, z]) = cluster {
            let mut attribute: sys::CUlaunchAttribute = zeroed();
            attribute.id = sys::CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
            attribute.value.clusterDim = sys::CUlaunchAttributeValue_union__bindgen_ty_1 { x, y, z };
            let config = sys::CUlaunchConfig {
                gridDimX: gx,
                gridDimY: gy,
                gridDimZ: gz,
                blockDimX: bx,
                blockDimY: by,
                blockDimZ: bz,
                sharedMemBytes: shared,
                hStream: stream,
                attrs: &mut attribute,
                numAttrs: 1,
            };
            call("cuLaunchKernelEx", sys::cuLaunchKernelEx(&config, function, args, none))
        } else if cooperative {
            let launched =
                sys::cuLaunchCooperativeKernel(function, gx, gy, gz, bx, by, bz, shared, stream, args);
            call("cuLaunchCooperativeKernel", launched)
        } else {
            let launched = sys::cuLaunchKernel(function, gx, gy, gz, bx, by, bz, shared, stream, args, none);
            call("cuLaunchKernel", launched)
        }
    }
}
