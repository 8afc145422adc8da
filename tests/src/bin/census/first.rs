//! Rows for first launches of kernels that need more than loading: a stack, printf, malloc, and so on.

use census_kernels::cluster::{cluster_at_launch, clustered};
use census_kernels::earlier::{earlier_frame_32k, earlier_malloc, earlier_printf};
use census_kernels::plain::{allocates, frame_2k, frame_32k, frame_800, prints, small};
use census_kernels::special::{asserts, calls_pointer, recurses};
use census_kernels::{uses_managed, waits_for_grid};
use kernel_registry::cudarc::driver::sys::CUlimit_enum as Limit;
use kernel_registry::{KernelInfo, LaunchConfig};

use crate::bench::{Bench, ONE_WARP};
use crate::cuda::{self, Done, FunctionAttribute, MIB};
use crate::row::{Row, Subject, attempt};

pub(crate) fn rows() -> Vec<Row> {
    [frames(), printf_and_malloc(), special()].into_iter().flatten().collect()
}

/// Returns a row for the first launch of a loaded kernel.
pub(crate) fn first(name: &str, kernel: &'static KernelInfo) -> Row {
    after(name, kernel, |_| Ok(()))
}

/// Returns a row for the first launch of a loaded kernel after the operation `earlier`.
pub(crate) fn after(name: &str, kernel: &'static KernelInfo, earlier: fn(&Bench) -> Done) -> Row {
    configured(name, kernel, ONE_WARP, earlier)
}

fn configured(
    name: &str,
    kernel: &'static KernelInfo,
    config: LaunchConfig,
    earlier: fn(&Bench) -> Done,
) -> Row {
    Row::launch(Subject::FirstLaunch, name, move |bench| {
        let function = bench.loaded(kernel)?;
        earlier(bench)?;
        attempt(move || bench.launch_as(function, bench.tried_stream, &config))
    })
}

/// Returns a row for a later launch of a kernel.
pub(crate) fn again(name: &str, kernel: &'static KernelInfo) -> Row {
    Row::launch(Subject::FirstLaunch, name, move |bench| {
        let function = bench.loaded(kernel)?;
        bench.launch_and_wait(function)?;
        attempt(move || bench.launch(function))
    })
}

fn frames() -> Vec<Row> {
    vec![
        first("frame/800", frame_800::INFO),
        first("frame/2k", frame_2k::INFO),
        first("frame/32k", frame_32k::INFO),
        again("frame/32k_again", frame_32k::INFO),
        after("frame/32k_after_higher_limit", frame_32k::INFO, |_| {
            cuda::set_limit(Limit::CU_LIMIT_STACK_SIZE, 33 * 1024)
        }),
        Row::launch(Subject::FirstLaunch, "frame/32k_after_exact_limit", |bench| {
            let function = bench.loaded(frame_32k::INFO)?;
            let which = FunctionAttribute::CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES;
            let frame = cuda::function_attribute(function, which)?;
            cuda::set_limit(Limit::CU_LIMIT_STACK_SIZE, frame.unsigned_abs() as usize)?;
            attempt(move || bench.launch(function))
        }),
        after("frame/2k_after_32k", frame_2k::INFO, |bench| {
            bench.launch_and_wait(bench.loaded(frame_32k::INFO)?)
        }),
        after("frame/32k_after_other", frame_32k::INFO, |bench| {
            bench.run_earlier(earlier_frame_32k::INFO, false, bench.tried_stream)
        }),
        after("frame/32k_after_other_and_small", frame_32k::INFO, |bench| {
            bench.run_earlier(earlier_frame_32k::INFO, false, bench.tried_stream)?;
            let function = bench.loaded(small::INFO)?;
            (0..20).try_for_each(|_| bench.launch_and_wait(function))
        }),
        configured(
            "frame/32k_wide_after_one_thread",
            frame_32k::INFO,
            LaunchConfig::new([1000, 1, 1], [256, 1, 1]),
            |bench| bench.run_earlier(earlier_frame_32k::INFO, false, bench.tried_stream),
        ),
        after("frame/32k_after_lowered_limit", frame_32k::INFO, |_| raise_and_lower_limit()).remains(LOWERED),
        after("frame/small_after_lowered_limit", small::INFO, |_| raise_and_lower_limit()),
    ]
}

