//! The search over plans, and what becomes of the plan that failed.

mod toy;

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::time::Duration;

use kernel_registry_schedule::{Kind, Limits, Party, Plan, Point, Record, Runner, Search, search};
use toy::{A, B, C, Op, Program, Toy, limits, nothing, op};

fn run(limits: &Limits, program: Program) -> (Search, Toy) {
    let mut toy = Toy::new(program);
    let Ok(search) = search(limits, &mut toy);
    assert_eq!(search.coverage.runs, toy.runs.len() as u64);
    (search, toy)
}

fn independent(steps: &[usize]) -> Program {
    let parties = [A, B, C].into_iter().zip(steps).map(|(party, steps)| (party, vec![nothing(); *steps]));
    Program { parties: parties.collect(), check: |_| true }
}

/// Checks that each order of steps is run exactly once, and returns how many there are.
fn exhaust(program: Program) -> usize {
    let expected = program.orders();
    let (search, toy) = run(&limits(10_000), program);
    assert!(search.coverage.exhausted && search.failure.is_none(), "{search:?}");
    let orders = toy.orders();
    assert_eq!(orders.len(), expected.len());
    assert_eq!(BTreeSet::from_iter(orders), expected);
    assert_eq!(search.coverage.schedules, expected.len() as u64);
    expected.len()
}

#[test]
fn all_orders_of_independent_steps_are_run_once() {
    assert_eq!(exhaust(independent(&[5])), 1);
    assert_eq!(exhaust(independent(&[2, 2])), 6);
    assert_eq!(exhaust(independent(&[2, 3])), 10);
    assert_eq!(exhaust(independent(&[4, 4])), 70);
    assert_eq!(exhaust(independent(&[1, 1, 1])), 6);
    assert_eq!(exhaust(independent(&[2, 2, 2])), 90);
    assert_eq!(exhaust(independent(&[3, 2, 3])), 560);
}

#[test]
fn all_orders_of_parties_that_wait_are_run_once() {
    let put = || op(|m| m[0] += 1).when(|m| m[0] == 0);
    let take = || op(|m| m[0] -= 1).when(|m| m[0] == 1);
    let count = exhaust(Program::new([
        (A, vec![put(), nothing(), put()]),
        (B, vec![take(), nothing(), take()]),
        (C, vec![nothing(), nothing()]),
    ]));
    assert!(count > 50, "{count}");
}

#[test]
fn a_lost_update_needs_one_departure() {
    let (search, toy) = run(&limits(1_000), toy::lost_update());
    let failure = search.failure.expect("the update can be lost");
    assert_eq!((failure.kind, failure.stable), (Kind::Failed, true));
    assert_eq!(failure.plan.departures.len(), 1, "{}", failure.plan);
    assert!(failure.plan.strict);
    let again = toy.program.run(&failure.plan.to_string().parse().unwrap());
    assert_eq!(again, failure.record);
    assert_eq!(again.kind(), Kind::Failed);
    assert_eq!(toy.program.run(&Plan::default()).kind(), Kind::Passed);
}

#[test]
fn a_failure_in_the_usual_order_needs_no_departure() {
    let (search, _) = run(&limits(1_000), independent(&[2, 2]).checked(|_| false));
    let failure = search.failure.unwrap();
    assert_eq!(failure.plan, Plan { strict: true, ..Plan::default() });
    assert_eq!(search.coverage.schedules, 1);
}

