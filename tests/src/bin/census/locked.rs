//! Rows for calls of one thread while another thread of the same context waits in the driver: does each call
//! return?

use std::thread;

use census_kernels::plain::{frame_32k, sibling, small};
use kernel_registry::cudarc::driver::sys::CUdevice_attribute_enum as Attribute;
use kernel_registry::cudarc::driver::sys::{CUevent_flags_enum as EventFlags, CUlimit_enum as Limit};

use crate::bench::{Bench, Other, Word};
use crate::cuda::{self, Done, FunctionAttribute, MIB, Sent};
use crate::row::{Attempt, Row, Subject, attempt};

pub(crate) fn rows() -> Vec<Row> {
    [copies(), launches(), memory(), streams(), questions(), behind_other_waits()]
        .into_iter()
        .flatten()
        .collect()
}

/// Returns a row for a call while another thread waits in a launch whose kernel isn't loaded yet.
fn row(name: &str, prepare: impl for<'b> Fn(&'b Bench) -> Done<Attempt<'b>> + 'static) -> Row {
    after_other_waits(name, late_launch, prepare)
}

/// Returns a row for a call while another thread waits in the calls of `other`.
fn after_other_waits(
    name: &str,
    other: fn(&Bench) -> Done<Other>,
    prepare: impl for<'b> Fn(&'b Bench) -> Done<Attempt<'b>> + 'static,
) -> Row {
    Row::call(Subject::HostCall, format!("locked/{name}"), move |bench| {
        let (other, call) = (other(bench)?, prepare(bench)?);
        attempt(move || {
            bench.start(other)?;
            // In this time, the other thread enters the call that waits.
            thread::sleep(bench.limit / 5);
            call()
        })
    })
}

/// Returns a row for a call that needs no preparation.
fn call(name: &str, call: fn(&Bench) -> Done) -> Row {
    row(name, move |bench| attempt(move || call(bench)))
}

fn late_launch(bench: &Bench) -> Done<Other> {
    let kernel = cuda::as_function(cuda::kernel(cuda::load_library(sibling::INFO)?, sibling::INFO)?);
    let stream = cuda::stream(cuda::NON_BLOCKING)?;
    Ok(bench.launch_elsewhere(kernel, stream, Word::Spare))
}

fn copies() -> Vec<Row> {
    vec![
        row("cuMemcpyHtoDAsync_pinned", |bench| {
            let (to, from) = (cuda::alloc(MIB)?, cuda::alloc_host(MIB)?);
            attempt(move || cuda::upload_async(to, from, MIB, bench.tried_stream))
        }),
        row("cuMemcpyHtoDAsync_pageable", upload),
        row("cuMemcpyHtoD", |_| {
            let (to, from) = (cuda::alloc(MIB)?, cuda::pageable(MIB));
            attempt(move || cuda::upload(to, from))
        }),
        row("cuMemcpyDtoHAsync", |bench| {
            let (from, to) = (cuda::alloc(MIB)?, cuda::alloc_host(MIB)?);
            attempt(move || cuda::download_async(to, from, MIB, bench.tried_stream))
        }),
        row("cuMemsetD32Async", |bench| {
            let memory = cuda::alloc(MIB)?;
            attempt(move || cuda::set_async(memory, MIB, bench.tried_stream))
        }),
    ]
}

fn upload(bench: &Bench) -> Done<Attempt<'_>> {
    let (to, from) = (cuda::alloc(MIB)?, cuda::pageable(MIB));
    attempt(move || cuda::upload_async(to, from.as_ptr().cast(), MIB, bench.tried_stream))
}

fn launches() -> Vec<Row> {
    vec![
        row("cuLaunchKernel", |bench| {
            let function = bench.loaded(small::INFO)?;
            attempt(move || bench.launch(function))
        }),
        row("cuGraphLaunch", |bench| {
            let function = bench.loaded(small::INFO)?;
            let graph = cuda::instantiate(cuda::capture(bench.tried_stream, || bench.launch(function))?)?;
            attempt(move || cuda::launch_graph(graph, bench.tried_stream))
        }),
        call("cuLaunchHostFunc", |bench| cuda::call_host(bench.tried_stream)),
    ]
}

fn memory() -> Vec<Row> {
    vec![
        call("cuMemAlloc", |_| cuda::alloc(MIB).map(drop)),
        call("cuMemHostAlloc", |_| cuda::alloc_host(MIB).map(drop)),
        call("cuMemAllocAsync", |bench| cuda::alloc_async(MIB, bench.tried_stream).map(drop)),
        call("cuMemGetInfo", |_| cuda::free_memory().map(drop)),
        row("cuPointerGetAttribute", |_| {
            let memory = cuda::alloc(MIB)?;
            attempt(move || cuda::context_of(memory).map(drop))
        }),
    ]
}

