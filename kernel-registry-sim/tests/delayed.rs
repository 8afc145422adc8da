//! Tests a simulator whose worker thread is delayed. A delay is not reported as a deadlock.

mod device;
mod resident;

use std::time::Duration;

use device::{context, memory, ok};
use kernel_registry_sim::{Config, Deadlock};
use resident::Resident;

#[test]
fn a_kernel_without_a_turn_is_no_deadlock() {
    // A turn begins up to 300 ms late.
    Config::default().deadlock(Deadlock::Fail).timing(1, Duration::from_millis(300)).install().unwrap();
    context(0);
    let waits = memory(4);
    let resident = Resident::start(Duration::from_millis(1500));
    // In a deadlock this call would fail.
    ok("cuMemFree_v2", &[waits]);
    assert!(resident.is_over());
    resident.release();
}
