//! Tests of the check whether blocks of other kernels fit on the device beside resident kernels.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use kernel_registry_resident::{Limit, Shortage, Starting};
use kernel_registry_resident::{Resident, ResidentError, Section};
use kernels::blas1::saxpy;
use kernels::templates::{reduce, transpose};
use kernels::waiting::touch;

use super::{Outcome, Words, ready, spin};

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
    let text = "\n  `kernels::waiting::touch` does not fit next to it: a block needs 32 threads, and a multiprocessor has 0 of 2048 left; \
                launch `kernels::waiting::spin_until_flag` with smaller blocks, or fewer";
    assert!(error.to_string().ends_with(text), "{error}");

    // With one block less, half of a multiprocessor is free.
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

    // A kernel that fits according to the check can run.
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
    // `worker` declares no block size.
    let worker =
        beside.iter().find(|other| other.kernel == kernels::waiting::worker::INFO.path()).expect("a row");
    assert!(worker.threads.0 == 32 && worker.threads.1 > 32, "{worker:?}");
    Ok(())
}

#[test]
fn two_resident_kernels_share_the_device() -> Outcome {
    let ready = ready()?;
    let first = ready.launch(spin(132, 1024))?;
    let other = ready.context.new_stream()?;
    let words = Words::new()?;
    let error = ready.launch_in(&other, words, spin(133, 1024)).expect_err("132 have room");
    assert!(matches!(error, ResidentError::GridTooLarge { grid: 133, capacity: 132, .. }), "{error}");
    assert!(
        error.to_string().contains("next to `kernels::waiting::spin_until_flag` 132 of its 133 blocks"),
        "{error}"
    );
    // Both kernels were checked when no kernel was resident. Only one of the two is launched.
    let second = ready.launch_in(&other, words, spin(132, 1024))?;
    let full = spin(1, 1).check(&ready.warm).expect_err("no room is left");
    assert!(matches!(full, ResidentError::GridTooLarge { capacity: 0, .. }), "{full}");
    second.stop()?;
    // The sections may end in any order.
    let small = spin(10, 64).check(&ready.warm).expect_err("it wants a larger carve-out");
    assert!(
        small.to_string().ends_with("launch the resident ones with `Resident::carveout(100)`"),
        "{small}"
    );
    first.stop()?;
    let first = ready.launch_in(&ready.stream, Words::new()?, spin(132, 1024).carveout(100))?;
    let third = ready.launch_in(&other, Words::new()?, spin(10, 64))?;
    first.stop()?;
    Ok(third.stop()?)
}

#[test]
fn a_carveout_that_does_not_help_hides_no_reason() -> Outcome {
    let ready = ready()?;
    let first = ready.launch(spin(132, 32))?;
    // Beside the first kernel, the second kernel does not fit if the carve-out is 100.
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

/// Checks that the check of 100 kernels beside a resident one takes less than a millisecond on an idle machine.
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
fn carveouts_of_earlier_launches_count() -> Outcome {
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
    // Now the driver chooses the carve-out of the kernel again.
    launch(Resident::new(touch::config(1)))?;
    assert_eq!(beside()?.fit().carveout, None);
    Ok(())
}

#[test]
fn many_resident_kernels_are_counted_in_errors() -> Outcome {
    let ready = ready()?;
    let mut sections = Vec::new();
    let error = loop {
        let stream = ready.context.new_stream()?;
        match ready.launch_in(&stream, ready.words, spin(132, 512)) {
            Ok(section) => sections.push(section),
            Err(error) => break error,
        }
    };
    assert!(
        error.to_string().contains("next to 2 x `kernels::waiting::spin_until_flag` 0 of its"),
        "{error}"
    );
    sections.into_iter().try_for_each(Section::stop)?;
    Ok(())
}
