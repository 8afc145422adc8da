//! Kernels that stay: what is checked before, refused meanwhile and done afterwards.

#[path = "serial/mod.rs"]
mod serial;

use std::error::Error;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use kernel_registry::cudarc::driver::{CudaContext, CudaStream, result, sys};
use kernel_registry::resident::{Limit, OnWait, Shortage, Starting};
use kernel_registry::{
    Control, Ended, Late, LaunchError, Mapped, Presence, RecheckError, Resident, ResidentError, Section,
    SectionError, Warm, WarmError, Warmup, warm_all,
};
use kernel_registry_sim::{Config, Fault};
use kernels::blas1::{saxpy, sscal};
use kernels::templates::{reduce, transpose};
use kernels::waiting::{spin_until_flag, touch};

kernel_registry::link_kernels!(kernels);

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

/// Host memory with the flag of `spin_until_flag`, or a counter of `touch`. Never freed.
#[derive(Clone, Copy)]
struct Words(&'static AtomicU32);

impl Words {
    fn new() -> Outcome<Self> {
        // SAFETY: a context is current. There is room for a word, which is zeroed before it is read.
        unsafe {
            let words = result::malloc_host(4, sys::CU_MEMHOSTALLOC_DEVICEMAP)?.cast::<AtomicU32>();
            words.write_bytes(0, 1);
            Ok(Words(&*words))
        }
    }

    fn at(self) -> *mut u32 {
        self.0.as_ptr()
    }

    fn stop(self) {
        self.0.store(1, Ordering::Release);
    }
}

/// Waits for what a kernel's end brings about in another thread.
fn soon(mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(20), "it never came");
        std::thread::sleep(Duration::from_millis(1));
    }
}

struct Ready {
    context: Arc<CudaContext>,
    warm: Warm,
    words: Words,
    stream: Arc<CudaStream>,
    _turn: serial::Turn,
}

fn ready() -> Outcome<Ready> {
    let turn = serial::take();
    Config::default().install()?;
    let context = kernel_registry::context(0)?;
    let warm = warm_all(&context)?;
    let words = Words::new()?;
    Ok(Ready { stream: context.new_stream()?, context, warm, words, _turn: turn })
}

impl Ready {
    fn launch(&self, resident: Resident<spin_until_flag>) -> Result<Section, ResidentError> {
        self.launch_in(&self.stream, self.words, resident)
    }

    fn launch_in(
        &self,
        stream: &Arc<CudaStream>,
        words: Words,
        resident: Resident<spin_until_flag>,
    ) -> Result<Section, ResidentError> {
        let checked = resident.check(&self.warm)?;
        // SAFETY: the words are never freed.
        let section = checked.launch(stream, |launch| unsafe {
            spin_until_flag::launch(stream, launch, words.at(), launch.control())
        })?;
        Ok(section)
    }
}

fn spin(grid: u32, block: u32) -> Resident<spin_until_flag> {
    Resident::new(spin_until_flag::config(grid).block(block))
}

#[test]
fn a_kernel_that_fits_is_launched_and_told_to_end() -> Outcome {
    let ready = ready()?;
    let resident = spin(132, 256).beside(saxpy::INFO, saxpy::over(1000)).beside(sscal::INFO, sscal::over(10));
    let section = ready.launch(resident)?;
    let table = section.fit().to_string();
    assert!(
        table.contains("stays on 132 multiprocessors of sm_90: 132 blocks of 256 threads, room for 1056"),
        "{table}"
    );
    let row = table.lines().find(|line| line.contains("blas1::saxpy")).expect("a row");
    assert!(
        row.split_whitespace().eq([
            "kernels::blas1::saxpy",
            "256",
            row.split_whitespace().nth(2).unwrap(),
            "0",
            "924",
            "threads"
        ]),
        "{table}"
    );
    assert!(section.is_running());
    section.stop()?;
    Ok(())
}