#[test]
fn a_deadlock_by_chance_is_shrunk() {
    let program = toy::deadlock(60, 5);
    for seed in (1..=8).map(|number| number * 1_000) {
        let (search, toy) = run(&Limits { seed, ..limits(800) }, program.clone());
        let failure = search.failure.expect("the locks are taken in opposite orders");
        let chance = search.coverage.chance.expect("there are too many schedules with one departure");
        let (_, found) = toy
            .runs
            .iter()
            .find(|(plan, record)| plan.chance.is_some() && record.kind() != Kind::Passed)
            .unwrap();
        assert!(found.choices.len() > 200, "{}", found.choices.len());
        assert!(chance.length > 200 && chance.parties == 7, "{chance:?}");
        assert_eq!((failure.kind, failure.stable), (Kind::Deadlock, true));
        assert!((1..=2).contains(&failure.plan.departures.len()), "{}", failure.plan);
        assert_eq!(toy.program.run(&failure.plan).kind(), Kind::Deadlock);
        for index in 0..failure.plan.departures.len() {
            let mut fewer = Plan { strict: false, ..failure.plan.clone() };
            fewer.departures.remove(index);
            assert_eq!(toy.program.run(&fewer).kind(), Kind::Passed, "{}", failure.plan);
        }
    }
}

/// Between the operations of each party nobody goes, unless the point is known.
fn hidden_lost_update() -> Program {
    let mut program = toy::lost_update();
    for (party, line) in [(A, 7), (B, 8)] {
        let steps = program.parties.get_mut(&party).unwrap();
        steps[1] = steps[1].clone().at("add", line);
    }
    program
}

#[test]
fn new_points_start_the_search_again() {
    let (search, toy) = run(&limits(1_000), hidden_lost_update().checked(|_| true));
    assert_eq!(search.coverage.schedules, 6);
    assert_eq!(search.coverage.runs, 7);
    assert_eq!(search.coverage.to_string(), "all 6 schedules there are");
    assert!(toy.runs[0].0.points.is_empty());
    assert!(toy.runs[1..].iter().all(|(plan, _)| plan.points.len() == 2));
}

#[test]
fn a_failing_plan_keeps_the_points_that_it_needs() {
    let (search, toy) = run(&limits(1_000), hidden_lost_update());
    let failure = search.failure.expect("with the points the update can be lost");
    assert!(failure.stable);
    let lines: Vec<u32> = failure.plan.points.iter().map(|point| point.line).collect();
    assert_eq!(lines, [7, 8]);
    assert_eq!(toy.program.run(&failure.plan).kind(), Kind::Failed);
    let without = Plan { points: BTreeSet::new(), strict: false, ..failure.plan };
    assert_eq!(toy.program.run(&without).kind(), Kind::Passed);
}

#[test]
fn a_failing_plan_gets_new_points_only_if_it_fails_with_them() {
    // The usual order fails, and reports points.
    let (fails, _) = run(&limits(1_000), hidden_lost_update().checked(|m| m[0] != 2));
    assert_eq!(fails.failure.unwrap().plan.points.len(), 2);

    /// Finds points only in runs that fail.
    struct Unnoticed(Toy);
    impl Runner for Unnoticed {
        type Error = Infallible;
        fn run(&mut self, plans: &[Plan]) -> Result<Vec<Record>, Infallible> {
            let Ok(mut records) = self.0.run(plans);
            let passed = records.iter_mut().filter(|record| record.kind() == Kind::Passed);
            passed.for_each(|record| record.points.clear());
            Ok(records)
        }
    }
    // Fails if B goes before the last step. With the point, the same departure is made a step too early.
    let first = vec![op(|m| m[0] = 1), op(|m| m[0] = 2).at("kernel", 1), op(|m| m[0] = 3)];
    let second = vec![op(|m| m[1] = m[0])];
    let program = Program::new([(A, first), (B, second)]).checked(|m| m[1] != 2);
    let mut toy = Unnoticed(Toy::new(program));
    let Ok(search) = search(&limits(1_000), &mut toy);
    let failure = search.failure.unwrap();
    assert!(failure.stable && failure.plan.points.is_empty(), "{failure:?}");
    assert_eq!(failure.record.points.len(), 1);
    assert!(toy.0.runs.iter().any(|(plan, _)| !plan.points.is_empty()), "it was tried");
}

