//! Tests reports of failing schedules.

use std::time::Duration;
use std::{env, fs, process};

use kernel_registry_schedule::{
    Coverage, Departure, ENDED, End, Entry, Failure, Kind, Party, Plan, Record, Report,
};

fn record(lines: &str) -> Record {
    Record::read(lines).unwrap()
}

#[test]
fn a_process_that_ended_has_an_outcome() {
    let closed = |lines: &str, end, output: &str| {
        let mut record = record(lines);
        record.close(end, output, &Plan::default());
        record.outcome.unwrap()
    };
    assert_eq!(closed("", End::Code(0), "fine\n"), (Kind::Passed, String::new()));
    assert_eq!(
        closed("", End::Code(101), "left: 1\n"),
        (Kind::Failed, "the process ended with code 101:\nleft: 1".to_owned())
    );
    assert_eq!(closed("", End::Signal(11), ""), (Kind::Crashed, "signal 11 ended the process".to_owned()));
    assert_eq!(closed("", End::Late(Duration::from_secs(3)), "").0, Kind::Unending);
    // The scheduler has ended the process, and said why.
    let own = closed("outcome\tdeadlock\teveryone waits\n", End::Code(ENDED), "left: 1");
    assert_eq!(own, (Kind::Deadlock, "everyone waits\nThe program had written:\nleft: 1".to_owned()));
    // The parent of the process that was explored doesn't tell.
    assert_eq!(
        closed("outcome\trace\ttwo writes\n", End::Code(0), ""),
        (Kind::Race, "two writes".to_owned())
    );
    let long = closed("", End::Code(1), &"ä".repeat(100_000)).1;
    assert!(long.len() < 20_000 && long.ends_with("ää"), "the end of the output is kept");
    assert_eq!(closed("", End::Code(ENDED), "").0, Kind::Failed, "the program itself has used the code");
}

#[test]
fn a_run_that_never_got_to_a_departure_does_not_fit() {
    let [made, unused] = [4, 9].map(|step| Departure { before: Party::Host(0), step, run: Party::Host(1) });
    let plan = Plan { departures: vec![made, unused], strict: true, ..Plan::default() };
    let mut record = record("choice\thost 0\t4\thost 1\thost 0\thost 1\n");
    record.close(End::Code(0), "fine", &plan);
    let words = "the run ended before it got to `before host 0 step 9 run host 1`".to_owned();
    assert_eq!(record.outcome, Some((Kind::Misfit, words)));
    record.outcome = None;
    record.close(End::Code(0), "fine", &Plan { strict: false, ..plan });
    assert_eq!(record.kind(), Kind::Passed);
}

#[test]
fn a_report_names_parties_and_writes_files() {
    let lines = [
        Entry::Name { party: Party::Host(1), name: "thread `worker`".into() }.to_string(),
        "choice\thost 0\t4\thost 1\thost 0\thost 1".into(),
        "outcome\tdeadlock\teveryone waits\n".into(),
    ];
    let record = record(&lines.join("\n"));
    let departures = vec![Departure { before: Party::Host(0), step: 4, run: Party::Host(1) }];
    let plan = Plan { departures, strict: true, ..Plan::default() };
    let failure = Failure { plan: plan.clone(), record: record.clone(), kind: Kind::Deadlock, stable: true };
    let coverage = Coverage { runs: 7, ..Coverage::default() };
    let report = Report { failure: &failure, record: &record, coverage: &coverage };
    assert_eq!(
        report.to_string(),
        "DEADLOCK: everyone waits\n\
         It fails after 1 choice against the usual order, in which a party goes on until it waits:\n  \
         thread `worker` goes before step 5 of host 0\n\
         That took 7 runs."
    );
    let base = env::temp_dir().join(format!("kernel-registry-report-{}.x", process::id()));
    let files = report.write(&base).unwrap();
    let [schedule, picture] = files.each_ref().map(|file| fs::read_to_string(file).unwrap());
    assert_eq!(schedule.parse(), Ok(plan));
    assert!(schedule.contains("# DEADLOCK: everyone waits"), "{schedule}");
    assert!(picture.contains("worker"), "{picture}");
    files.into_iter().for_each(|file| fs::remove_file(file).unwrap());
}