#[test]
fn what_does_not_fit_is_refused_with_numbers() -> Outcome {
    let ready = ready()?;
    let error = spin(1057, 256).check(&ready.warm).expect_err("it is one block too many");
    assert!(
        matches!(
            error,
            ResidentError::GridTooLarge { grid: 1057, capacity: 1056, limit: Limit::Threads, .. }
        ),
        "{error}"
    );
    assert!(
        error.to_string().ends_with("the others start when these end; use 1056 blocks at most"),
        "{error}"
    );

    let error = spin(264, 1024)
        .beside(touch::INFO, touch::config(1))
        .check(&ready.warm)
        .expect_err("the device is full");
    let ResidentError::NoRoom { fit, .. } = &error else { panic!("{error}") };
    assert_eq!(
        fit.beside[0].shortage,
        Some(Shortage::Left { limit: Limit::Threads, needs: 32, left: 0, of: 2048 })
    );
    let text = "\n  `kernels::waiting::touch` does not fit beside it: a block needs 32 threads, and a multiprocessor has 0 of 2048 left; \
                launch `kernels::waiting::spin_until_flag` with smaller blocks, or fewer";
    assert!(error.to_string().ends_with(text), "{error}");

    // One block less leaves a multiprocessor half empty.
    let checked = spin(263, 1024).beside(touch::INFO, touch::config(1)).check(&ready.warm)?;
    assert_eq!(checked.fit().beside[0].at_once, 31);
    Ok(())
}

#[test]
fn the_carveout_is_set_if_that_helps() -> Outcome {
    let ready = ready()?;
    let shared = transpose::<f32, 32>::config(1);
    let beside = || spin(132, 32).beside(transpose::<f32, 32>::INFO, shared);
    assert_eq!(beside().check(&ready.warm)?.fit().carveout, Some(100));
    let error = beside().carveout(0).check(&ready.warm).expect_err("it is chosen too small");
    assert!(error.to_string().contains("with a preferred carve-out of 100"), "{error}");
    assert_eq!(spin(132, 32).beside(touch::INFO, touch::config(1)).check(&ready.warm)?.fit().carveout, None);

    // It runs, too.
    let section = ready.launch(beside())?;
    let out = Words::new()?;
    let stream = ready.context.new_stream()?;
    // SAFETY: the word is never freed.
    unsafe { touch::launch(&stream, touch::config(1), out.at())? };
    stream.synchronize()?;
    assert_eq!(out.0.load(Ordering::Acquire), 1);
    Ok(section.stop()?)
}

#[test]
fn all_warm_kernels_are_checked() -> Outcome {
    let ready = ready()?;
    let checked = spin(132, 32).beside_all().except([touch::INFO]).check(&ready.warm)?;
    let beside = &checked.fit().beside;
    assert_eq!(beside.len(), ready.warm.report().kernels.len() - 2);
    let reduce = beside.iter().find(|other| other.kernel == reduce::<f32, 128>::INFO.path()).expect("a row");
    assert_eq!(reduce.threads, (128, 128));
    // `worker` declares no block.
    let worker =
        beside.iter().find(|other| other.kernel == kernels::waiting::worker::INFO.path()).expect("a row");
    assert!(worker.threads.0 == 32 && worker.threads.1 > 32, "{worker:?}");
    Ok(())
}

#[test]
fn calls_that_would_wait_are_refused_while_it_stays() -> Outcome {
    let turn = serial::take();
    Config::default().install()?;
    let context = kernel_registry::context(0)?;
    // SAFETY: no other thread uses the context.
    unsafe { sys::cuDevicePrimaryCtxReset_v2(context.cu_device()).result()? };
    let context = CudaContext::new(0)?;
    let some = || Warmup::new().only(|kernel| kernel == spin_until_flag::INFO).hooks(false).late(Late::Warn);
    let warm = some().warm(&context)?;
    let ready = Ready { stream: context.new_stream()?, words: Words::new()?, context, warm, _turn: turn };
    let section = ready.launch(spin(1, 1))?;

    let stream = ready.context.new_stream()?;
    let out = Words::new()?;
    let begun = Instant::now();
    // SAFETY: the word is never freed.
    let launch = |stream: &CudaStream| unsafe { touch::launch(stream, touch::config(1), out.at()) };
    let error = launch(&stream).expect_err("it is not warm");
    let LaunchError::WouldWait { wait, .. } = &error else { panic!("{error}") };
    assert_eq!((wait.call, wait.resident), ("cuModuleLoadDataEx", spin_until_flag::INFO.path()));
    assert_eq!(
        error.to_string(),
        "kernel `kernels::waiting::touch`: `cuModuleLoadDataEx` would wait for `kernels::waiting::spin_until_flag`, which is \
         still on the device: a module is loaded only when nothing runs on the device; load all modules, and compile what is \
         compiled at run time, before work starts that does not end; or load it with `cuLibraryLoadData`, which does not wait if \
         loading is lazy"
    );
    assert!(matches!(warm_all(&ready.context), Err(WarmError::WouldWait(_))));
    // There is nothing to do.
    some().warm(&ready.context)?;
    let in_its_stream = launch(&ready.stream).expect_err("it would start afterwards");
    assert!(
        in_its_stream.to_string().contains("WouldWait") || in_its_stream.to_string().contains("would wait"),
        "{in_its_stream}"
    );
    assert!(begun.elapsed() < Duration::from_secs(2), "nothing waited");
    assert!(section.is_running());
    section.stop()?;

    launch(&ready.stream)?;
    warm_all(&ready.context)?;
    Ok(())
}

