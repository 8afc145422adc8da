//! Rows for calls that take a kernel: does the call load it?

use std::ffi::c_char;
use std::ptr;

use census_kernels::plain::small;
use kernel_registry::cudarc::driver::sys;

use crate::bench::Bench;
use crate::cuda::{self, Done, FunctionAttribute, Handle, driver};
use crate::host::with;
use crate::row::Row;

const REGISTERS: FunctionAttribute = FunctionAttribute::CU_FUNC_ATTRIBUTE_NUM_REGS;
const DYNAMIC: FunctionAttribute = FunctionAttribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;

pub(crate) fn rows() -> Vec<Row> {
    // The module `calls` has this row for a library that isn't in any context.
    let got = with("cuKernelGetFunction_cold_in_context", cold_in_context, |_, kernel| {
        cuda::function_of_kernel(kernel).map(drop)
    });
    let rows = occupancy().into_iter().chain(kernels()).flatten();
    rows.chain(functions().into_iter().flatten()).chain([got]).collect()
}

/// Returns a library's kernel that isn't loaded, and whose library isn't in any context.
pub(crate) fn cold(_: &Bench) -> Done<sys::CUkernel> {
    cuda::kernel(cuda::load_library(small::INFO)?, small::INFO)
}

/// Returns a kernel that isn't loaded, of a library that the context has.
pub(crate) fn cold_in_context(_: &Bench) -> Done<sys::CUkernel> {
    let library = cuda::load_library(small::INFO)?;
    cuda::module_of_library(library)?;
    cuda::kernel(library, small::INFO)
}

/// Returns a library's kernel whose function is loaded.
pub(crate) fn loaded(bench: &Bench) -> Done<sys::CUkernel> {
    let kernel = cold(bench)?;
    cuda::load_function(cuda::function_of_kernel(kernel)?)?;
    Ok(kernel)
}

/// Returns rows for a call with a library's kernel in each of the three states above.
fn of_kernel(name: &str, call: fn(&Bench, sys::CUkernel) -> Done) -> [Row; 3] {
    [
        with(&format!("{name}_cold"), cold, call),
        with(&format!("{name}_cold_in_context"), cold_in_context, call),
        with(name, loaded, call),
    ]
}

/// Returns rows for a call that accepts both functions and library kernels.
fn of_either(name: &str, call: fn(&Bench, sys::CUfunction) -> Done) -> [Row; 3] {
    let cold_in_context = |bench: &Bench| cold_in_context(bench).map(cuda::as_function);
    let [cold, loaded] = of_function(name, call);
    [cold, with(&format!("{name}_cold_in_context"), cold_in_context, call), loaded]
}

/// Returns rows for a call that takes a function: one that isn't loaded, and one that is.
fn of_function(name: &str, call: fn(&Bench, sys::CUfunction) -> Done) -> [Row; 2] {
    [
        with(&format!("{name}_cold"), |bench| cold(bench).map(cuda::as_function), call),
        with(name, |bench| bench.loaded(small::INFO), call),
    ]
}

fn config(cluster: &mut sys::CUlaunchAttribute) -> sys::CUlaunchConfig {
    cluster.id = sys::CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
    cluster.value.clusterDim = sys::CUlaunchAttributeValue_union__bindgen_ty_1 { x: 2, y: 1, z: 1 };
    sys::CUlaunchConfig {
        gridDimX: 2,
        gridDimY: 1,
        gridDimZ: 1,
        blockDimX: 32,
        blockDimY: 1,
        blockDimZ: 1,
        sharedMemBytes: 0,
        hStream: ptr::null_mut(),
        attrs: cluster,
        numAttrs: 1,
    }
}

