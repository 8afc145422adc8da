//! The checks of `hardware`, in order: warming, launching, contexts, several devices, failures.

use std::error::Error;
use std::ptr;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use kernel_registry::cudarc::driver::{CudaContext, CudaStream, DevicePtrMut, result, sys};
use kernel_registry::{
    Cause, DynArg, Late, LaunchConfig, LaunchError, Prepared, RecheckError, RuntimeImage, Warm, WarmError,
    Warmup, launch_dyn, warm_all,
};
use kernels::blas1::saxpy;
use kernels::memory::{histogram, pair_sum, shuffle};
use kernels::waiting::{spin_until_flag, touch};

use crate::checked::Checked;
use crate::resident::{Resident, Status};
use crate::samples;

/// Returns an error unless `is_so`.
pub(crate) fn ensure(is_so: bool, otherwise: impl Into<String>) -> Result<(), Box<dyn Error>> {
    if is_so { Ok(()) } else { Err(otherwise.into().into()) }
}

fn saxpy_on(stream: &Arc<CudaStream>) -> Result<(), Box<dyn Error>> {
    samples::ALL[0].1(stream)
}

/// Creates another context on the first device.
pub(crate) fn other_context() -> Result<Arc<CudaContext>, Box<dyn Error>> {
    let device = result::device::get(0)?;
    // SAFETY: the context is new, and the `CudaContext` owns it from here on.
    unsafe {
        let mut context = ptr::null_mut();
        sys::cuCtxCreate_v4(&mut context, ptr::null_mut(), 0, device).result()?;
        Ok(CudaContext::from_raw_context(0, device, context)?)
    }
}

pub(crate) fn everything_is_warm(warm: &Warm, first: Duration) -> Checked {
    let report = warm.report();
    let known = kernel_registry::kernels()?.len();
    let found = report.kernels.len() + report.unavailable.len();
    ensure(found == known, format!("{found} of {known} kernels are in the report"))?;
    ensure(report.verified, "the driver did not confirm it")?;
    ensure(report.kernels.iter().any(|kernel| kernel.local >= 2048), "no kernel has a frame of 2 KiB")?;
    ensure(report.stack >= 2048, format!("the stack has {} bytes", report.stack))?;
    warm.recheck()?;
    Ok(format!("{known} kernels in {first:.1?}"))
}

pub(crate) fn hooks(warm: &Warm, _: Duration) -> Checked {
    let paths: Vec<_> = warm.report().hooks.iter().map(|hook| hook.path).collect();
    ensure(
        paths.len() == 2 && paths[0].ends_with("::first") && paths[1].ends_with("::second"),
        format!("{paths:?} have run"),
    )?;
    ensure(warm.report().stack >= 4096, "the stack is too small for what hooks loaded")?;
    warm_all(warm.context())?;
    ensure(crate::hooks::runs() == 2, "they run once in a context")?;
    Ok("in order, once, with a kernel of another library".into())
}

/// Launches every kernel while a resident kernel runs. Returns the slowest launch.
fn launch_all_while_resident(context: &Arc<CudaContext>) -> Result<(Duration, &'static str), Box<dyn Error>> {
    let stream = context.new_stream()?;
    let resident = Resident::start(context, Duration::from_secs(5))?;
    let mut slowest = (Duration::ZERO, "");
    for (name, launch) in samples::ALL {
        let begun = Instant::now();
        launch(&stream).map_err(|error| format!("{name}: {error}"))?;
        slowest = slowest.max((begun.elapsed(), name));
        ensure(resident.status() == Status::Spinning, format!("{name} waited for the resident kernel"))?;
    }
    ensure(resident.release()? == Status::Released, "the resident kernel gave up")?;
    Ok(slowest)
}

pub(crate) fn first_launches(warm: &Warm, _: Duration) -> Checked {
    let (time, name) = launch_all_while_resident(warm.context())?;
    Ok(format!("{} kernels, results right, the slowest {name} with {time:.1?}", samples::ALL.len()))
}

/// Checks that a cold kernel does wait, which shows that `first_launches` can fail.
pub(crate) fn a_cold_kernel_waits(warm: &Warm, _: Duration) -> Checked {
    if !warm.report().loads_lazily {
        return Ok("no kernel is cold: the driver loads eagerly".into());
    }
    let context = other_context()?;
    let _warm =
        Warmup::new().only(|kernel| kernel == spin_until_flag::INFO).late(Late::Allow).warm(&context)?;
    let stream = context.new_stream()?;
    let resident = Resident::start(&context, Duration::from_millis(400))?;
    saxpy_on(&stream)?;
    ensure(resident.status() == Status::TimedOut, "it was loaded while a resident kernel ran")?;
    Ok("loaded late, it waited until the resident kernel gave up".into())
}

