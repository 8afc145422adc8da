//! Tests several warm-ups of one context, and calls that take long without waiting for the device.

use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use kernel_registry::{RecheckError, WarmError, Warmup, warm_all};
use kernel_registry_sim::{Config, Fault};

use super::resident::Resident;
use super::{Outcome, alone, child, hooks, only_touch};

const SHORT: Duration = Duration::from_millis(150);

/// The first warm-up works all the time, so the second warm-up may wait for longer than its timeout.
#[test]
fn waiting_for_a_warm_up_that_works_is_not_waiting_for_the_device() -> Outcome {
    let alone = alone()?;
    hooks::choose(Some(|_| {
        thread::sleep(Duration::from_millis(900));
        Ok(())
    }));
    thread::scope(|scope| {
        let first = scope.spawn(|| warm_all(&alone.context).map(drop));
        thread::sleep(Duration::from_millis(200));
        let second = Warmup::new().timeout(SHORT).warm(&alone.context);
        assert!(second.is_ok(), "{second:?}");
        assert!(first.join().expect("no panic").is_ok());
    });
    Ok(())
}

/// The error names the call in which the first warm-up waits. No further thread is started to wait as well.
#[test]
fn waiting_for_a_warm_up_that_is_stuck_ends_at_once() -> Outcome {
    let alone = alone()?;
    let resident = Resident::start(&alone.context)?;
    let error = Warmup::new().timeout(SHORT).warm(&alone.context).expect_err("a kernel is resident");
    let WarmError::TimedOut { call, about, .. } = error else { panic!("{error}") };
    let begun = Instant::now();
    let error = Warmup::new().timeout(SHORT).warm(&alone.context).expect_err("it still does");
    assert!(begun.elapsed() < SHORT, "{error}");
    assert!(
        matches!(error, WarmError::TimedOut { call: c, about: a, .. } if (c, a) == (call, about)),
        "{error}"
    );
    resident.stop()?;
    warm_all(&alone.context)?;
    Ok(())
}

/// A driver call takes its time, also where the device is free.
#[test]
fn a_timeout_of_zero_does_not_make_the_device_busy() -> Outcome {
    let alone = alone()?;
    let slow = Fault::delays("cuCtxGetLimit", Duration::from_millis(20)).inject()?;
    let warm = only_touch().timeout(Duration::ZERO).warm(&alone.context)?;
    warm.recheck()?;
    assert!(slow.hits() > 1);
    drop(slow);

    let resident = Resident::start(&alone.context)?;
    let error = Warmup::new().timeout(Duration::ZERO).warm(&alone.context).expect_err("a kernel is resident");
    assert!(error.to_string().contains("has waited for 0.1 s: the device is busy"), "{error}");
    resident.stop()?;
    Ok(())
}

/// The lock of a warm-up is no driver call that waits for the device.
#[test]
fn a_recheck_beside_a_warm_up_names_the_warm_up() {
    child::run("turns::beside", &[]);
}

#[test]
#[ignore = "run by the test above, in a process that has compiled nothing"]
fn beside() -> Outcome {
    let alone = alone()?;
    let warm = only_touch().timeout(Duration::ZERO).warm(&alone.context)?;
    let _slow = Fault::delays("cuLibraryLoadData", Duration::from_millis(600)).inject()?;
    thread::scope(|scope| {
        let other = scope.spawn(|| warm_all(&alone.context).map(drop));
        thread::sleep(Duration::from_millis(200));
        assert_eq!(warm.recheck(), Err(RecheckError::Warming));
        assert!(other.join().expect("no panic").is_ok());
    });
    Ok(())
}

/// Each image is compiled only once in a process, so this test needs its own process.
#[test]
fn a_long_compilation_does_not_keep_the_device_busy() {
    child::run("turns::slow_compilation", &[]);
}

#[test]
#[ignore = "run by the test above, in a process that has compiled nothing"]
fn slow_compilation() -> Outcome {
    let alone = alone()?;
    let slow = Fault::delays("cuLibraryLoadData", Duration::from_millis(1200)).inject()?;
    Warmup::new().timeout(SHORT).warm(&alone.context)?;
    assert!(slow.hits() > 0);
    Ok(())
}

/// In eager mode, compiling ends with loading, which waits for the device. The timeout limits that wait.
#[test]
fn a_compilation_that_waits_for_the_device_is_given_up() {
    child::run("turns::eager", &[]);
}

#[test]
#[ignore = "run by the test above, in a process whose driver loads eagerly"]
fn eager() -> Outcome {
    Config::default().eager(true).install()?;
    let context = kernel_registry::context(0)?;
    let resident = Resident::start(&context)?;
    let error = Warmup::new().timeout(SHORT).warm(&context).expect_err("a kernel is resident");
    assert!(matches!(error, WarmError::TimedOut { .. }), "{error}");
    resident.stop()?;
    warm_all(&context)?;
    Ok(())
}

/// Starting a thread needs memory for its stack.
#[test]
fn a_thread_that_cannot_be_started_is_an_error() {
    // A sanitizer needs the memory that the test takes away. `cargo xtask sanitize` tells how it compiles.
    if option_env!("CARGO_ENCODED_RUSTFLAGS").is_some_and(|flags| flags.contains("sanitizer")) {
        println!("LEFT OUT: not under a sanitizer");
        return;
    }
    child::run("turns::no_threads", &[]);
}

#[test]
#[ignore = "run by the test above, in a process that may not start threads"]
fn no_threads() -> Outcome {
    let context = {
        Config::default().install()?;
        kernel_registry::context(0)?
    };
    // Makes sure that the driver's threads have started, because starting a thread needs memory too.
    let stream = context.new_stream()?;
    drop(stream.alloc_zeros::<u8>(1)?);
    stream.synchronize()?;
    let (tell, told) = mpsc::channel::<()>();
    let (begin, begun) = mpsc::channel();
    let limited = thread::spawn(move || {
        begin.send(()).expect("the test waits for it");
        let _ = told.recv();
        warm_all(&context).map(drop)
    });
    begun.recv()?;
    let set = |soft: libc::rlim_t| {
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: both calls get the address of a limit.
        unsafe {
            assert_eq!(libc::getrlimit(libc::RLIMIT_AS, &mut limit), 0);
            limit.rlim_cur = soft.min(limit.rlim_max);
            assert_eq!(libc::setrlimit(libc::RLIMIT_AS, &limit), 0);
        }
    };
    // Leaves room for allocations, but not for a thread's stack of two megabytes.
    let pages = std::fs::read_to_string("/proc/self/statm")?;
    let pages: libc::rlim_t = pages.split(' ').next().ok_or("no size")?.parse()?;
    set(pages * 4096 + (1 << 20));
    drop(tell);
    let result = limited.join().map_err(|_| "it panicked");
    set(libc::RLIM_INFINITY);
    let error = result?.expect_err("no thread could be started");
    assert!(matches!(error, WarmError::NoThread { .. }), "{error}");
    Ok(())
}
