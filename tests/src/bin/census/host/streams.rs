//! Rows for streams, captures and events.

use std::ffi::c_void;

use kernel_registry::cudarc::driver::sys;

use crate::bench::{Bench, Word};
use crate::cuda::{self, Done, EventFlags, NON_BLOCKING, NULL, driver, join_errors};
use crate::host::{call, with};
use crate::row::Row;

pub(crate) fn rows() -> Vec<Row> {
    [streams(), captures(), events()].into_iter().flatten().collect()
}

fn another(_: &Bench) -> Done<sys::CUstream> {
    cuda::stream(NON_BLOCKING)
}

fn streams() -> Vec<Row> {
    vec![
        call("cuStreamAddCallback", |bench| {
            unsafe extern "C" fn ignore(_: sys::CUstream, _: u32, _: *mut c_void) {}
            let function: unsafe extern "C" fn(sys::CUstream, u32, *mut c_void) = ignore;
            driver!(cuStreamAddCallback(bench.tried_stream, function, NULL, 0_u32))?;
            cuda::synchronize_stream(bench.tried_stream)
        }),
        with("stream_attributes", another, |bench, other| {
            const SYNCHRONIZATION: u32 = 3;
            // The value 1 lets the driver choose how the host waits.
            let (mut found, value) = ([0_u64; 8], [1_u64, 0, 0, 0, 0, 0, 0, 0]);
            join_errors([
                driver!(cuStreamGetAttribute(bench.tried_stream, SYNCHRONIZATION, found.as_mut_ptr())),
                driver!(cuStreamSetAttribute(bench.tried_stream, SYNCHRONIZATION, value.as_ptr())),
                driver!(cuStreamCopyAttributes(other, bench.tried_stream)),
            ])
        }),
        call("stream_questions", |bench| {
            let stream = bench.resident_stream;
            let (mut context, mut part, mut id, mut flags, mut number) = (NULL, NULL, 0_u64, 0_u32, 0_i32);
            join_errors([
                driver!(cuStreamGetCtx(stream, &raw mut context)),
                driver!(cuStreamGetCtx_v2(stream, &raw mut context, &raw mut part)),
                driver!(cuStreamGetId(stream, &raw mut id)),
                driver!(cuStreamGetFlags(stream, &raw mut flags)),
                driver!(cuStreamGetPriority(stream, &raw mut number)),
                driver!(cuStreamGetDevice(stream, &raw mut number)),
            ])
        }),
        call("cuStreamBatchMemOp", |bench| {
            let mut writes = cuda::batch(bench.address_of(Word::Spare));
            driver!(cuStreamBatchMemOp_v2(bench.tried_stream, 1_u32, writes.as_mut_ptr(), 0_u32))?;
            cuda::synchronize_stream(bench.tried_stream)
        }),
        call("cuStreamWriteValue64_and_wait", |bench| {
            const EQUAL: u32 = 1;
            let word = bench.address_of(Word::Spare);
            join_errors([
                driver!(cuStreamWriteValue64_v2(bench.tried_stream, word, 1_u64, 0_u32)),
                driver!(cuStreamWaitValue64_v2(bench.tried_stream, word, 1_u64, EQUAL)),
                cuda::synchronize_stream(bench.tried_stream),
            ])
        }),
    ]
}

fn captures() -> Vec<Row> {
    vec![call("cuStreamBeginCaptureToGraph", |bench| {
        const RELAXED: u32 = 2;
        let (graph, mut ended, mut status) = (cuda::new_graph()?, NULL, 0_u32);
        let (mut id, mut mode, mut node) = (0_u64, RELAXED, NULL);
        driver!(cuStreamBeginCaptureToGraph(bench.tried_stream, graph, NULL, NULL, 0_usize, RELAXED))?;
        join_errors([
            driver!(cuStreamIsCapturing(bench.tried_stream, &raw mut status)),
            driver!(cuStreamGetCaptureInfo_v3(
                bench.tried_stream,
                &raw mut status,
                &raw mut id,
                NULL,
                NULL,
                NULL,
                NULL
            )),
            driver!(cuStreamUpdateCaptureDependencies_v2(
                bench.tried_stream,
                &raw mut node,
                NULL,
                0_usize,
                1_u32
            )),
            driver!(cuThreadExchangeStreamCaptureMode(&raw mut mode)),
            driver!(cuStreamEndCapture(bench.tried_stream, &raw mut ended)),
        ])
    })]
}

fn events() -> Vec<Row> {
    vec![
        with(
            "cuEventElapsedTime",
            |bench| {
                let (first, last) =
                    (cuda::event(EventFlags::CU_EVENT_DEFAULT)?, cuda::event(EventFlags::CU_EVENT_DEFAULT)?);
                cuda::record(first, bench.tried_stream)?;
                cuda::record(last, bench.tried_stream)?;
                Ok((first, last))
            },
            |_, (first, last)| {
                let mut milliseconds = 0_f32;
                driver!(cuEventElapsedTime_v2(&raw mut milliseconds, first, last))
            },
        ),
        with(
            "cuEventRecordWithFlags",
            |_| cuda::event(EventFlags::CU_EVENT_DEFAULT),
            |bench, event| {
                driver!(cuEventRecordWithFlags(event, bench.tried_stream, 0_u32))?;
                cuda::wait_event(bench.tried_stream, event)
            },
        ),
    ]
}
