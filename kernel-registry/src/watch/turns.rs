//! Lets warm-ups of one context run one after the other. So only one thread is lost if a warm-up is stuck.

use std::sync::{Arc, Condvar, Mutex};
use std::time::Instant;

use super::{Activity, Overdue, Timeouts};
use crate::lock::lock;

/// The turn of a context's warm-ups: one warm-up runs at a time.
pub(crate) struct Turns {
    holder: Mutex<Option<Arc<Activity>>>,
    free: Condvar,
}

impl Turns {
    pub(crate) const fn new() -> Self {
        Turns { holder: Mutex::new(None), free: Condvar::new() }
    }

    /// Waits until no other warm-up runs. Fails if a call of the other warm-up takes too long.
    pub(crate) fn take(&self, activity: &Arc<Activity>, timeouts: &Timeouts) -> Result<(), Overdue> {
        let mut holder = lock(&self.holder);
        while let Some(other) = &*holder {
            if let Some(overdue) = other.overdue(timeouts, Instant::now()) {
                return Err(overdue);
            }
            let waited = self.free.wait_timeout(holder, timeouts.tick());
            holder = waited.unwrap_or_else(|poisoned| poisoned.into_inner()).0;
        }
        *holder = Some(activity.clone());
        Ok(())
    }

    /// Ends the turn.
    pub(crate) fn end(&self) {
        *lock(&self.holder) = None;
        self.free.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::thread;
    use std::time::Duration;

    use super::super::activity::Kind;
    use super::*;

    const TIMEOUTS: Timeouts = Timeouts { device: Duration::from_secs(30), hook: Duration::from_secs(60) };

    #[test]
    fn waiting_for_a_turn_fails_if_the_other_warm_up_is_overdue() {
        let turns = Turns::new();
        let (first, second) = (Activity::new(|| {}), Activity::new(|| {}));
        turns.take(&first, &TIMEOUTS).expect("the turn is free");
        first.set("cuModuleLoadData", "a.cubin", Kind::Waiting);
        first.make_older(Duration::from_secs(31));
        assert!(matches!(turns.take(&second, &TIMEOUTS), Err(Overdue::Device(_))));
        first.set("cuModuleLoadData", "b.cubin", Kind::Waiting);
        thread::scope(|scope| {
            let waiting = scope.spawn(|| turns.take(&second, &TIMEOUTS));
            turns.end();
            assert_eq!(waiting.join().expect("no panic"), Ok(()));
        });
    }
}