#[test]
fn a_kernel_that_does_not_end_is_named_and_stays_guarded() -> Outcome {
    let ready = ready()?;
    let checked = spin(1, 1).stop_within(Duration::from_millis(50)).check(&ready.warm)?;
    let (stream, words) = (&ready.stream, ready.words);
    // Not the one that the section stops.
    let control = Control::new(&ready.context, 1)?;
    control.limit(Duration::from_secs(5));
    // SAFETY: the words are never freed, and the control block not before the kernel has ended.
    let section = checked
        .launch(stream, |launch| unsafe { spin_until_flag::launch(stream, launch, words.at(), &control) })?;
    let error = section.stop().expect_err("nothing tells it to end");
    assert!(
        matches!(error, SectionError::StillRuns { waited, .. } if waited >= Duration::from_millis(50)),
        "{error}"
    );
    let launch = || {
        let out = Words::new()?;
        // SAFETY: the word is never freed.
        unsafe { touch::launch(stream, touch::config(1), out.at())? };
        Outcome::Ok(())
    };
    assert!(launch().is_err());
    words.stop();
    soon(|| launch().is_ok());
    Ok(())
}

#[test]
fn memory_that_is_dropped_meanwhile_is_freed_afterwards() -> Outcome {
    let ready = ready()?;
    let section = ready.launch(spin(1, 1))?;
    let recording = kernel_registry_sim::record_calls();
    let freed =
        |from: usize| recording.calls()[from..].iter().filter(|call| call.name == "cuMemFreeHost").count();
    for _ in 0..1000 {
        drop(Mapped::<AtomicU32>::zeroed(&ready.context, 1)?);
    }
    assert!(section.is_running());
    assert_eq!(freed(0), 0);
    section.stop()?;
    // And the control block.
    assert_eq!(freed(0), 1001);
    drop(Mapped::<AtomicU32>::zeroed(&ready.context, 1)?);
    assert_eq!(freed(0), 1002);
    Ok(())
}

#[test]
fn a_limit_ends_the_kernel_before_its_section() -> Outcome {
    let ready = ready()?;
    let section = ready.launch(spin(4, 32).limit(Duration::from_millis(20)))?;
    section.wait_for_blocks(Duration::from_secs(5))?;
    assert_eq!(section.control().wait_for_end(Duration::from_secs(5)), Presence::Ended(Ended::Limit));
    while section.is_running() {}
    Ok(section.stop()?)
}

#[test]
fn two_kernels_that_stay_share_the_device() -> Outcome {
    let ready = ready()?;
    let first = ready.launch(spin(132, 1024))?;
    let other = ready.context.new_stream()?;
    let words = Words::new()?;
    let error = ready.launch_in(&other, words, spin(133, 1024)).expect_err("132 have room");
    assert!(matches!(error, ResidentError::GridTooLarge { grid: 133, capacity: 132, .. }), "{error}");
    assert!(
        error.to_string().contains("beside `kernels::waiting::spin_until_flag` 132 of its 133 blocks"),
        "{error}"
    );
    // Both were checked when nothing was there, and only one is launched.
    let second = ready.launch_in(&other, words, spin(132, 1024))?;
    let full = spin(1, 1).check(&ready.warm).expect_err("no room is left");
    assert!(matches!(full, ResidentError::GridTooLarge { capacity: 0, .. }), "{full}");
    second.stop()?;
    // The sections may end in any order.
    let small = spin(10, 64).check(&ready.warm).expect_err("it wants a larger carve-out");
    assert!(
        small.to_string().ends_with("launch those that are there with `Resident::carveout(100)`"),
        "{small}"
    );
    first.stop()?;
    let first = ready.launch_in(&ready.stream, Words::new()?, spin(132, 1024).carveout(100))?;
    let third = ready.launch_in(&other, Words::new()?, spin(10, 64))?;
    first.stop()?;
    Ok(third.stop()?)
}

