//! Tests of how a resident kernel ends, and of what happens after it has ended.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::AtomicU32;
use std::time::{Duration, Instant};

use kernel_registry::cudarc::driver::{CudaContext, sys};
use kernel_registry::{LaunchError, warm_all};
use kernel_registry_resident::{Control, Mapped, Resident, ResidentError, SectionError};
use kernel_registry_resident::{Ended, Presence, Starting};
use kernel_registry_sim::Fault;
use kernels::waiting::{spin_until_flag, touch};

use super::{Outcome, Words, ready, soon, spin};

#[test]
fn a_kernel_that_does_not_end_is_named_and_its_section_goes_on() -> Outcome {
    let ready = ready()?;
    let (stream, words) = (&ready.stream, ready.words);
    let (section, _control) = ready.launch_unstoppable(Duration::from_millis(50))?;
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
    // The last of the freed blocks is the control block.
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
fn memory_is_freed_after_a_kernel_that_ended_late() -> Outcome {
    let ready = ready()?;
    let (section, _control) = ready.launch_unstoppable(Duration::from_millis(20))?;
    let recording = kernel_registry_sim::record_calls();
    let freed = || recording.calls().iter().filter(|call| call.name == "cuMemFreeHost").count();
    assert!(section.stop().is_err());
    drop(Mapped::<AtomicU32>::zeroed(&ready.context, 1)?);
    assert_eq!(freed(), 0);
    ready.words.stop();
    // One of the two freed blocks is the section's control block, which is freed without any further call.
    soon(|| freed() == 2);
    Ok(())
}

#[test]
fn a_panic_after_the_launch_leaves_the_section_of_the_kernel() -> Outcome {
    let ready = ready()?;
    let (stream, words) = (&ready.stream, ready.words);
    // The section has another control block, so stopping the section does not stop the kernel by this control block.
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
    // This kernel takes no control block.
    assert!(section.wait_for_blocks(Duration::from_secs(20)).is_err());
    assert!(begun.elapsed() < Duration::from_secs(10));
    Ok(section.stop()?)
}

/// An error of the driver does not tell whether the kernel has ended, so its section goes on.
#[test]
fn a_kernel_whose_state_is_unknown_keeps_its_section() -> Outcome {
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
fn a_stop_function_that_panics_does_not_end_a_section() -> Outcome {
    let ready = ready()?;
    let (mut section, _control) = ready.launch_unstoppable(Duration::from_millis(50))?;
    section.on_stop(|| panic!("in the function"));
    drop(section);
    let error = ready.launch(spin(1, 1)).expect_err("the kernel is still there");
    assert!(matches!(error, ResidentError::Launch(LaunchError::WouldWait { .. })), "{error}");
    ready.words.stop();
    Ok(ready.stream.synchronize()?)
}

/// Some threads begin and end sections and drop memory while another thread warms kernels. Nothing hangs, and all
/// memory is freed.
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
                        // Another thread is loading or freeing, which takes only a short time.
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
    // A control block and a word of each launch were dropped, and must be freed. The other words are never freed.
    let (allocated, freed) = (count("cuMemHostAlloc"), count("cuMemFreeHost"));
    let words = allocated - freed;
    assert!(freed >= 4 * 20 * 2, "{freed} of {allocated}");
    assert!(words >= 4 * 20, "{words}");
    Ok(())
}
