//! Rows for the other functions that launch a kernel, each with a loaded kernel and one that isn't loaded.

use std::ptr;

use census_kernels::bare;
use census_kernels::plain::small;
use kernel_registry::cudarc::driver::sys;

use crate::bench::{Bench, Word};
use crate::cuda::{self, Done, Handle, driver};
use crate::host::kernels;
use crate::row::{Row, Subject, attempt};

pub(crate) fn rows() -> Vec<Row> {
    let of_kernels = [
        of_kernel("cuLaunchKernelEx", launch_ex),
        of_kernel("cuLaunchCooperativeKernel", launch_cooperative),
        of_kernel("cuLaunchCooperativeKernelMultiDevice", launch_cooperative_on_devices),
        of_kernel("captured", launch_captured),
    ];
    let of_functions = [
        of_function("cuLaunch", |bench, function| {
            prepare_old(bench, function)?;
            driver!(cuLaunch(function))
        }),
        of_function("cuLaunchGrid", |bench, function| {
            prepare_old(bench, function)?;
            driver!(cuLaunchGrid(function, 1_i32, 1_i32))
        }),
        of_function("cuLaunchGridAsync", |bench, function| {
            prepare_old(bench, function)?;
            driver!(cuLaunchGridAsync(function, 1_i32, 1_i32, bench.tried_stream))
        }),
    ];
    let others = [
        added_to_graph(),
        of_enumerated("cuFuncLoad_enumerated", cuda::load_function),
        of_enumerated("cuFuncGetAttribute_enumerated", |function| {
            cuda::function_attribute(function, cuda::FunctionAttribute::CU_FUNC_ATTRIBUTE_NUM_REGS).map(drop)
        }),
    ];
    of_kernels.into_iter().flatten().chain(of_functions.into_iter().flatten()).chain(others).collect()
}

type Launch = fn(&Bench, sys::CUfunction) -> Done;

/// Returns rows for a launch of a library's kernel: not loaded, in a library that the context has, and
/// loaded.
fn of_kernel(name: &str, launch: Launch) -> [Row; 3] {
    let cold = |bench: &Bench| bench.warm_or(small::INFO, || kernels::cold(bench).map(cuda::as_function));
    let cold_in_context =
        |bench: &Bench| bench.warm_or(small::INFO, || kernels::cold_in_context(bench).map(cuda::as_function));
    [
        row(&format!("{name}_cold"), cold, launch),
        row(&format!("{name}_cold_in_context"), cold_in_context, launch),
        row(name, |bench| bench.loaded(small::INFO), launch),
    ]
}

/// Returns rows for a launch by calls that only accept functions: of one that isn't loaded, and of one that
/// is.
fn of_function(name: &str, launch: Launch) -> [Row; 2] {
    let cold = Row::launch(Subject::Loading, format!("launch/{name}_cold"), move |bench| {
        let module = cuda::load_module(small::INFO)?;
        attempt(move || launch(bench, bench.warm_or(small::INFO, || cuda::function(module, small::INFO))?))
    });
    [cold, row(name, |bench| bench.loaded(small::INFO), launch)]
}

fn row(name: &str, ready: fn(&Bench) -> Done<sys::CUfunction>, launch: Launch) -> Row {
    Row::launch(Subject::Loading, format!("launch/{name}"), move |bench| {
        let function = ready(bench)?;
        attempt(move || launch(bench, function))
    })
}

fn launch_ex(bench: &Bench, function: sys::CUfunction) -> Done {
    let config = sys::CUlaunchConfig {
        gridDimX: 1,
        gridDimY: 1,
        gridDimZ: 1,
        blockDimX: 32,
        blockDimY: 1,
        blockDimZ: 1,
        sharedMemBytes: 0,
        hStream: bench.tried_stream,
        attrs: ptr::null_mut(),
        numAttrs: 0,
    };
    let none: *mut Handle = ptr::null_mut();
    bench.with_args(|args| driver!(cuLaunchKernelEx(&raw const config, function, args.as_mut_ptr(), none)))
}

fn launch_cooperative(bench: &Bench, function: sys::CUfunction) -> Done {
    let config = crate::bench::ONE_WARP.cooperative();
    bench.launch_as(function, bench.tried_stream, &config)
}

fn launch_cooperative_on_devices(bench: &Bench, function: sys::CUfunction) -> Done {
    bench.with_args(|args| {
        let mut launch = sys::CUDA_LAUNCH_PARAMS {
            function,
            gridDimX: 1,
            gridDimY: 1,
            gridDimZ: 1,
            blockDimX: 32,
            blockDimY: 1,
            blockDimZ: 1,
            sharedMemBytes: 0,
            hStream: bench.tried_stream,
            kernelParams: args.as_mut_ptr(),
        };
        driver!(cuLaunchCooperativeKernelMultiDevice(&raw mut launch, 1_u32, 0_u32))
    })
}

fn launch_captured(bench: &Bench, function: sys::CUfunction) -> Done {
    let graph = cuda::capture(bench.tried_stream, || bench.launch(function))?;
    cuda::launch_graph(cuda::instantiate(graph)?, bench.tried_stream)
}

/// Sets the block's shape and the arguments, which the launch calls of CUDA 2.0 take from the function.
fn prepare_old(bench: &Bench, function: sys::CUfunction) -> Done {
    let mut done = bench.address_of(Word::Done);
    driver!(cuFuncSetBlockShape(function, 32_i32, 1_i32, 1_i32))?;
    driver!(cuFuncSetSharedSize(function, 0_u32))?;
    driver!(cuParamSetv(function, 0_i32, &raw mut done, 8_u32))?;
    driver!(cuParamSeti(function, 8_i32, 100_u32))?;
    driver!(cuParamSetf(function, 8_i32, 0.0_f32))?;
    driver!(cuParamSetSize(function, 12_u32))
}

/// Returns a row that makes `call` with a function that isn't loaded, and then launches that function.
fn of_enumerated(name: &str, call: fn(sys::CUfunction) -> Done) -> Row {
    Row::launch(Subject::Loading, format!("launch/{name}"), move |bench| {
        let function = bench.warm_or(bare::INFO, || cuda::enumerated_function(bare::INFO))?;
        attempt(move || {
            call(function)?;
            bench.launch(function)
        })
    })
}

/// Returns a row that adds a kernel node to a graph while the resident kernel runs, and launches the graph. A
/// warm kernel has no `CUkernel` handle, so it's captured instead.
fn added_to_graph() -> Row {
    Row::launch(Subject::Loading, "launch/cuGraphAddKernelNode_cold", |bench| {
        let library = cuda::load_library(small::INFO)?;
        attempt(move || {
            if bench.warmed {
                return launch_captured(bench, bench.loaded(small::INFO)?);
            }
            let kernel = cuda::kernel(library, small::INFO)?;
            let graph = bench.with_args(|args| cuda::graph_of(kernel, args))?;
            cuda::launch_graph(cuda::instantiate(graph)?, bench.tried_stream)
        })
    })
}