pub(crate) fn made_at_run_time(warm: &Warm, _: Duration) -> Checked {
    let bytes = saxpy::INFO.image().ok_or("saxpy has no image")?.bytes();
    let kernels = RuntimeImage::new("made at run time", bytes).register()?;
    let saxpy = *kernels.iter().find(|kernel| kernel.symbol() == saxpy::INFO.symbol()).ok_or("no saxpy")?;
    let receipt = warm_all(warm.context())?;
    let row = receipt.report().kernels.iter().find(|row| row.path == saxpy.path());
    ensure(row.is_some(), "it is not in the report")?;

    let stream = warm.context().new_stream()?;
    let (x, mut y) = (stream.clone_htod(&[1.0_f32; 100])?, stream.clone_htod(&[2.0_f32; 100])?);
    let resident = Resident::start(warm.context(), Duration::from_secs(5))?;
    let args =
        [DynArg::value(&100_u32), DynArg::value(&0.5_f32), DynArg::slice(&x), DynArg::slice_mut(&mut y)];
    // SAFETY: both vectors have 100 elements.
    unsafe { launch_dyn(saxpy, &stream, saxpy.over(100).block(32), args)? };
    stream.synchronize()?;
    ensure(resident.status() == Status::Spinning, "its first launch waited for the resident kernel")?;
    ensure(resident.release()? == Status::Released, "the resident kernel gave up")?;
    ensure(stream.clone_dtoh(&y)? == [2.5; 100], "the result is wrong")?;
    Ok(format!("{} kernels, launched beside a resident kernel", kernels.len()))
}

pub(crate) fn again(warm: &Warm, first: Duration) -> Checked {
    let mut times: Vec<_> = (0..20)
        .map(|_| {
            let begun = Instant::now();
            warm_all(warm.context()).map(|_| begun.elapsed())
        })
        .collect::<Result<_, _>>()?;
    times.sort();
    let (median, part) = (times[10], times[10].as_secs_f64() / first.as_secs_f64() * 100.0);
    println!(
        "     a repeated one: {}",
        warm_all(warm.context())?.report().to_string().lines().last().unwrap_or("")
    );
    Ok(format!("{median:.1?}, {part:.2} percent of the first"))
}

pub(crate) fn typed(warm: &Warm, _: Duration) -> Checked {
    // Two streams, so that cudarc must order the accesses to the slices.
    let (one, other) = (warm.context().new_stream()?, warm.context().new_stream()?);
    const N: u32 = 1 << 20;
    let (x, mut y) = (one.clone_htod(&vec![1.0_f32; N as usize])?, one.alloc_zeros::<f32>(N as usize)?);
    for round in 0..10 {
        let stream = if round % 2 == 0 { &one } else { &other };
        let config = saxpy::over(N);
        // SAFETY: the vectors have `N` elements, and cudarc keeps them while they are in use.
        unsafe {
            saxpy::launch(stream, config, N, 1.0, &x, &mut y)?;
            saxpy::launch(stream, config, N / 2, 1.0, &x.slice(..), &mut y.slice_mut(..))?;
        }
    }
    let y = other.clone_dtoh(&y)?;
    ensure(
        y.iter().enumerate().all(|(n, y)| *y == if n < N as usize / 2 { 20.0 } else { 10.0 }),
        "wrong result",
    )?;
    Ok("slices and views, on two streams".into())
}

pub(crate) fn prepared(warm: &Warm, _: Duration) -> Checked {
    let (context, stream) = (warm.context(), warm.context().new_stream()?);
    let touch = Prepared::<touch>::new(context, touch::INFO.over(1))?;
    let mut count = stream.alloc_zeros::<u32>(1)?;
    let mut address = count.device_ptr_mut(&stream).0;
    for _ in 0..1000 {
        // SAFETY: the kernel takes one pointer, and the memory outlives the stream's work.
        unsafe { touch.launch(&stream, &mut [(&raw mut address).cast()])? };
    }
    ensure(stream.clone_dtoh(&count)? == [1000], "wrong result")?;
    let others = other_context()?.new_stream()?;
    // SAFETY: the launch is refused.
    let refused = unsafe { touch.launch(&others, &mut [(&raw mut address).cast()]) };
    ensure(matches!(refused, Err(LaunchError::OtherContext { .. })), format!("{refused:?}"))?;
    Ok("launched 1000 times, refused in another context".into())
}

