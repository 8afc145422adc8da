//! Rows for host calls while a resident kernel runs: does each call return?

use census_kernels::PLAIN_PTX;
use census_kernels::earlier::earlier_nothing;
use census_kernels::plain::small;
use kernel_registry::cudarc::driver::sys::{CUevent_flags_enum as EventFlags, CUlimit_enum as Limit};

use crate::bench::{Bench, Word};
use crate::cuda::{self, Done, MIB};
use crate::row::{Attempt, Row, Subject, attempt};

const GIB: usize = 1024 * MIB;

pub(crate) fn rows() -> Vec<Row> {
    [nothing(), code(), memory(), asynchronous(), copies(), streams(), graphs(), captures()]
        .into_iter()
        .flatten()
        .collect()
}

fn row(name: impl Into<String>, prepare: impl for<'b> Fn(&'b Bench) -> Done<Attempt<'b>> + 'static) -> Row {
    Row::call(Subject::HostCall, name, prepare)
}

/// Creates a row for a call that needs no preparation.
fn call(name: &str, call: fn(&Bench) -> Done) -> Row {
    row(name, move |bench| attempt(move || call(bench)))
}

fn nothing() -> Vec<Row> {
    vec![
        // If these rows block, the census itself is broken.
        call("host/nothing", |_| Ok(())),
        call("host/cuModuleGetLoadingMode", |_| cuda::loads_lazily().map(drop)),
        call("host/cuMemGetInfo", |_| cuda::free_memory().map(drop)),
        call("host/cuCtxCreate", |bench| cuda::new_context(bench.device()).map(drop)),
        row("host/cuCtxDestroy_of_another", |bench| {
            let context = cuda::new_context(bench.device())?;
            attempt(move || cuda::destroy_context(context))
        }),
        call("host/cuCtxSynchronize", |_| cuda::synchronize()),
        call("host/cuDevicePrimaryCtxRetain_and_release", |bench| cuda::retain_and_release(bench.device())),
        call("host/cuCtxSetLimit_stack", |_| cuda::set_limit(Limit::CU_LIMIT_STACK_SIZE, 16 * 1024)),
        call("host/cuCtxSetLimit_printf", |_| cuda::set_limit(Limit::CU_LIMIT_PRINTF_FIFO_SIZE, 4 * MIB)),
        call("host/cuCtxSetLimit_heap", |_| cuda::set_limit(Limit::CU_LIMIT_MALLOC_HEAP_SIZE, 64 * MIB)),
    ]
}

fn code() -> Vec<Row> {
    vec![
        call("host/cuModuleLoadData", |_| cuda::load_module(small::INFO).map(drop)),
        row("host/cuModuleLoadData_ptx", |_| {
            let image = [PLAIN_PTX.as_bytes(), &[0]].concat();
            attempt(move || cuda::load_module_data(&image).map(drop))
        }),
        row("host/cuModuleGetFunction", |_| {
            let module = cuda::load_module(small::INFO)?;
            attempt(move || cuda::function(module, small::INFO).map(drop))
        }),
        row("host/cuFuncIsLoaded", |bench| {
            let function = bench.loaded(small::INFO)?;
            attempt(move || cuda::is_loaded(function).map(drop))
        }),
        row("host/cuFuncIsLoaded_of_kernel", |_| {
            let kernel = cuda::as_function(cuda::kernel(cuda::load_library(small::INFO)?, small::INFO)?);
            attempt(move || cuda::is_loaded(kernel).map(drop))
        })
        .refused(),
        row("host/cuModuleGetGlobal", |_| {
            let module = cuda::load_module(earlier_nothing::INFO)?;
            attempt(move || cuda::global(module, c"sink").map(drop))
        }),
        row("host/cuOccupancy", |bench| {
            let function = bench.loaded(small::INFO)?;
            attempt(move || cuda::occupancy(function).map(drop))
        }),
        row("host/cuModuleUnload", |_| {
            let module = cuda::load_module(small::INFO)?;
            cuda::load_function(cuda::function(module, small::INFO)?)?;
            attempt(move || cuda::unload_module(module))
        }),
        call("host/cuLibraryLoadData", |_| cuda::load_library(small::INFO).map(drop)),
        row("host/cuLibraryLoadData_ptx", |_| {
            let image = [PLAIN_PTX.as_bytes(), &[0]].concat();
            attempt(move || cuda::load_library_data(&image).map(drop))
        }),
        row("host/cuLibraryGetKernel", |_| {
            let library = cuda::load_library(small::INFO)?;
            attempt(move || cuda::kernel(library, small::INFO).map(drop))
        }),
        row("host/cuKernelGetFunction", |_| {
            let kernel = cuda::kernel(cuda::load_library(small::INFO)?, small::INFO)?;
            attempt(move || cuda::function_of_kernel(kernel).map(drop))
        }),
        row("host/cuLibraryUnload", |_| {
            let library = cuda::load_library(small::INFO)?;
            cuda::load_function(cuda::function_of_kernel(cuda::kernel(library, small::INFO)?)?)?;
            attempt(move || cuda::unload_library(library))
        }),
    ]
}