fn streams() -> Vec<Row> {
    let recorded = |bench: &Bench| {
        let event = cuda::event(EventFlags::CU_EVENT_DEFAULT)?;
        cuda::record_and_wait(event, bench.tried_stream)?;
        Ok(event)
    };
    vec![
        row("cuEventRecord", |bench| {
            let event = cuda::event(EventFlags::CU_EVENT_DEFAULT)?;
            attempt(move || cuda::record(event, bench.tried_stream))
        }),
        call("cuEventCreate", |_| cuda::event(EventFlags::CU_EVENT_DEFAULT).map(drop)),
        row("cuEventQuery", move |bench| {
            let event = recorded(bench)?;
            attempt(move || cuda::has_come(event).map(drop))
        }),
        call("cuStreamCreate", |_| cuda::stream(cuda::NON_BLOCKING).map(drop)),
        call("cuStreamQuery_idle", |bench| cuda::is_idle(bench.tried_stream).map(drop)),
        call("cuStreamQuery_busy", |bench| cuda::is_idle(bench.resident_stream).map(drop)),
        call("cuStreamSynchronize_idle", |bench| cuda::synchronize_stream(bench.tried_stream)),
        row("cuStreamWaitEvent", move |bench| {
            let event = recorded(bench)?;
            attempt(move || cuda::wait_event(bench.tried_stream, event))
        }),
        call("cuStreamWriteValue32", |bench| {
            cuda::write_value(bench.tried_stream, bench.address_of(Word::Spare))
        }),
    ]
}

fn questions() -> Vec<Row> {
    vec![
        call("cuCtxGetLimit", |_| cuda::limit(Limit::CU_LIMIT_STACK_SIZE).map(drop)),
        call("cuCtxSetCurrent", |_| cuda::set_context(cuda::current_context()?)),
        call("cuCtxGetId", |_| cuda::context_id().map(drop)),
        row("cuModuleGetFunction", |_| {
            let module = cuda::load_module(small::INFO)?;
            cuda::load_function(cuda::function(module, small::INFO)?)?;
            attempt(move || cuda::function(module, small::INFO).map(drop))
        }),
        row("cuOccupancy", |bench| {
            let function = bench.loaded(small::INFO)?;
            attempt(move || cuda::occupancy(function).map(drop))
        }),
        row("cuFuncGetAttribute", |bench| {
            let function = bench.loaded(small::INFO)?;
            let which = FunctionAttribute::CU_FUNC_ATTRIBUTE_NUM_REGS;
            attempt(move || cuda::function_attribute(function, which).map(drop))
        }),
        row("cuFuncIsLoaded", |bench| {
            let function = bench.loaded(small::INFO)?;
            attempt(move || cuda::is_loaded(function).map(drop))
        }),
        call("cuLibraryLoadData", |_| cuda::load_library(small::INFO).map(drop)),
        call("cuDeviceGetAttribute", |bench| {
            bench.attribute(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT).map(drop)
        }),
    ]
}

/// Returns rows for a copy while the other thread waits in a call other than a launch of an unloaded kernel.
fn behind_other_waits() -> Vec<Row> {
    vec![
        after_other_waits(
            "copy_behind_cuModuleLoadData",
            |_| Ok(Box::new(|| cuda::load_module(small::INFO).map(drop))),
            upload,
        ),
        after_other_waits(
            "copy_behind_cuKernelGetFunction",
            |_| {
                let library = cuda::load_library(sibling::INFO)?;
                let kernel = Sent::new(cuda::kernel(library, sibling::INFO)?);
                Ok(Box::new(move || cuda::function_of_kernel(kernel.get()).map(drop)))
            },
            upload,
        ),
        after_other_waits(
            "copy_behind_frame_32k",
            |bench| {
                let (function, stream) = (bench.loaded(frame_32k::INFO)?, cuda::stream(cuda::NON_BLOCKING)?);
                Ok(bench.launch_elsewhere(function, stream, Word::Spare))
            },
            upload,
        ),
        after_other_waits(
            "copy_behind_cuMemFree",
            |_| {
                let memory = cuda::alloc(MIB)?;
                Ok(Box::new(move || cuda::free(memory)))
            },
            upload,
        ),
    ]
}
