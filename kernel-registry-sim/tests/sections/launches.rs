//! Tests of what is refused before the launch of a resident kernel, and of what is refused while it runs.

use std::time::Duration;

use kernel_registry::cudarc::driver::{CudaContext, CudaStream, sys};
use kernel_registry::{Late, LaunchError, MainError, RecheckError, WarmError, Warmup, warm_all};
use kernel_registry_resident::OnWait;
use kernel_registry_resident::{Resident, ResidentError};
use kernel_registry_sim::Config;
use kernels::blas1::{saxpy, sscal};
use kernels::waiting::{spin_until_flag, touch};

use super::{Outcome, Ready, Words, ready, serial, spin};

#[test]
fn a_kernel_that_fits_is_launched_and_told_to_end() -> Outcome {
    let ready = ready()?;
    let resident = spin(132, 256).beside(saxpy::INFO, saxpy::over(1000)).beside(sscal::INFO, sscal::over(10));
    let section = ready.launch(resident)?;
    let table = section.fit().to_string();
    assert!(
        table.contains(
            "is resident on 132 multiprocessors of sm_90: 132 blocks of 256 threads, room for 1056"
        ),
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
fn streams_and_settings_that_make_the_host_wait_are_refused() -> Outcome {
    let ready = ready()?;
    let default = ready.context.default_stream();
    let error = ready.launch_in(&default, ready.words, spin(1, 1)).expect_err("it is a blocking stream");
    assert!(matches!(error, ResidentError::BlockingStream { .. }), "{error}");

    let error = Resident::<saxpy>::new(saxpy::over(8)).check(&ready.warm).expect_err("it takes slices");
    assert!(error.to_string().contains("its parameter `x: &[f32]` takes a slice of cudarc"), "{error}");
    assert!(Resident::untyped(saxpy::INFO, saxpy::over(8)).check(&ready.warm).is_ok());

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

/// The function that the caller passes gets a stream, but may launch in another stream, or launch nothing.
#[test]
fn a_function_that_launches_nothing_is_an_error() -> Outcome {
    let ready = ready()?;
    let error =
        spin(1, 1).check(&ready.warm)?.launch(&ready.stream, |_| Ok(())).expect_err("nothing is launched");
    assert!(matches!(error, ResidentError::NotLaunched { .. }), "{error}");
    // No section is left.
    let section = ready.launch(spin(1, 1))?;
    let second = ready.launch(spin(1, 1)).expect_err("its stream has a resident kernel");
    assert!(matches!(second, ResidentError::Launch(LaunchError::WouldWait { .. })), "{second}");
    Ok(section.stop()?)
}

#[test]
fn a_stream_has_only_one_resident_kernel() -> Outcome {
    let ready = ready()?;
    let section = ready.launch(spin(1, 1))?;
    let error = ready.launch(spin(1, 1)).expect_err("it would start afterwards");
    assert!(matches!(error, ResidentError::Launch(LaunchError::WouldWait { .. })), "{error}");
    assert!(section.is_running(), "nothing waited for its end");
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
fn a_resident_kernel_cannot_be_captured() -> Outcome {
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
fn calls_that_would_wait_are_refused_while_a_kernel_is_resident() -> Outcome {
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
    // SAFETY: the word is never freed.
    let launch = |stream: &CudaStream| unsafe { touch::launch(stream, touch::config(1), out.at()) };
    let error = launch(&stream).expect_err("it is not warm");
    let LaunchError::WouldWait { wait, .. } = &error else { panic!("{error}") };
    assert_eq!((wait.call, wait.resident), ("cuModuleLoadDataEx", spin_until_flag::INFO.path()));
    assert_eq!(
        format!("{:?}", MainError::from(error)),
        "kernel `kernels::waiting::touch`: it was not launched beside `kernels::waiting::spin_until_flag`: `cuModuleLoadDataEx` would wait for `kernels::waiting::spin_until_flag`, which is \
         still on the device: a module is loaded only when nothing runs on the device; load all modules, and compile what is \
         compiled at run time, before work starts that does not end; or load it with `cuLibraryLoadData`, which does not wait if \
         loading is lazy"
    );
    assert!(matches!(warm_all(&ready.context), Err(WarmError::WouldWait(_))));
    // These kernels are warm already, so no call would wait.
    some().warm(&ready.context)?;
    let in_its_stream = launch(&ready.stream).expect_err("it would start afterwards");
    let said = format!("{:?}", MainError::from(in_its_stream));
    assert!(said.contains("would wait for `kernels::waiting::spin_until_flag`"), "{said}");
    assert!(section.is_running(), "nothing waited for its end");
    section.stop()?;

    launch(&ready.stream)?;
    warm_all(&ready.context)?;
    Ok(())
}