/// The function is given a stream, and can use another one, or none.
#[test]
fn a_launch_that_never_was_is_an_error() -> Outcome {
    let ready = ready()?;
    let error =
        spin(1, 1).check(&ready.warm)?.launch(&ready.stream, |_| Ok(())).expect_err("nothing is launched");
    assert!(matches!(error, ResidentError::NotLaunched { .. }), "{error}");
    // Nothing is left of it.
    let section = ready.launch(spin(1, 1))?;
    let second = ready.launch(spin(1, 1)).expect_err("its stream has a kernel that stays");
    assert!(matches!(second, ResidentError::Launch(LaunchError::WouldWait { .. })), "{second}");
    Ok(section.stop()?)
}

#[test]
fn a_carveout_that_does_not_help_hides_no_reason() -> Outcome {
    let ready = ready()?;
    let first = ready.launch(spin(132, 32))?;
    // Beside the first, a carve-out of 100 would keep the second itself from fitting.
    let full = spin(132, 1024)
        .beside(saxpy::INFO, saxpy::over(1).block(1024))
        .check(&ready.warm)
        .expect_err("no threads");
    assert!(!full.to_string().contains("carveout(100)"), "{full}");
    Ok(first.stop()?)
}

#[test]
fn room_that_was_taken_since_the_check_is_noticed() -> Outcome {
    let ready = ready()?;
    let (early, late) = (spin(200, 1024).check(&ready.warm)?, spin(200, 1024));
    let section = ready.launch(late)?;
    let stream = ready.context.new_stream()?;
    let error = early.launch(&stream, |_| panic!("it is not launched")).expect_err("it has no room any more");
    assert!(matches!(error, ResidentError::GridTooLarge { grid: 200, capacity: 64, .. }), "{error}");
    Ok(section.stop()?)
}

#[test]
fn streams_and_settings_that_make_the_host_wait_are_refused() -> Outcome {
    let ready = ready()?;
    let default = ready.context.default_stream();
    let error = ready.launch_in(&default, ready.words, spin(1, 1)).expect_err("it is a blocking stream");
    assert!(matches!(error, ResidentError::BlockingStream { .. }), "{error}");

    let error = Resident::<saxpy>::new(saxpy::over(8)).check(&ready.warm).expect_err("it takes slices");
    assert!(error.to_string().contains("its parameter `x: &[f32]` takes a slice of cudarc"), "{error}");
    assert!(Resident::of(saxpy::INFO, saxpy::over(8)).check(&ready.warm).is_ok());

    // SAFETY: tests of this file run one at a time, and no other thread reads variables.
    unsafe { std::env::set_var("CUDA_LAUNCH_BLOCKING", "1") };
    let error = spin(1, 1).check(&ready.warm).expect_err("launches block");
    // SAFETY: as above.
    unsafe { std::env::remove_var("CUDA_LAUNCH_BLOCKING") };
    assert!(matches!(error, ResidentError::LaunchBlocking { .. }), "{error}");
    Ok(())
}

#[test]
fn a_lowered_stack_is_noticed_before_the_launch() -> Outcome {
    let ready = ready()?;
    let set = |bytes| {
        // SAFETY: it sets a limit of the current context.
        unsafe { sys::cuCtxSetLimit(sys::CUlimit_enum::CU_LIMIT_STACK_SIZE, bytes).result() }
    };
    set(1024)?;
    let error = spin(1, 1).check(&ready.warm).expect_err("launches would wait");
    warm_all(&ready.context)?;
    assert!(
        matches!(error, ResidentError::NotWarm { error: RecheckError::StackLowered { .. }, .. }),
        "{error}"
    );
    Ok(())
}

