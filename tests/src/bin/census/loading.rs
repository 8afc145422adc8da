//! Rows that find the call that loads a kernel: each makes one more call than the previous row, and then
//! launches the kernel.

use census_kernels::PLAIN_PTX;
use census_kernels::bare;
use census_kernels::plain::{sibling, small};
use kernel_registry::cudarc::driver::sys;

use crate::bench::Bench;
use crate::cuda::{self, Done, FunctionAttribute};
use crate::row::{Row, Subject, attempt};

const REGISTERS: FunctionAttribute = FunctionAttribute::CU_FUNC_ATTRIBUTE_NUM_REGS;
const SHARED: FunctionAttribute = FunctionAttribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;

pub(crate) fn rows() -> Vec<Row> {
    vec![
        Row::launch(Subject::Loading, "module/only", |bench| {
            let module = cuda::load_module(small::INFO)?;
            attempt(move || bench.launch(bench.warm_or(small::INFO, || cuda::function(module, small::INFO))?))
        }),
        row("module/function", |_| module_function()),
        row("module/function_beside_sibling", |_| {
            let module = cuda::load_module(small::INFO)?;
            cuda::load_function(cuda::function(module, sibling::INFO)?)?;
            cuda::function(module, small::INFO)
        }),
        row("module/function_attribute", |_| {
            let function = module_function()?;
            cuda::function_attribute(function, REGISTERS)?;
            Ok(function)
        }),
        row("module/function_load", |_| {
            let function = module_function()?;
            cuda::load_function(function)?;
            Ok(function)
        }),
        row("module/function_enumerated", |_| cuda::enumerated_function(bare::INFO)),
        row("module/function_enumerated_and_loaded", |_| {
            let function = cuda::enumerated_function(bare::INFO)?;
            cuda::load_function(function)?;
            Ok(function)
        }),
        row("module/ptx_function", |_| ptx_function()),
        row("module/ptx_function_load", |_| {
            let function = ptx_function()?;
            cuda::load_function(function)?;
            Ok(function)
        }),
        Row::launch(Subject::Loading, "library/only", |bench| {
            let library = cuda::load_library(small::INFO)?;
            attempt(move || {
                let kernel = || cuda::kernel(library, small::INFO).map(cuda::as_function);
                bench.launch(bench.warm_or(small::INFO, kernel)?)
            })
        }),
        row("library/kernel", |_| library_kernel().map(cuda::as_function)),
        row("library/kernel_attribute", |bench| {
            let kernel = library_kernel()?;
            cuda::kernel_attribute(kernel, REGISTERS, bench.device())?;
            Ok(cuda::as_function(kernel))
        }),
        row("library/kernel_set_attribute", |bench| {
            let kernel = library_kernel()?;
            cuda::set_kernel_attribute(kernel, SHARED, 0, bench.device())?;
            Ok(cuda::as_function(kernel))
        }),
        row("library/kernel_occupancy", |_| {
            let kernel = cuda::as_function(library_kernel()?);
            cuda::occupancy(kernel)?;
            Ok(kernel)
        }),
        row("library/kernel_function", |_| cuda::function_of_kernel(library_kernel()?)),
        row("library/kernel_function_load", |_| {
            let function = cuda::function_of_kernel(library_kernel()?)?;
            cuda::load_function(function)?;
            Ok(function)
        }),
        row("library/module_then_function", |_| {
            let module = cuda::module_of_library(cuda::load_library(small::INFO)?)?;
            cuda::function(module, small::INFO)
        }),
        row("library/module_then_kernel", |_| {
            let library = cuda::load_library(small::INFO)?;
            cuda::module_of_library(library)?;
            cuda::kernel(library, small::INFO).map(cuda::as_function)
        }),
        row("library/function_of_sibling", |_| {
            let library = cuda::load_library(small::INFO)?;
            cuda::function_of_kernel(cuda::kernel(library, sibling::INFO)?)?;
            cuda::kernel(library, small::INFO).map(cuda::as_function)
        }),
        Row::launch(Subject::Loading, "library/kernel_in_graph", |bench| {
            let graph = if bench.warmed {
                let function = bench.loaded(small::INFO)?;
                cuda::capture(bench.tried_stream, || bench.launch(function))?
            } else {
                let kernel = library_kernel()?;
                bench.with_args(|args| cuda::graph_of(kernel, args))?
            };
            let graph = cuda::instantiate(graph)?;
            attempt(move || cuda::launch_graph(graph, bench.tried_stream))
        }),
    ]
}

/// Returns a row that calls `ready`, and then launches the function that `ready` returns.
fn row(name: &str, ready: fn(&Bench) -> Done<sys::CUfunction>) -> Row {
    Row::launch(Subject::Loading, name, move |bench| {
        let function = bench.warm_or(small::INFO, || ready(bench))?;
        attempt(move || bench.launch(function))
    })
}

fn module_function() -> Done<sys::CUfunction> {
    cuda::function(cuda::load_module(small::INFO)?, small::INFO)
}

fn ptx_function() -> Done<sys::CUfunction> {
    let module = cuda::load_module_data(&[PLAIN_PTX.as_bytes(), &[0]].concat())?;
    cuda::function(module, small::INFO)
}

fn library_kernel() -> Done<sys::CUkernel> {
    cuda::kernel(cuda::load_library(small::INFO)?, small::INFO)
}
