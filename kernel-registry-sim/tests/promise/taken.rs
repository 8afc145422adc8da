//! Tests kernels whose functions are looked up while another kernel runs.

use std::thread;
use std::time::Duration;

use kernel_registry::{WarmError, Warmup};
use kernel_registry_sim::Fault;

use super::identity::first;
use super::resident::Resident;
use super::{Outcome, alone};

/// The driver says at once that such a kernel is loaded, but a launch of the kernel would wait.
#[test]
fn a_kernel_is_not_warm_until_running_kernels_have_ended() -> Outcome {
    let alone = alone()?;
    Resident::warm(&alone.context)?;
    let slow = Fault::delays("cuModuleGetFunction", Duration::from_millis(600)).nth(1).inject()?;
    let (warmed, resident) = thread::scope(|scope| {
        let resident = scope.spawn(|| {
            // The image is loaded, and its kernel is about to be looked up.
            thread::sleep(Duration::from_millis(300));
            Resident::start_warm(&alone.context).map_err(|error| error.to_string())
        });
        let only_first = Warmup::new().only(|kernel| kernel == first::INFO).hooks(false);
        let warmed = only_first.timeout(Duration::from_secs(1)).warm(&alone.context);
        (warmed, resident.join().expect("no panic"))
    });
    assert_eq!(slow.hits(), 1);
    let error = warmed.expect_err("a kernel is resident");
    let WarmError::TimedOut { call, about, .. } = &error else { panic!("{error}") };
    assert_eq!((*call, *about), ("cuModuleLoadDataEx", first::INFO.path()));
    resident?.stop()?;
    Warmup::new().only(|kernel| kernel == first::INFO).warm(&alone.context)?;
    Ok(())
}