fn memory() -> Vec<Row> {
    vec![
        call("host/cuMemAlloc_1M", |_| cuda::alloc(MIB).map(drop)),
        call("host/cuMemAlloc_1G", |_| cuda::alloc(GIB).map(drop)),
        row("host/cuMemFree_1M", |_| {
            let memory = cuda::alloc(MIB)?;
            attempt(move || cuda::free(memory))
        }),
        row("host/cuMemFree_1G", |_| {
            let memory = cuda::alloc(GIB)?;
            attempt(move || cuda::free(memory))
        }),
        row("host/cuMemFree_managed", |_| {
            let memory = cuda::alloc_managed(MIB)?;
            attempt(move || cuda::free(memory))
        }),
        row("host/cuMemFree_pooled", |bench| {
            let memory = allocated(bench, MIB)?;
            attempt(move || cuda::free(memory))
        }),
        row("host/cuMemFreeAsync_of_cuMemAlloc", |bench| {
            let memory = cuda::alloc(MIB)?;
            attempt(move || freed(bench, memory))
        }),
        row("host/cuMemAdvise", |bench| {
            let memory = cuda::alloc_managed(MIB)?;
            attempt(move || cuda::advise(memory, MIB, bench.device()))
        }),
        row("host/cuMemPrefetchAsync", |bench| {
            let memory = cuda::alloc_managed(MIB)?;
            attempt(move || {
                cuda::prefetch(memory, MIB, bench.device(), bench.tried_stream)?;
                cuda::synchronize_stream(bench.tried_stream)
            })
        }),
        call("host/cuMemAllocManaged", |_| cuda::alloc_managed(MIB).map(drop)),
        call("host/cuMemHostAlloc", |_| cuda::alloc_host(MIB).map(drop)),
        row("host/cuMemFreeHost", |_| {
            let memory = cuda::alloc_host(MIB)?;
            attempt(move || cuda::free_host(memory))
        }),
        row("host/cuMemHostRegister", |_| {
            let memory = cuda::pageable(MIB);
            attempt(move || cuda::register(memory).map(drop))
        }),
        row("host/cuMemHostUnregister", |_| {
            let memory = cuda::register(cuda::pageable(MIB))?;
            attempt(move || cuda::unregister(memory))
        }),
        call("host/virtual_memory_map", |bench| cuda::map(bench.device()).map(drop)),
        row("host/virtual_memory_unmap", |bench| {
            let address = cuda::map(bench.device())?;
            attempt(move || cuda::unmap(address))
        }),
    ]
}

