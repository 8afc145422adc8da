//! Phrases about which schedules were tried.

use kernel_registry_schedule::{ChanceCoverage, Coverage, Unfinished};

fn tried(schedules: u64, departures: u32) -> Coverage {
    Coverage { schedules, departures: Some(departures), ..Coverage::default() }
}

fn chance(schedules: u64) -> Option<ChanceCoverage> {
    Some(ChanceCoverage { schedules, depth: 3, parties: 30, length: 20 })
}

#[track_caller]
fn assert_text(coverage: &Coverage, text: &str) {
    assert_eq!(coverage.to_string(), text);
}

#[test]
fn exhausted() {
    assert_text(&Coverage { exhausted: true, ..tried(96, 3) }, "all 96 schedules there are");
    assert_text(&Coverage { exhausted: true, ..tried(1_234_567, 30) }, "all 1,234,567 schedules there are");
    assert_text(&Coverage { exhausted: true, ..tried(1, 0) }, "the only schedule there is");
}

#[test]
fn in_order() {
    assert_text(&tried(1_203, 2), "all 1,203 schedules with at most 2 departures from the usual order");
    assert_text(&tried(12, 1), "all 12 schedules with at most 1 departure from the usual order");
    assert_text(&tried(1, 0), "the usual order");
    assert_text(&Coverage::default(), "no schedules");
}

#[test]
fn by_chance() {
    let odds = "(PCT of depth 3: each finds a given failure of that depth with a probability of at least 1 in 12,000)";
    let all = "all 1,203 schedules with at most 1 departure from the usual order";
    assert_text(
        &Coverage { chance: chance(797), ..tried(1_203, 1) },
        &format!("{all}, and 797 by chance {odds}"),
    );
    assert_text(
        &Coverage { chance: chance(1), ..tried(1, 0) },
        &format!("the usual order, and 1 by chance {odds}"),
    );
}

#[test]
fn odds_saturate() {
    let coverage = ChanceCoverage { schedules: 1, depth: u32::MAX, parties: 2, length: u64::MAX };
    assert_eq!(coverage.odds(), u128::MAX);
    assert_eq!(ChanceCoverage { depth: 1, ..coverage }.odds(), 2);
    assert_eq!(ChanceCoverage { depth: 2, length: 7, ..coverage }.odds(), 14);
}

#[test]
fn unfinished() {
    let unfinished = Some(Unfinished { departures: 2, schedules: 5_301 });
    assert_text(
        &Coverage { unfinished, ..tried(1_412, 1) },
        "1,412 of the 5,301 schedules with at most 2 departures from the usual order",
    );
}

#[test]
fn strayed() {
    assert_text(
        &Coverage { strayed: 1_000, ..tried(2_000, 2) },
        "2,000 schedules with at most 2 departures from the usual order, 1,000 of which may have run in other orders \
         than planned, as something else matters: threads that sleep or compute for long, time, or chance",
    );
}