fn occupancy() -> Vec<[Row; 3]> {
    vec![
        of_either("cuOccupancyMaxActiveBlocksPerMultiprocessor", |_, function| {
            cuda::occupancy(function).map(drop)
        }),
        of_either("cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags", |_, function| {
            let mut blocks = 0_i32;
            driver!(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
                &raw mut blocks,
                function,
                128_i32,
                0_usize,
                0_u32
            ))
        }),
        of_either("cuOccupancyMaxPotentialBlockSize", |_, function| {
            let (mut grid, mut block, none) = (0_i32, 0_i32, ptr::null_mut::<u8>());
            driver!(cuOccupancyMaxPotentialBlockSize(
                &raw mut grid,
                &raw mut block,
                function,
                none,
                0_usize,
                0_i32
            ))
        }),
        of_either("cuOccupancyMaxPotentialBlockSizeWithFlags", |_, function| {
            let (mut grid, mut block, none) = (0_i32, 0_i32, ptr::null_mut::<u8>());
            driver!(cuOccupancyMaxPotentialBlockSizeWithFlags(
                &raw mut grid,
                &raw mut block,
                function,
                none,
                0_usize,
                0_i32,
                0_u32
            ))
        }),
        of_either("cuOccupancyAvailableDynamicSMemPerBlock", |_, function| {
            let mut bytes = 0_usize;
            driver!(cuOccupancyAvailableDynamicSMemPerBlock(&raw mut bytes, function, 1_i32, 128_i32))
        }),
        of_either("cuOccupancyMaxActiveClusters", |_, function| {
            let (mut clusters, mut cluster) = (0_i32, cuda::zero());
            let config = config(&mut cluster);
            driver!(cuOccupancyMaxActiveClusters(&raw mut clusters, function, &raw const config))
        }),
        of_either("cuOccupancyMaxPotentialClusterSize", |_, function| {
            let (mut size, mut cluster) = (0_i32, cuda::zero());
            let config = config(&mut cluster);
            driver!(cuOccupancyMaxPotentialClusterSize(&raw mut size, function, &raw const config))
        }),
    ]
}

/// Returns rows for driver functions that don't accept a library's kernel.
fn functions() -> Vec<[Row; 2]> {
    let rows = vec![
        of_function("cuFuncGetAttribute", |_, function| {
            cuda::function_attribute(function, REGISTERS).map(drop)
        }),
        of_function("cuFuncSetAttribute", |_, function| cuda::set_function_attribute(function, DYNAMIC, 0)),
        of_function("cuFuncSetCacheConfig", |_, function| cuda::set_cache_config(function)),
        of_function("cuFuncSetSharedMemConfig", |_, function| {
            driver!(cuFuncSetSharedMemConfig(function, 0_u32))
        }),
        of_function("cuFuncSetBlockShape", |_, function| {
            driver!(cuFuncSetBlockShape(function, 32_i32, 1_i32, 1_i32))
        }),
        of_function("cuFuncSetSharedSize", |_, function| driver!(cuFuncSetSharedSize(function, 0_u32))),
        of_function("cuFuncGetModule", |_, function| {
            let mut module: Handle = ptr::null_mut();
            driver!(cuFuncGetModule(&raw mut module, function))
        }),
        of_function("cuFuncGetName", |_, function| {
            let mut name = ptr::null::<c_char>();
            driver!(cuFuncGetName(&raw mut name, function))
        }),
        of_function("cuFuncGetParamInfo", |_, function| {
            let (mut offset, mut size) = (0_usize, 0_usize);
            driver!(cuFuncGetParamInfo(function, 0_usize, &raw mut offset, &raw mut size))
        }),
        of_function("cuFuncLoad", |_, function| cuda::load_function(function)),
    ];
    rows.into_iter().map(|[cold, loaded]| [cold.refused(), loaded]).collect()
}

fn kernels() -> Vec<[Row; 3]> {
    vec![
        of_kernel("cuKernelGetAttribute", |bench, kernel| {
            cuda::kernel_attribute(kernel, REGISTERS, bench.device()).map(drop)
        }),
        of_kernel("cuKernelSetAttribute", |bench, kernel| {
            cuda::set_kernel_attribute(kernel, DYNAMIC, 0, bench.device())
        }),
        of_kernel("cuKernelSetCacheConfig", |bench, kernel| {
            driver!(cuKernelSetCacheConfig(kernel, 1_u32, bench.device()))
        }),
        of_kernel("cuKernelGetName", |_, kernel| {
            let mut name = ptr::null::<c_char>();
            driver!(cuKernelGetName(&raw mut name, kernel))
        }),
        of_kernel("cuKernelGetParamInfo", |_, kernel| {
            let (mut offset, mut size) = (0_usize, 0_usize);
            driver!(cuKernelGetParamInfo(kernel, 0_usize, &raw mut offset, &raw mut size))
        }),
        of_kernel("cuKernelGetLibrary", |_, kernel| {
            let mut library: Handle = ptr::null_mut();
            driver!(cuKernelGetLibrary(&raw mut library, kernel))
        }),
    ]
}
