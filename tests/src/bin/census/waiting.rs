//! Rows for first launches while a stream waits for a word, without a resident kernel.

use census_kernels::callee::frame_in_callee;
use census_kernels::earlier::earlier_nothing;
use census_kernels::plain::{frame_32k, small};
use census_kernels::recursive::recurses_8k;
use census_kernels::{bare, bare_frame_800};
use kernel_registry::cudarc::driver::sys;
use kernel_registry::cudarc::driver::sys::CUlimit_enum as Limit;
use kernel_registry::{KernelInfo, LaunchConfig};

use crate::bench::{Bench, Word};
use crate::cuda::{self, Done, MIB};
use crate::first::raise_and_lower_limit;
use crate::resident::ResidentWork;
use crate::row::{Attempt, Row, Subject, attempt};

pub(crate) fn rows() -> Vec<Row> {
    const FULL: &str = "a stream's queue is limited, and its caller waits when it is full";
    let rows = vec![
        row("wait/module_only", |bench| {
            let module = cuda::load_module(small::INFO)?;
            attempt(move || bench.launch(bench.warm_or(small::INFO, || cuda::function(module, small::INFO))?))
        }),
        row("wait/module_function", |bench| {
            let function = bench
                .warm_or(small::INFO, || cuda::function(cuda::load_module(small::INFO)?, small::INFO))?;
            attempt(move || bench.launch(function))
        }),
        row("wait/loaded", |bench| {
            let function = bench.loaded(small::INFO)?;
            attempt(move || bench.launch(function))
        }),
        alone("wait/no_frame_in_context", bare::INFO),
        alone("wait/frame_800_in_context", bare_frame_800::INFO),
        row("wait/frame_2k_in_context", |bench| {
            cuda::load_module(frame_in_callee::INFO)?;
            let function = bench.loaded(bare::INFO)?;
            attempt(move || bench.launch(function))
        }),
        row("wait/frame_in_context_after_limit", |bench| {
            let function = bench.loaded(small::INFO)?;
            if !bench.warmed {
                cuda::set_limit(Limit::CU_LIMIT_STACK_SIZE, 33 * 1024)?;
            }
            attempt(move || bench.launch(function))
        }),
        row("wait/recursion_in_context", |bench| {
            cuda::load_module(recurses_8k::INFO)?;
            let function = bench.loaded(bare::INFO)?;
            attempt(move || bench.launch(function))
        }),
        row("wait/frame_32k", |bench| {
            let function = bench.loaded(frame_32k::INFO)?;
            attempt(move || bench.launch(function))
        }),
        after_launch("wait/after_launch", |bench| Ok(vec![bench.tried_stream])),
        after_launch("wait/after_launch_on_waiting_stream", |bench| Ok(vec![bench.resident_stream])),
        after_launch("wait/after_launch_on_both", |bench| {
            Ok(vec![bench.resident_stream, bench.tried_stream])
        }),
        after_launch("wait/after_launch_on_third", |_| cuda::streams(1)),
        row("wait/after_other_kernel_on_third", |bench| {
            let function = bench.loaded(small::INFO)?;
            bench.run_earlier(earlier_nothing::INFO, false, cuda::stream(cuda::NON_BLOCKING)?)?;
            attempt(move || bench.launch(function))
        }),
        row("wait/after_resident_kernel", |bench| {
            let function = bench.loaded(small::INFO)?;
            // The resident kernel ends at once.
            bench.set(Word::Flag, 1);
            bench.launch_resident(
                bench.resident_stream,
                &LaunchConfig::new([1, 1, 1], [1, 1, 1]),
                bench.limit,
            )?;
            cuda::synchronize()?;
            attempt(move || bench.launch(function))
        }),
        row("wait/after_memset", |bench| {
            let function = bench.loaded(small::INFO)?;
            cuda::set_async(cuda::alloc(MIB)?, MIB, bench.tried_stream)?;
            cuda::synchronize()?;
            attempt(move || bench.launch(function))
        }),
        row("wait/module_only_after_launch", |bench| {
            let module = cuda::load_module(small::INFO)?;
            bench.run_earlier(earlier_nothing::INFO, false, bench.tried_stream)?;
            attempt(move || bench.launch(bench.warm_or(small::INFO, || cuda::function(module, small::INFO))?))
        }),
        row("wait/frame_32k_after_launch", |bench| {
            let function = bench.loaded(frame_32k::INFO)?;
            bench.run_earlier(earlier_nothing::INFO, false, bench.tried_stream)?;
            attempt(move || bench.launch(function))
        }),
        row("wait/launched_3000_times", |bench| {
            let function = bench.loaded(small::INFO)?;
            bench.run_earlier(earlier_nothing::INFO, false, bench.tried_stream)?;
            attempt(move || (0..3000).try_for_each(|_| bench.launch(function)))
        }),
        // Here, the tried launch is the first after the limit changed. With a resident kernel, it would be
        // that kernel's.
        row("wait/small_after_lowered_limit", |bench| {
            let function = bench.loaded(small::INFO)?;
            bench.run_earlier(earlier_nothing::INFO, false, bench.tried_stream)?;
            raise_and_lower_limit()?;
            attempt(move || bench.launch(function))
        }),
        queued_after_wait("wait/launched_1000_times_behind_it", 1000),
        queued_after_wait("wait/launched_1500_times_behind_it", 1500).remains(FULL),
        queued_after_wait("wait/launched_2000_times_behind_it", 2000).remains(FULL),
    ];
    rows.into_iter().map(|row| row.during(ResidentWork::PendingWait)).collect()
}

fn row(name: &str, prepare: impl for<'b> Fn(&'b Bench) -> Done<Attempt<'b>> + 'static) -> Row {
    Row::launch(Subject::FirstLaunch, name, prepare)
}

/// Returns a row for the first launch of a kernel that is alone in its image and, except for the resident
/// kernel, in the context.
fn alone(name: &str, kernel: &'static KernelInfo) -> Row {
    row(name, move |bench| {
        let function = bench.loaded(kernel)?;
        attempt(move || bench.launch(function))
    })
}

/// Returns a row for a launch that follows one launch on each of these streams.
fn after_launch(name: &str, streams: fn(&Bench) -> Done<Vec<sys::CUstream>>) -> Row {
    row(name, move |bench| {
        let function = bench.loaded(small::INFO)?;
        for stream in streams(bench)? {
            bench.launch_on(function, stream)?;
        }
        cuda::synchronize()?;
        attempt(move || bench.launch(function))
    })
}

/// Returns a row that queues `count` launches in the stream that waits. It ends when the driver has accepted
/// them.
fn queued_after_wait(name: &str, count: usize) -> Row {
    Row::call(Subject::FirstLaunch, name, move |bench| {
        let function = bench.loaded(small::INFO)?;
        bench.run_earlier(earlier_nothing::INFO, false, bench.tried_stream)?;
        attempt(move || (0..count).try_for_each(|_| bench.launch_on(function, bench.resident_stream)))
    })
}