#[test]
fn points_do_not_outrun_the_budget() {
    /// Finds a new point in each run.
    struct Endless(u32);
    impl Runner for Endless {
        type Error = Infallible;
        fn run(&mut self, plans: &[Plan]) -> Result<Vec<Record>, Infallible> {
            let records = plans.iter().map(|_| {
                self.0 += 1;
                let text = format!("point\t{}\tkernel\noutcome\tpassed\t\n", self.0);
                Record::read(&text).unwrap()
            });
            Ok(records.collect())
        }
    }
    let mut endless = Endless(0);
    let Ok(search) = search(&limits(20), &mut endless);
    assert_eq!((endless.0, search.coverage.runs), (80, 80));
    assert_eq!(search.coverage.to_string(), "no schedules");
}

#[test]
fn a_full_level_is_followed_by_chance() {
    // The levels have 1, 2, 2 and 1 schedules.
    let (search, toy) = run(&limits(4), independent(&[2, 2]));
    assert_eq!((search.coverage.schedules, search.coverage.departures), (3, Some(1)));
    assert_eq!(search.coverage.chance.unwrap().schedules, 1);
    let seeds: Vec<u64> = toy.runs.iter().filter_map(|(plan, _)| Some(plan.chance?.seed)).collect();
    assert_eq!(seeds, [1]);
    assert!(!search.coverage.exhausted);

    let (search, _) = run(&limits(6), independent(&[2, 2]));
    assert!(search.coverage.exhausted && search.coverage.chance.is_none());
}

#[test]
fn seeds_of_chance_differ() {
    let (_, toy) = run(&limits(100), independent(&[30, 30]));
    let seeds: Vec<u64> = toy.runs.iter().filter_map(|(plan, _)| Some(plan.chance?.seed)).collect();
    assert_eq!(seeds.len(), 69);
    assert!(seeds.iter().copied().eq(1..=69));
    assert!(toy.runs.iter().filter_map(|(plan, _)| plan.chance).all(|chance| chance.length == 59));
}

#[test]
fn time_ends_a_search_between_batches() {
    let limits = Limits { time: Duration::ZERO, width: 1, ..limits(10_000) };
    let (search, toy) = run(&limits, independent(&[3, 3]));
    assert_eq!(toy.runs.len(), 1);
    assert_eq!(search.coverage.to_string(), "the usual order");
}

#[test]
fn an_unfinished_level_is_reported() {
    // The second level is begun, and takes more than one batch.
    struct Slow(Toy);
    impl Runner for Slow {
        type Error = Infallible;
        fn run(&mut self, plans: &[Plan]) -> Result<Vec<Record>, Infallible> {
            if self.0.runs.len() == 1 {
                std::thread::sleep(Duration::from_millis(300));
            }
            self.0.run(plans)
        }
    }
    let limits = Limits { time: Duration::from_millis(250), width: 1, ..limits(10_000) };
    let Ok(search) = search(&limits, &mut Slow(Toy::new(independent(&[30, 30]))));
    let text = search.coverage.to_string();
    assert_eq!(text, "9 of the 31 schedules with at most 1 departure from the usual order");
}

/// Returns prepared kinds, one per run, and then passes.
struct Prepared(Vec<Option<Kind>>);

impl Runner for Prepared {
    type Error = Infallible;
    fn run(&mut self, plans: &[Plan]) -> Result<Vec<Record>, Infallible> {
        let mut record = || {
            let kind = if self.0.is_empty() { Some(Kind::Passed) } else { self.0.remove(0) };
            let mut record = Record::read("choice\thost 0\t0\thost 0\thost 0\thost 1\n").unwrap();
            record.outcome = kind.map(|kind| (kind, String::new()));
            record
        };
        Ok(plans.iter().map(|_| record()).collect())
    }
}

#[test]
fn a_failure_that_does_not_repeat_is_kept_as_it_was() {
    for failures in [vec![Some(Kind::Race)], vec![Some(Kind::Race), Some(Kind::Race)]] {
        let Ok(search) = search(&limits(100), &mut Prepared(failures));
        let failure = search.failure.unwrap();
        assert_eq!((failure.kind, failure.stable), (Kind::Race, false));
        assert_eq!(failure.plan, Plan::default());
    }
}