/// Why the next launch waits, and every launch that needs the previous limit.
const LOWERED: &str = "lowering the stack limit makes launches wait";

pub(crate) fn raise_and_lower_limit() -> Done {
    cuda::set_limit(Limit::CU_LIMIT_STACK_SIZE, 33 * 1024)?;
    cuda::set_limit(Limit::CU_LIMIT_STACK_SIZE, 1024)
}

fn printf_and_malloc() -> Vec<Row> {
    vec![
        first("printf/first", prints::INFO),
        again("printf/again", prints::INFO),
        after("printf/after_other", prints::INFO, |bench| {
            bench.run_earlier(earlier_printf::INFO, false, bench.tried_stream)
        }),
        after("printf/after_other_that_prints", prints::INFO, |bench| {
            bench.run_earlier(earlier_printf::INFO, true, bench.tried_stream)
        }),
        Row::launch(Subject::FirstLaunch, "printf/loaded_after_other", |bench| {
            bench.run_earlier(earlier_printf::INFO, false, bench.tried_stream)?;
            let function = bench.loaded(prints::INFO)?;
            attempt(move || bench.launch(function))
        }),
        Row::launch(Subject::FirstLaunch, "printf/after_limit", |bench| {
            // The driver refuses this limit after a launch of a kernel with printf, such as warming's.
            if !bench.warmed {
                cuda::set_limit(Limit::CU_LIMIT_PRINTF_FIFO_SIZE, 2 * MIB)?;
            }
            let function = bench.loaded(prints::INFO)?;
            attempt(move || bench.launch(function))
        }),
        first("assert/first", asserts::INFO),
        after("assert/after_printf", asserts::INFO, |bench| {
            bench.run_earlier(earlier_printf::INFO, false, bench.tried_stream)
        }),
        first("malloc/first", allocates::INFO),
        again("malloc/again", allocates::INFO),
        after("malloc/after_other", allocates::INFO, |bench| {
            bench.run_earlier(earlier_malloc::INFO, false, bench.tried_stream)
        }),
        after("malloc/after_other_that_allocates", allocates::INFO, |bench| {
            bench.run_earlier(earlier_malloc::INFO, true, bench.tried_stream)
        }),
        Row::launch(Subject::FirstLaunch, "malloc/after_limit", |bench| {
            if !bench.warmed {
                cuda::set_limit(Limit::CU_LIMIT_MALLOC_HEAP_SIZE, 16 * MIB)?;
            }
            let function = bench.loaded(allocates::INFO)?;
            attempt(move || bench.launch(function))
        }),
        after("malloc/after_printf", allocates::INFO, |bench| {
            bench.run_earlier(earlier_printf::INFO, false, bench.tried_stream)
        }),
    ]
}

fn special() -> Vec<Row> {
    let pair = LaunchConfig::new([2, 1, 1], [32, 1, 1]);
    let nothing = |_: &Bench| Ok(());
    vec![
        first("special/recursion", recurses::INFO),
        first("special/function_pointer", calls_pointer::INFO),
        first("special/managed_variable", uses_managed::INFO),
        configured("special/cooperative", small::INFO, ONE_WARP.cooperative(), nothing),
        configured("special/grid_barrier", waits_for_grid::INFO, ONE_WARP.cooperative(), nothing),
        configured("special/cluster", clustered::INFO, pair, nothing),
        configured("special/cluster_at_launch", cluster_at_launch::INFO, pair.cluster(2), nothing),
    ]
}