#[test]
fn a_launch_that_fails_leaves_no_section() -> Outcome {
    let ready = ready()?;
    let checked = spin(1, 1).on_wait(OnWait::Refuse).check(&ready.warm)?;
    let refused = checked.launch(&ready.stream, |_| Err(LaunchError::NotWarm { kernel: touch::INFO }));
    assert!(matches!(refused, Err(ResidentError::Launch(LaunchError::NotWarm { .. }))));
    let out = Words::new()?;
    // SAFETY: the word is never freed.
    unsafe { touch::launch(&ready.stream, touch::config(1), out.at())? };
    Ok(())
}

/// 100 kernels beside one that stays: the check takes less than a millisecond on an idle machine.
#[test]
fn a_check_is_fast() -> Outcome {
    let ready = ready()?;
    let check = || {
        let beside = |resident: Resident<_>, n| resident.beside(saxpy::INFO, saxpy::over(n));
        let begun = Instant::now();
        let checked = (0..100).fold(spin(132, 256), beside).check(&ready.warm)?;
        assert_eq!(checked.fit().beside.len(), 100);
        Outcome::Ok(begun.elapsed())
    };
    let fastest = (0..50).map(|_| check()).collect::<Outcome<Vec<_>>>()?.into_iter().min();
    assert!(
        fastest < Some(Duration::from_millis(if cfg!(debug_assertions) { 10 } else { 1 })),
        "{fastest:?}"
    );
    Ok(())
}

#[test]
fn a_stream_has_one_kernel_that_stays() -> Outcome {
    let ready = ready()?;
    let section = ready.launch(spin(1, 1))?;
    let begun = Instant::now();
    let error = ready.launch(spin(1, 1)).expect_err("it would start afterwards");
    assert!(matches!(error, ResidentError::Launch(LaunchError::WouldWait { .. })), "{error}");
    assert!(begun.elapsed() < Duration::from_secs(2), "nothing waited");
    assert!(section.is_running());
    Ok(section.stop()?)
}

#[test]
fn a_launch_in_another_stream_is_refused() -> Outcome {
    let ready = ready()?;
    let (stream, words) = (ready.context.new_stream()?, ready.words);
    let checked = spin(1, 1).limit(Duration::from_secs(5)).check(&ready.warm)?;
    // SAFETY: the words are never freed.
    let launched = checked.launch(&ready.stream, |launch| unsafe {
        spin_until_flag::launch(&stream, launch, words.at(), launch.control())
    });
    let error = launched.expect_err("the section is that of the other stream");
    assert!(matches!(error, ResidentError::Launch(LaunchError::OtherStream { .. })), "{error}");
    Ok(stream.synchronize()?)
}

#[test]
fn a_capture_of_another_stream_does_not_end_a_section() -> Outcome {
    let ready = ready()?;
    let section = ready.launch(spin(1, 1))?;
    let (captured, out) = (ready.context.new_stream()?, Words::new()?);
    captured.begin_capture(sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_GLOBAL)?;
    let is_running = section.is_running();
    // SAFETY: the word is never freed.
    unsafe { touch::launch(&captured, touch::config(1), out.at())? };
    section.stop()?;
    assert!(captured.end_capture(sys::CUgraphInstantiate_flags(0))?.is_some());
    assert!(is_running);
    Ok(())
}

#[test]
fn a_kernel_does_not_stay_in_a_graph() -> Outcome {
    let ready = ready()?;
    ready.stream.begin_capture(sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED)?;
    let launched = ready.launch(spin(1, 1));
    let graph = ready.stream.end_capture(sys::CUgraphInstantiate_flags(0));
    let error = launched.expect_err("the graph would outlive the control block");
    assert!(matches!(error, ResidentError::Captured { .. }), "{error}");
    graph?;
    Ok(())
}