pub(crate) fn launch_errors(warm: &Warm, _: Duration) -> Checked {
    let stream = warm.context().new_stream()?;
    let cold = other_context()?.new_stream()?;
    let fine = LaunchConfig::new([1, 1, 1], [32, 1, 1]);
    let tries = [
        (saxpy::INFO, &stream, fine.block(2000)),
        (kernels::templates::reduce::<f32, 128>::INFO, &stream, fine.block(256)),
        (saxpy::INFO, &stream, fine.grid((1, 70_000))),
        (saxpy::INFO, &stream, fine.shared(60_000)),
        (histogram::INFO, &stream, fine.shared(100_001)),
        (pair_sum::INFO, &stream, fine.grid(3)),
        (pair_sum::INFO, &stream, fine.grid(4).cluster(4)),
        (saxpy::INFO, &cold, fine),
    ];
    for (kernel, stream, config) in tries {
        match Prepared::untyped(kernel, stream.context(), config) {
            Ok(_) => return Err(format!("{config:?} was launched").into()),
            Err(LaunchError::Driver { error, .. }) => {
                return Err(format!("the driver saw it: {error}").into());
            }
            Err(error) => println!("     {error}"),
        }
    }
    stream.synchronize()?;
    Ok(format!("{} launches refused", tries.len()))
}

pub(crate) fn argument_errors(warm: &Warm, _: Duration) -> Checked {
    let stream = warm.context().new_stream()?;
    let x = stream.alloc_zeros::<f32>(1)?;
    let y = stream.alloc_zeros::<f64>(1)?;
    let one = || (DynArg::value(&1_u32), DynArg::value(&1.0_f32));
    let tries = [
        vec![one().0, one().1, DynArg::slice(&x)],
        vec![one().0, one().1, DynArg::slice(&x), DynArg::slice(&x)],
        vec![one().0, one().1, DynArg::slice(&y), DynArg::slice(&x)],
        vec![DynArg::value(&1_u64), one().1, DynArg::slice(&x), DynArg::slice(&x)],
    ];
    let count = tries.len();
    for args in tries {
        // SAFETY: the launch is refused.
        match unsafe { launch_dyn(saxpy::INFO, &stream, saxpy::INFO.over(1), args) } {
            Ok(()) => return Err("it was launched".into()),
            Err(error) => println!("     {error}"),
        }
    }
    Ok(format!("{count} launches refused"))
}

pub(crate) fn other_thread(warm: &Warm, _: Duration) -> Checked {
    let launched = |stream: Arc<CudaStream>| {
        thread::spawn(move || saxpy_on(&stream).map_err(|error| error.to_string())).join()
    };
    for stream in [warm.context().new_stream()?, warm.context().default_stream()] {
        launched(stream).map_err(|_| "the thread panicked")??;
    }
    // Bypasses cudarc, which would bind the context.
    let stream = warm.context().new_stream()?;
    let mut count = stream.alloc_zeros::<u32>(1)?;
    let address = count.device_ptr_mut(&stream).0;
    let raw = stream.clone();
    let launched = thread::spawn(move || {
        let mut address = address;
        let config = LaunchConfig::new([1, 1, 1], [1, 1, 1]);
        let prepared = Prepared::untyped(touch::INFO, raw.context(), config)?;
        // SAFETY: the kernel takes one pointer, and the memory stays until the thread is joined.
        unsafe { prepared.launch(&raw, &mut [(&raw mut address).cast()]) }
    });
    launched.join().map_err(|_| "the thread panicked")??;
    ensure(stream.clone_dtoh(&count)? == [1], "wrong result")?;
    Ok("on its own streams and the default stream".into())
}

pub(crate) fn same_context(warm: &Warm, _: Duration) -> Checked {
    let again = kernel_registry::context(0)?;
    ensure(!Arc::ptr_eq(&again, warm.context()), "it is the same `CudaContext`")?;
    saxpy_on(&again.new_stream()?)?;
    let repeated = warm_all(&again)?;
    ensure(repeated.report().images_loaded == 0, "images were loaded again")?;
    Ok("launches there, and loads nothing again".into())
}