#[test]
fn another_kind_of_failure_is_another_failure() {
    for kinds in [[Kind::Race, Kind::Fault, Kind::Race], [Kind::Race, Kind::Race, Kind::Fault]] {
        let Ok(search) = search(&limits(100), &mut Prepared(kinds.map(Some).to_vec()));
        assert!(!search.failure.unwrap().stable);
    }
}

#[test]
fn no_outcome_is_a_crash() {
    let Ok(search) = search(&limits(100), &mut Prepared(vec![None, None, None]));
    let failure = search.failure.unwrap();
    assert!(failure.stable);
    let crashed = (Kind::Crashed, "the run ended without an outcome".to_owned());
    assert_eq!(failure.record.outcome, Some(crashed));
}

#[test]
fn runs_that_stray_are_reported() {
    // These never make the departure that they were told to.
    let Ok(search) = search(&limits(10), &mut Prepared(Vec::new()));
    assert!(!search.coverage.exhausted);
    assert_eq!(search.coverage.strayed, 1);
    let text = search.coverage.to_string();
    let start =
        "2 schedules with at most 1 departure from the usual order, and 8 by chance (PCT of depth 3: ";
    assert!(text.starts_with(start), "{text}");
    assert!(text.contains("1 of which may have run in another order than planned"), "{text}");
}

#[test]
fn of_several_failures_the_simplest_is_shrunk() {
    /// Fails by chance, the sooner the larger the seed is.
    struct ByChance;
    impl Runner for ByChance {
        type Error = Infallible;
        fn run(&mut self, plans: &[Plan]) -> Result<Vec<Record>, Infallible> {
            let record = |plan: &Plan| {
                let departure = "choice\thost 0\t0\thost 1\thost 0\thost 1\n";
                let usual = "choice\thost 0\t0\thost 0\thost 0\thost 1\n";
                let text = match plan.chance {
                    Some(chance) => departure.repeat(5 - chance.seed as usize) + "outcome\trace\t\n",
                    None => usual.repeat(5) + "outcome\tpassed\t\n",
                };
                Record::read(&text).unwrap()
            };
            Ok(plans.iter().map(record).collect())
        }
    }
    let Ok(search) = search(&limits(5), &mut ByChance);
    assert_eq!(search.failure.unwrap().plan.chance.unwrap().seed, 4);
}

#[test]
fn errors_of_the_runner_end_the_search() {
    struct Broken;
    impl Runner for Broken {
        type Error = &'static str;
        fn run(&mut self, _: &[Plan]) -> Result<Vec<Record>, Self::Error> {
            Err("no such program")
        }
    }
    assert_eq!(search(&limits(10), &mut Broken), Err("no such program"));
}

#[test]
fn a_failure_of_three_parties_is_minimal() {
    // Fails only if C sees the first number and not yet the second, while B is between its steps.
    let steps: [Vec<Op>; 3] = [
        vec![nothing(), op(|m| m[0] = 1), op(|m| m[1] = 1)],
        vec![op(|m| m[2] = 1), nothing(), op(|m| m[2] = 2)],
        vec![op(|m| m[3] = i64::from(m[0] == 1 && m[1] == 0 && m[2] == 1))],
    ];
    let [a, b, c] = steps;
    let program = Program::new([(A, a), (B, b), (C, c)]).checked(|m| m[3] == 0);
    let (search, toy) = run(&limits(10_000), program);
    let failure = search.failure.unwrap();
    assert_eq!(failure.plan.departures.len(), 2, "{}", failure.plan);
    assert_eq!(toy.program.run(&failure.plan).kind(), Kind::Failed);
}

#[test]
fn points_are_ordered_by_kernel() {
    let point = |kernel: &str, line| Point { kernel: kernel.to_owned(), line };
    assert!(point("a", 9) < point("b", 1));
    assert!(A < Party::Stream(0) && Party::Room(9) < Party::Block { grid: 0, block: 0 });
}