/// Returns rows for stream-ordered memory. They wait for the stream, because only that shows whether the
/// device did the work.
fn asynchronous() -> Vec<Row> {
    vec![
        call("host/cuMemAllocAsync_first", |bench| allocated(bench, MIB).map(drop)),
        row("host/cuMemAllocAsync_again", |bench| {
            allocated(bench, MIB)?;
            attempt(move || allocated(bench, MIB).map(drop))
        }),
        row("host/cuMemAllocAsync_growing", |bench| {
            allocated(bench, MIB)?;
            attempt(move || allocated(bench, GIB).map(drop))
        }),
        row("host/cuMemFreeAsync_1M", |bench| {
            let memory = allocated(bench, MIB)?;
            attempt(move || freed(bench, memory))
        }),
        row("host/cuMemFreeAsync_1G", |bench| {
            let memory = allocated(bench, GIB)?;
            attempt(move || freed(bench, memory))
        }),
        call("host/cuMemPoolCreate", |bench| cuda::new_pool(bench.device()).map(drop)),
        row("host/cuMemPoolDestroy", |bench| {
            let pool = cuda::new_pool(bench.device())?;
            attempt(move || cuda::destroy_pool(pool))
        }),
        call("host/cuDeviceGraphMemTrim", |bench| cuda::trim_graphs(bench.device())),
        row("host/cuMemPoolTrimTo", |bench| {
            freed(bench, allocated(bench, GIB / 4)?)?;
            attempt(move || cuda::trim_pool(bench.device()))
        }),
    ]
}

fn allocated(bench: &Bench, bytes: usize) -> Done<u64> {
    let memory = cuda::alloc_async(bytes, bench.tried_stream)?;
    cuda::synchronize_stream(bench.tried_stream)?;
    Ok(memory)
}

fn freed(bench: &Bench, memory: u64) -> Done {
    cuda::free_async(memory, bench.tried_stream)?;
    cuda::synchronize_stream(bench.tried_stream)
}

fn copies() -> Vec<Row> {
    vec![
        row("host/cuMemsetD32Async", |bench| {
            let memory = cuda::alloc(MIB)?;
            attempt(move || {
                cuda::set_async(memory, MIB, bench.tried_stream)?;
                cuda::synchronize_stream(bench.tried_stream)
            })
        }),
        row("host/cuMemcpyDtoDAsync", |bench| {
            let (to, from) = (cuda::alloc(MIB)?, cuda::alloc(MIB)?);
            attempt(move || {
                cuda::copy_async(to, from, MIB, bench.tried_stream)?;
                cuda::synchronize_stream(bench.tried_stream)
            })
        }),
        row("host/cuMemsetD32", |_| {
            let memory = cuda::alloc(MIB)?;
            attempt(move || cuda::set(memory, MIB))
        }),
        row("host/cuMemcpyDtoD", |_| {
            let (to, from) = (cuda::alloc(MIB)?, cuda::alloc(MIB)?);
            attempt(move || cuda::copy(to, from, MIB))
        }),
        row("host/cuMemcpyPeerAsync", |bench| {
            let (to, from) = (cuda::alloc(MIB)?, cuda::alloc(MIB)?);
            attempt(move || {
                cuda::copy_peer_async(to, from, MIB, bench.tried_stream)?;
                cuda::synchronize_stream(bench.tried_stream)
            })
        }),
        row("host/cuMemcpyHtoDAsync_pinned", |bench| {
            let (to, from) = (cuda::alloc(MIB)?, cuda::alloc_host(MIB)?);
            attempt(move || {
                cuda::upload_async(to, from, MIB, bench.tried_stream)?;
                cuda::synchronize_stream(bench.tried_stream)
            })
        }),
        row("host/cuMemcpyHtoDAsync_pageable", |bench| {
            let (to, from) = (cuda::alloc(MIB)?, cuda::pageable(MIB));
            attempt(move || {
                cuda::upload_async(to, from.as_ptr().cast(), MIB, bench.tried_stream)?;
                cuda::synchronize_stream(bench.tried_stream)
            })
        }),
        row("host/cuMemcpyHtoD", |_| {
            let (to, from) = (cuda::alloc(MIB)?, cuda::pageable(MIB));
            attempt(move || cuda::upload(to, from))
        }),
        row("host/cuMemcpyDtoH", |_| {
            let (from, to) = (cuda::alloc(MIB)?, cuda::pageable(MIB));
            attempt(move || cuda::download(to, from))
        }),
    ]
}

