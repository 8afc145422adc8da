//! Limits what part of a process's time the audit takes for data that the program can do without.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

/// One part of this many.
const SHARE: u64 = 200;

/// The most nanoseconds that can be saved up, so that all slow calls of a start are listed.
const MOST: i64 = 200_000_000;

/// The nanoseconds that may be spent. They grow with time. Threads that use the budget at once may spend a little more.
pub(crate) struct Budget {
    left: AtomicI64,
    seen: AtomicU64,
}

impl Budget {
    pub(crate) const fn new() -> Self {
        Budget { left: AtomicI64::new(MOST), seen: AtomicU64::new(0) }
    }

    /// Returns whether something is left at this time.
    pub(crate) fn affords(&self, now: u64) -> bool {
        let earned = now.saturating_sub(self.seen.swap(now, Ordering::Relaxed)) / SHARE;
        let left = self.left.load(Ordering::Relaxed).saturating_add_unsigned(earned).min(MOST);
        self.left.store(left, Ordering::Relaxed);
        left > 0
    }

    pub(crate) fn spend(&self, nanoseconds: u64) {
        self.left.fetch_sub(nanoseconds.cast_signed(), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLISECOND: u64 = 1_000_000;

    /// Makes a call each millisecond, and counts those that the budget affords.
    fn afforded(budget: &Budget, milliseconds: std::ops::Range<u64>, cost: u64) -> u64 {
        milliseconds
            .map(|now| {
                let can = budget.affords(now * MILLISECOND);
                budget.spend(if can { cost } else { 0 });
                u64::from(can)
            })
            .sum()
    }

    #[test]
    fn no_more_than_its_share_of_the_time_is_spent() {
        let budget = Budget::new();
        let cost = MILLISECOND / 4;
        assert_eq!(afforded(&budget, 0..700, cost), 700, "all calls of a start");
        let later = afforded(&budget, 700..100_000, cost);
        assert!((later * cost).abs_diff(99_300 * MILLISECOND / SHARE) < 150 * MILLISECOND, "{later}");
        // Nothing was spent for a long time.
        assert!(afforded(&budget, 1_000_000..1_010_000, cost) < 1200);
    }
}
