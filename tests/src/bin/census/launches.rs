//! Rows for first launches that depend on how much of the device the resident kernel occupies, on the
//! streams, or on shared memory and graphs.

use census_kernels::plain::{frame_32k, prints, shared_dynamic, shared_static, small};
use kernel_registry::KernelInfo;
use kernel_registry::cudarc::driver::sys;

use crate::bench::{Bench, ONE_WARP, Word};
use crate::cuda::{self, Done, MIB};
use crate::resident::ResidentWork;
use crate::row::{Attempt, Row, Subject, attempt};

pub(crate) fn rows() -> Vec<Row> {
    [shared(), device(), streams(), graphs()].into_iter().flatten().collect()
}

fn row(name: impl Into<String>, prepare: impl for<'b> Fn(&'b Bench) -> Done<Attempt<'b>> + 'static) -> Row {
    Row::launch(Subject::FirstLaunch, name, prepare)
}

/// Returns a row for a launch with the most shared memory that a block can have.
fn most_shared(name: &str) -> Row {
    row(name, |bench| {
        let function = bench.loaded(shared_dynamic::INFO)?;
        let config = bench.grant_shared(function)?;
        attempt(move || bench.launch_as(function, bench.tried_stream, &config))
    })
}

fn static_shared(name: &str) -> Row {
    row(name, |bench| {
        let function = bench.loaded(shared_static::INFO)?;
        attempt(move || bench.launch(function))
    })
}

fn shared() -> Vec<Row> {
    const CARVED: &str = "a multiprocessor divides its memory anew only while no block is on it";
    vec![
        most_shared("shared/most"),
        row("shared/most_granted_beside", |bench| {
            let function = bench.loaded(shared_dynamic::INFO)?;
            attempt(move || bench.launch_as(function, bench.tried_stream, &bench.grant_shared(function)?))
        }),
        static_shared("shared/static"),
        most_shared("shared/most_beside_every_sm").during(ResidentWork::EverySm).remains(CARVED),
        row("shared/most_again_beside_every_sm", |bench| {
            let function = bench.loaded(shared_dynamic::INFO)?;
            let config = bench.grant_shared(function)?;
            bench.launch_as(function, bench.tried_stream, &config)?;
            cuda::synchronize()?;
            attempt(move || bench.launch_as(function, bench.tried_stream, &config))
        })
        .during(ResidentWork::EverySm)
        .remains(CARVED),
        row("shared/32k_beside_every_sm", |bench| {
            let function = bench.loaded(shared_dynamic::INFO)?;
            attempt(move || bench.launch_as(function, bench.tried_stream, &ONE_WARP.shared(32 * 1024)))
        })
        .during(ResidentWork::EverySm)
        .remains(CARVED),
        static_shared("shared/static_beside_every_sm").during(ResidentWork::EverySm).remains(CARVED),
        most_shared("shared/most_beside_every_sm_carved").during(ResidentWork::EverySmCarved),
    ]
}

fn loaded(
    name: impl Into<String>,
    kernel: &'static KernelInfo,
    stream: fn(&Bench) -> Done<sys::CUstream>,
) -> Row {
    row(name, move |bench| {
        let (function, stream) = (bench.loaded(kernel)?, stream(bench)?);
        attempt(move || bench.launch_on(function, stream))
    })
}

fn device() -> Vec<Row> {
    const FULL: &str = "there is no room on the device";
    let tried_stream = |bench: &Bench| Ok(bench.tried_stream);
    vec![
        loaded("device/every_sm", small::INFO, tried_stream).during(ResidentWork::EverySm),
        loaded("device/full", small::INFO, tried_stream).during(ResidentWork::WholeDevice).remains(FULL),
        loaded("device/full_urgent_stream", small::INFO, |_| cuda::urgent_stream())
            .during(ResidentWork::WholeDevice)
            .remains(FULL),
    ]
}

fn streams() -> Vec<Row> {
    const LEGACY: &str = "the default stream and blocking streams wait for each other";
    let mut rows = vec![
        loaded("stream/legacy", small::INFO, |_| Ok(cuda::legacy_stream())),
        loaded("stream/non_blocking_beside_legacy", small::INFO, |bench| Ok(bench.tried_stream))
            .during(ResidentWork::ThreadOnLegacy),
        loaded("stream/blocking_beside_legacy", small::INFO, |_| cuda::stream(cuda::BLOCKING))
            .during(ResidentWork::ThreadOnLegacy)
            .remains(LEGACY),
        loaded("stream/legacy_beside_blocking", small::INFO, |_| Ok(cuda::legacy_stream()))
            .during(ResidentWork::ThreadOnBlocking)
            .remains(LEGACY),
        Row::call(Subject::FirstLaunch, "stream/copy_beside_blocking", |_| {
            let (to, from) = (cuda::alloc(MIB)?, cuda::pageable(MIB));
            attempt(move || cuda::upload(to, from))
        })
        .during(ResidentWork::ThreadOnBlocking)
        .remains(LEGACY),
        row("stream/per_thread_in_new_thread", |bench| {
            let function = bench.loaded(small::INFO)?;
            attempt(move || {
                bench.start(bench.launch_elsewhere(function, cuda::per_thread_stream(), Word::Done))
            })
        }),
        loaded("stream/per_thread", small::INFO, |_| Ok(cuda::per_thread_stream())),
        row("stream/created_beside", |bench| {
            let function = bench.loaded(small::INFO)?;
            attempt(move || bench.launch_on(function, cuda::stream(cuda::NON_BLOCKING)?))
        }),
        row("stream/launched_3000_times", |bench| {
            let function = bench.loaded(small::INFO)?;
            attempt(move || (0..3000).try_for_each(|_| bench.launch(function)))
        }),
    ];
    for number in [7, 8, 15, 31, 32, 40, 64, 127, 128] {
        rows.push(row(format!("stream/number_{number}"), move |bench| {
            let (function, streams) = (bench.loaded(small::INFO)?, cuda::streams(number + 1)?);
            attempt(move || bench.launch_on(function, streams[number]))
        }));
    }
    rows
}

fn graphs() -> Vec<Row> {
    vec![
        graph("graph/first", small::INFO, false),
        graph("graph/uploaded", small::INFO, true),
        graph("graph/frame_32k", frame_32k::INFO, false),
        graph("graph/frame_32k_uploaded", frame_32k::INFO, true),
        graph("graph/printf_uploaded", prints::INFO, true),
    ]
}

/// Returns a row for the first launch of a captured graph. With `uploaded`, the graph is uploaded before
/// that.
fn graph(name: &str, kernel: &'static KernelInfo, uploaded: bool) -> Row {
    row(name, move |bench| {
        let function = bench.loaded(kernel)?;
        let graph = cuda::instantiate(cuda::capture(bench.tried_stream, || bench.launch(function))?)?;
        if uploaded {
            cuda::upload_graph(graph, bench.tried_stream)?;
        }
        attempt(move || cuda::launch_graph(graph, bench.tried_stream))
    })
}