#[test]
fn carve_outs_of_earlier_launches_count() -> Outcome {
    let ready = ready()?;
    let out = Words::new()?;
    let launch = |resident: Resident<touch>| -> Outcome {
        // SAFETY: the word is never freed.
        let launch = |launch: &Starting<'_, _>| unsafe { touch::launch(&ready.stream, launch, out.at()) };
        Ok(resident.check(&ready.warm)?.launch(&ready.stream, launch)?.stop()?)
    };
    let beside = || spin(132, 32).beside(touch::INFO, touch::config(1)).check(&ready.warm);
    launch(Resident::new(touch::config(1)).carveout(100))?;
    assert_eq!(beside()?.fit().carveout, Some(100));
    // The kernel itself has the driver's choice again.
    launch(Resident::new(touch::config(1)))?;
    assert_eq!(beside()?.fit().carveout, None);
    Ok(())
}

#[test]
fn memory_is_freed_after_a_kernel_that_ended_late() -> Outcome {
    let ready = ready()?;
    let checked = spin(1, 1).stop_within(Duration::from_millis(20)).check(&ready.warm)?;
    let (stream, words) = (&ready.stream, ready.words);
    let control = Control::new(&ready.context, 1)?;
    control.limit(Duration::from_secs(5));
    // SAFETY: the words are never freed, and the control block not before the kernel has ended.
    let section = checked
        .launch(stream, |launch| unsafe { spin_until_flag::launch(stream, launch, words.at(), &control) })?;
    let recording = kernel_registry_sim::record_calls();
    let freed = || recording.calls().iter().filter(|call| call.name == "cuMemFreeHost").count();
    assert!(section.stop().is_err());
    drop(Mapped::<AtomicU32>::zeroed(&ready.context, 1)?);
    assert_eq!(freed(), 0);
    words.stop();
    // And the section's control block, without any further call.
    soon(|| freed() == 2);
    Ok(())
}

#[test]
fn a_panic_after_the_launch_leaves_no_kernel_unguarded() -> Outcome {
    let ready = ready()?;
    let (stream, words) = (&ready.stream, ready.words);
    // Not the one that the section stops.
    let control = Control::new(&ready.context, 1)?;
    control.limit(Duration::from_secs(5));
    let checked = spin(1, 1).stop_within(Duration::from_millis(50)).check(&ready.warm)?;
    let launch = AssertUnwindSafe(|| {
        checked.launch(stream, |launch| {
            // SAFETY: the words are never freed, and the control block not before the kernel has ended.
            unsafe { spin_until_flag::launch(stream, launch, words.at(), &control)? };
            panic!("after the launch")
        })
    });
    assert!(catch_unwind(launch).is_err());
    let touched = || {
        let out = Words::new()?;
        // SAFETY: the word is never freed.
        unsafe { touch::launch(stream, touch::config(1), out.at())? };
        Outcome::Ok(())
    };
    assert!(touched().is_err(), "the kernel is still there");
    words.stop();
    soon(|| touched().is_ok());
    Ok(())
}

#[test]
fn memory_of_a_context_that_was_reset_is_not_freed_again() -> Outcome {
    let ready = ready()?;
    let (flag, section) = (Mapped::<AtomicU32>::zeroed(&ready.context, 1)?, ready.launch(spin(1, 1))?);
    // SAFETY: no other thread uses the context.
    unsafe { sys::cuDevicePrimaryCtxReset_v2(ready.context.cu_device()).result()? };
    let _again = CudaContext::new(0)?;
    let recording = kernel_registry_sim::record_calls();
    let error = section.stop().expect_err("the kernel is gone with its context");
    assert!(matches!(error, SectionError::Reset { .. }), "{error}");
    drop(flag);
    assert!(!recording.calls().iter().any(|call| call.name == "cuMemFreeHost"));
    Ok(())
}

#[test]
fn waiting_for_blocks_ends_with_the_kernel() -> Outcome {
    let ready = ready()?;
    let (checked, out) = (Resident::<touch>::new(touch::config(1)).check(&ready.warm)?, Words::new()?);
    // SAFETY: the word is never freed.
    let launch = |launch: &Starting<'_, _>| unsafe { touch::launch(&ready.stream, launch, out.at()) };
    let section = checked.launch(&ready.stream, launch)?;
    let begun = Instant::now();
    // It takes no control block.
    assert!(section.wait_for_blocks(Duration::from_secs(20)).is_err());
    assert!(begun.elapsed() < Duration::from_secs(10));
    Ok(section.stop()?)
}