pub(crate) fn two_contexts(warm: &Warm, _: Duration) -> Checked {
    let begun = Instant::now();
    let other = other_context()?;
    let created = begun.elapsed();
    let receipt = warm_all(&other)?;
    let warmed = begun.elapsed() - created;
    let resident = Resident::start(&other, Duration::from_secs(5))?;
    for (name, launch) in samples::ALL {
        launch(&other.new_stream()?).map_err(|error| format!("{name}: {error}"))?;
        ensure(resident.status() == Status::Spinning, format!("{name} waited"))?;
    }
    resident.release()?;
    saxpy_on(&warm.context().new_stream()?)?;
    let handles = (saxpy::INFO.cu_function(&other)?, saxpy::INFO.cu_function(warm.context())?);
    ensure(handles.0 != handles.1, "they share a handle")?;

    // A new context often gets the address of the destroyed one.
    let mut same_address = 0;
    let address = other.cu_ctx();
    drop((receipt, other));
    for _ in 0..4 {
        let next = other_context()?;
        same_address += usize::from(next.cu_ctx() == address);
        let cold = Prepared::untyped(saxpy::INFO, &next, saxpy::INFO.over(1));
        ensure(matches!(cold, Err(LaunchError::NotWarm { .. })), format!("{cold:?}"))?;
        drop(warm_all(&next)?);
        saxpy_on(&next.new_stream()?)?;
    }
    saxpy_on(&warm.context().new_stream()?)?;
    Ok(format!("warmed in {warmed:.1?}; 4 more one after the other, {same_address} at the same address"))
}

pub(crate) fn all_at_once(_: &Warm, _: Duration) -> Checked {
    let mut contexts = Vec::new();
    for ordinal in 0..CudaContext::device_count()? as usize {
        contexts.push(kernel_registry::context(ordinal)?);
    }
    let devices = contexts.len();
    contexts.extend([other_context()?, other_context()?]);
    let begun = Instant::now();
    thread::scope(|scope| -> Result<(), Box<dyn Error>> {
        // Each context gets three threads.
        let threads: Vec<_> = contexts
            .iter()
            .cycle()
            .take(3 * contexts.len())
            .map(|each| scope.spawn(|| warm_all(each)))
            .collect();
        for thread in threads {
            thread.join().map_err(|_| "a thread panicked")??.recheck()?;
        }
        Ok(())
    })?;
    let warmed = begun.elapsed();
    for context in &contexts {
        let stream = context.new_stream()?;
        for (name, launch) in samples::ALL {
            launch(&stream).map_err(|error| format!("{name}: {error}"))?;
        }
    }
    Ok(format!("{} contexts on {devices} devices, by three threads each, in {warmed:.1?}", contexts.len()))
}

pub(crate) fn capture(warm: &Warm, _: Duration) -> Checked {
    let stream = warm.context().new_stream()?;
    let mut count = stream.alloc_zeros::<u32>(1)?;
    let mut address = count.device_ptr_mut(&stream).0;
    let prepared = Prepared::untyped(touch::INFO, stream.context(), touch::INFO.over(1))?;
    stream.synchronize()?;
    stream.begin_capture(sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_GLOBAL)?;
    for _ in 0..3 {
        // SAFETY: the kernel takes one pointer, and the memory outlives the graph.
        unsafe { prepared.launch(&stream, &mut [(&raw mut address).cast()])? };
    }
    let flags = sys::CUgraphInstantiate_flags::CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH;
    let graph = stream.end_capture(flags)?.ok_or("nothing was captured")?;
    graph.launch()?;
    graph.launch()?;
    let count = stream.clone_dtoh(&count)?;
    ensure(count == [6], format!("the graph ran {count:?} times"))?;
    Ok("three launches in a graph, launched twice".into())
}

pub(crate) fn warm_while_capturing(warm: &Warm, _: Duration) -> Checked {
    let stream = warm.context().new_stream()?;
    let other = other_context()?;
    warm.context().bind_to_thread()?;
    stream.begin_capture(sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_GLOBAL)?;
    let warmed = warm_all(&other);
    let repeated = warm_all(warm.context());
    let flags = sys::CUgraphInstantiate_flags::CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH;
    warm.context().bind_to_thread()?;
    let ended = stream.end_capture(flags);
    warmed?;
    repeated?;
    ended.map_err(|error| format!("the capture was broken: {error}"))?;
    Ok("another context, and this one again".into())
}

