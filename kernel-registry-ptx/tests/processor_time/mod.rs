//! Measures processor time. The tests of the simulator include this file, too.

use std::io;
use std::time::{Duration, Instant};

/// Returns the processor time of all threads of the process together, which other load of the machine does
/// not change.
fn busy() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` has the type that the call writes.
    let answer = unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) };
    assert_eq!(answer, 0, "nothing can be measured: {}", io::Error::last_os_error());
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Does the work five times, and returns the least processor time of the five.
pub fn fastest(mut work: impl FnMut()) -> Duration {
    let measured = (0..5).map(|_| {
        let (begun, busy_before) = (Instant::now(), busy());
        work();
        let taken = busy() - busy_before;
        println!("{taken:?} busy, {:?} in all", begun.elapsed());
        assert!(taken > Duration::ZERO, "nothing was measured: the clock of the process stands still");
        taken
    });
    measured.min().unwrap()
}