#[test]
fn many_kernels_that_stay_are_counted_in_errors() -> Outcome {
    let ready = ready()?;
    let mut sections = Vec::new();
    let error = loop {
        let stream = ready.context.new_stream()?;
        match ready.launch_in(&stream, ready.words, spin(132, 512)) {
            Ok(section) => sections.push(section),
            Err(error) => break error,
        }
    };
    assert!(error.to_string().contains("beside 2 x `kernels::waiting::spin_until_flag` 0 of its"), "{error}");
    sections.into_iter().try_for_each(Section::stop)?;
    Ok(())
}

/// An answer that says nothing of the kernel does not end its section.
#[test]
fn a_kernel_that_cannot_be_asked_for_stays_guarded() -> Outcome {
    const OUT_OF_MEMORY: u32 = 2;
    let ready = ready()?;
    let section = ready.launch(spin(1, 1).stop_within(Duration::from_millis(20)))?;
    let fault = Fault::fails("cuStreamQuery", OUT_OF_MEMORY).inject()?;
    assert!(section.is_running());
    let error = section.stop().expect_err("nobody knows");
    assert!(matches!(error, SectionError::Driver { .. }), "{error}");
    let out = Words::new()?;
    // SAFETY: the word is never freed.
    let launch = || unsafe { touch::launch(&ready.stream, touch::config(1), out.at()) };
    assert!(matches!(launch(), Err(LaunchError::WouldWait { .. })));
    drop(fault);
    soon(|| launch().is_ok());
    Ok(())
}

#[test]
fn a_function_that_panics_does_not_end_a_section() -> Outcome {
    let ready = ready()?;
    let checked = spin(1, 1).stop_within(Duration::from_millis(50)).check(&ready.warm)?;
    let (stream, words) = (&ready.stream, ready.words);
    // Not the one that the section stops.
    let control = Control::new(&ready.context, 1)?;
    control.limit(Duration::from_secs(5));
    // SAFETY: the words are never freed, and the control block not before the kernel has ended.
    let mut section = checked
        .launch(stream, |launch| unsafe { spin_until_flag::launch(stream, launch, words.at(), &control) })?;
    section.on_stop(|| panic!("in the function"));
    drop(section);
    let error = ready.launch(spin(1, 1)).expect_err("the kernel is still there");
    assert!(matches!(error, ResidentError::Launch(LaunchError::WouldWait { .. })), "{error}");
    words.stop();
    Ok(stream.synchronize()?)
}

/// Sections begin and end, memory is dropped, and others warm, all at once: nothing hangs, and nothing is left.
#[test]
fn many_threads_have_sections_at_once() -> Outcome {
    let ready = ready()?;
    let recording = kernel_registry_sim::record_calls();
    let count = |name: &str| recording.calls().iter().filter(|call| call.name == name).count();
    let streams = (0..4).map(|_| ready.context.new_stream()).collect::<Result<Vec<_>, _>>()?;
    std::thread::scope(|scope| {
        for stream in &streams {
            scope.spawn(|| {
                ready.context.bind_to_thread().expect("it is there");
                let mut launched = 0;
                while launched < 20 {
                    let words = Words::new().expect("there is memory");
                    match ready.launch_in(stream, words, spin(4, 32).carveout(100)) {
                        Ok(section) => {
                            launched += 1;
                            drop(Mapped::<AtomicU32>::zeroed(&ready.context, 1).expect("there is memory"));
                            section.stop().expect("it ends");
                        }
                        // Another thread loads or frees: that is over soon.
                        Err(ResidentError::Busy { .. } | ResidentError::NotWarm { .. }) => {}
                        Err(error) => panic!("{error}"),
                    }
                }
            });
        }
        scope.spawn(|| {
            for _ in 0..50 {
                match warm_all(&ready.context) {
                    Ok(_) => {}
                    Err(error) => panic!("{error}"),
                }
            }
        });
    });
    // All that was allocated for sections, and dropped, is freed: a control block and a word for each launch. The words stay.
    let (allocated, freed) = (count("cuMemHostAlloc"), count("cuMemFreeHost"));
    let words = allocated - freed;
    assert!(freed >= 4 * 20 * 2, "{freed} of {allocated}");
    assert!(words >= 4 * 20, "{words}");
    Ok(())
}