fn streams() -> Vec<Row> {
    let mut rows = vec![
        call("host/cuStreamCreateWithPriority", |_| cuda::urgent_stream().map(drop)),
        row("host/cuStreamDestroy", |_| {
            let stream = cuda::stream(cuda::NON_BLOCKING)?;
            attempt(move || cuda::destroy_stream(stream))
        }),
        call("host/cuStreamSynchronize", |bench| cuda::synchronize_stream(bench.tried_stream)),
        call("host/cuStreamSynchronize_legacy", |_| cuda::synchronize_stream(cuda::legacy_stream())),
        call("host/cuStreamSynchronize_per_thread", |_| cuda::synchronize_stream(cuda::per_thread_stream())),
        call("host/cuStreamQuery", |bench| cuda::is_idle(bench.resident_stream).map(drop)),
        row("host/cuStreamCreate_40_times_again", |_| {
            cuda::streams(40)?.into_iter().try_for_each(cuda::destroy_stream)?;
            attempt(|| cuda::streams(40).map(drop))
        }),
        call("host/cuLaunchHostFunc", |bench| {
            cuda::call_host(bench.tried_stream)?;
            cuda::synchronize_stream(bench.tried_stream)
        }),
        call("host/cuStreamWriteValue32_and_wait", |bench| {
            cuda::write_value(bench.tried_stream, bench.address_of(Word::Spare))?;
            cuda::wait_value(bench.tried_stream, bench.address_of(Word::Spare))?;
            cuda::synchronize_stream(bench.tried_stream)
        }),
        call("host/cuEventCreate", |_| cuda::event(EventFlags::CU_EVENT_DEFAULT).map(drop)),
        call("host/cuEventCreate_2000_times", |_| {
            (0..2000).try_for_each(|_| cuda::event(EventFlags::CU_EVENT_DISABLE_TIMING).map(drop))
        }),
        row("host/cuEventRecord_and_wait", |bench| {
            let event = cuda::event(EventFlags::CU_EVENT_DEFAULT)?;
            attempt(move || cuda::record_and_wait(event, bench.tried_stream))
        }),
        row("host/cuEventDestroy", |_| {
            let event = cuda::event(EventFlags::CU_EVENT_DEFAULT)?;
            attempt(move || cuda::destroy_event(event))
        }),
    ];
    for count in [1, 2, 4, 8, 12, 16, 20, 24, 28, 30, 31, 32, 34, 36, 40] {
        rows.push(row(format!("host/cuStreamCreate_{count}_times"), move |_| {
            attempt(move || cuda::streams(count).map(drop))
        }));
    }
    rows
}

fn graphs() -> Vec<Row> {
    vec![
        row("host/graph_capture", |bench| {
            let function = bench.loaded(small::INFO)?;
            attempt(move || cuda::capture(bench.tried_stream, || bench.launch(function)).map(drop))
        }),
        row("host/cuGraphInstantiate", |bench| {
            let function = bench.loaded(small::INFO)?;
            let graph = cuda::capture(bench.tried_stream, || bench.launch(function))?;
            attempt(move || cuda::instantiate(graph).map(drop))
        }),
        row("host/cuGraphExecDestroy", |bench| {
            let function = bench.loaded(small::INFO)?;
            let graph = cuda::instantiate(cuda::capture(bench.tried_stream, || bench.launch(function))?)?;
            attempt(move || cuda::destroy_graph(graph))
        }),
    ]
}

/// Returns rows that load code during a stream capture, which the driver may also refuse.
fn captures() -> Vec<Row> {
    vec![
        call("capture/cuModuleLoadData", |bench| {
            cuda::capture(bench.tried_stream, || cuda::load_module(small::INFO).map(drop)).map(drop)
        }),
        row("capture/cuModuleGetFunction", |bench| {
            let module = cuda::load_module(small::INFO)?;
            attempt(move || {
                cuda::capture(bench.tried_stream, || cuda::function(module, small::INFO).map(drop)).map(drop)
            })
        }),
        row("capture/cuKernelGetFunction", |bench| {
            let kernel = cuda::kernel(cuda::load_library(small::INFO)?, small::INFO)?;
            attempt(move || {
                cuda::capture(bench.tried_stream, || cuda::function_of_kernel(kernel).map(drop)).map(drop)
            })
        }),
    ]
}