pub(crate) fn stack_budget(_: &Warm, _: Duration) -> Checked {
    let context = other_context()?;
    let Err(error) = Warmup::new().stack_budget(1000).warm(&context) else {
        return Err("a thousand bytes were enough".into());
    };
    println!("     {error}");
    let WarmError::Kernels { report } = &error else { return Err(error.into()) };
    let [failure] = report.failures.as_slice() else { return Err("more than one kernel failed".into()) };
    ensure(failure.kernel == shuffle::INFO.path(), failure.kernel)?;
    ensure(matches!(failure.cause, Cause::StackBudget { stack, .. } if stack >= 2048), "another cause")?;
    saxpy_on(&context.new_stream()?)?;
    let partial = Warmup::new().stack_budget(1000).allow_partial().late(Late::Deny).warm(&context)?;
    let cold = Prepared::untyped(shuffle::INFO, &context, shuffle::INFO.over(1));
    ensure(matches!(cold, Err(LaunchError::NotWarm { .. })), format!("{cold:?}"))?;
    Ok(format!("{} others are warm", partial.report().kernels.len()))
}

pub(crate) fn timeout(_: &Warm, _: Duration) -> Checked {
    let context = other_context()?;
    let only = |kernel: &kernel_registry::KernelInfo| kernel == spin_until_flag::INFO;
    drop(Warmup::new().only(only).warm(&context)?);
    let resident = Resident::start(&context, Duration::from_secs(3))?;
    let begun = Instant::now();
    let warmed = Warmup::new().timeout(Duration::from_millis(300)).warm(&context);
    let waited = begun.elapsed();
    let Err(error @ WarmError::TimedOut { .. }) = warmed else { return Err("it did not give up".into()) };
    println!("     {error}");
    // The second warm-up begins while the first still waits.
    let warmed = Warmup::new().timeout(Duration::from_millis(300)).warm(&context);
    let Err(error @ WarmError::TimedOut { .. }) = warmed else {
        return Err("it did not give up again".into());
    };
    println!("     {error}");
    ensure(resident.status() == Status::Spinning, "the resident kernel was gone by then")?;
    let begun = Instant::now();
    resident.release()?;
    warm_all(&context)?;
    saxpy_on(&context.new_stream()?)?;
    Ok(format!("gave up after {waited:.1?}; warm {:.1?} after the device was free", begun.elapsed()))
}

pub(crate) fn lowered_stack(warm: &Warm, _: Duration) -> Checked {
    let context = warm.context();
    context.set_limit(sys::CUlimit::CU_LIMIT_STACK_SIZE, 1024)?;
    let stale = warm.recheck();
    let Err(stale @ RecheckError::StackLowered { .. }) = stale else {
        return Err(format!("{stale:?}").into());
    };
    println!("     {stale}");
    warm_all(context)?;
    warm.recheck()?;
    // With too small a stack, a launch would raise the limit and wait.
    let (time, name) = launch_all_while_resident(context)?;
    Ok(format!(
        "noticed, and repaired by warming again: no launch waits, the slowest is {name} with {time:.1?}"
    ))
}

pub(crate) fn reset(warm: &Warm, _: Duration) -> Checked {
    let context = warm.context();
    context.synchronize()?;
    // SAFETY: from here on only the `CudaContext` of this context is used, and nothing that was allocated in
    // it.
    unsafe { sys::cuDevicePrimaryCtxReset_v2(context.cu_device()).result()? };
    let stale = warm.recheck();
    ensure(stale == Err(RecheckError::Reset), format!("{stale:?}"))?;

    // When it's next retained, the driver creates the primary context again, at the same address.
    let again = kernel_registry::context(0)?;
    ensure(again.cu_ctx() == context.cu_ctx(), "it is at another address")?;
    for context in [context, &again] {
        let stream = context.new_stream()?;
        let prepared = Prepared::untyped(touch::INFO, context, touch::INFO.over(1));
        // SAFETY: the launch is refused.
        match prepared.and_then(|prepared| unsafe { prepared.launch(&stream, &mut [ptr::null_mut()]) }) {
            Err(error @ (LaunchError::Reset { .. } | LaunchError::NotWarm { .. })) => {
                println!("     {error}")
            }
            other => return Err(format!("{other:?}").into()),
        }
    }
    let begun = Instant::now();
    let warm = warm_all(&again)?;
    let warmed = begun.elapsed();
    warm.recheck()?;
    let stream = again.new_stream()?;
    for (name, launch) in samples::ALL {
        launch(&stream).map_err(|error| format!("{name}: {error}"))?;
    }
    Ok(format!("refused, then warmed again in {warmed:.1?}"))
}
