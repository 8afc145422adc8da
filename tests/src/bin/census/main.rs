//! The census: tries which driver operations wait for a resident kernel. docs/census.md explains how to run
//! it on another machine, and what a recording contains. The kernels are in the crate `tests/census`,
//! together with the recordings.
//!
//! Every row runs in a separate process, where the resident kernel ends by itself after a second. `process`
//! starts that process, and `child` runs the row in it. The rows are in `loading`, `first`, `stack`,
//! `launches`, `launched`, `waiting`, `calls`, `limits`, `locked` and `host`.

mod bench;
mod calls;
mod child;
mod coverage;
mod cuda;
mod first;
mod guard;
mod host;
mod launched;
mod launches;
mod limits;
mod loading;
mod locked;
mod machine;
mod options;
mod process;
mod recording;
mod resident;
mod row;
mod rows;
mod several;
mod stack;
mod table;
mod waiting;

use std::process::ExitCode;
use std::time::Duration;

use ::tests::evidence::{self, Evidence};
use clap::Parser;

use options::Options;
use recording::{Mode, Recording, Tried, Verdict};
use row::Row;

fn main() -> ExitCode {
    ::tests::simulate_if_told();
    let options = Options::parse();
    if options.share {
        host::share();
        return ExitCode::SUCCESS;
    }
    let result = match &options.child {
        Some(name) => child(name, &options),
        None => census(&options),
    };
    result.unwrap_or_else(|(code, error)| {
        eprintln!("error: {error}");
        code
    })
}

/// An exit code and its message.
type Failure = (ExitCode, String);

/// The time after which resident work ends by itself. An operation that takes so long counts as waiting.
const LIMIT: Duration = Duration::from_secs(1);

/// The same time for rows that are tried again, because their result was unexpected.
const PATIENT: Duration = Duration::from_secs(10);

const FAILED: u8 = 1;
const NOT_POSSIBLE: u8 = 2;

fn not_possible(error: impl ToString) -> Failure {
    (ExitCode::from(NOT_POSSIBLE), error.to_string())
}

/// Tries one row in this process, and prints the result as the last line.
fn child(name: &str, options: &Options) -> Result<ExitCode, Failure> {
    let rows = rows::list_rows();
    let row = rows.iter().find(|row| row.name == name);
    let row = row.ok_or_else(|| not_possible(format!("no row `{name}`")))?;
    let [mode] = options.mode.modes() else {
        return Err(not_possible("a row is tried in one mode at a time"));
    };
    let outcome = child::outcome(row, *mode, options.manner(), Duration::from_secs(options.limit));
    let line = serde_json::to_string(&outcome).map_err(not_possible)?;
    println!("\n{line}");
    Ok(ExitCode::SUCCESS)
}

fn census(options: &Options) -> Result<ExitCode, Failure> {
    if let Some(file) = &options.functions {
        let recording = Recording::read(file).map_err(not_possible)?;
        print!("{}", coverage::table(&recording));
        return Ok(ExitCode::SUCCESS);
    }
    let rows = rows::list_rows();
    let chosen = options.choose(&rows).map_err(not_possible)?;
    if options.list {
        chosen.iter().for_each(|row| println!("{}", table::listed(row)));
        return Ok(ExitCode::SUCCESS);
    }
    // Read first, because the rows take minutes.
    let expected = options.expect.as_deref().map(Recording::read).transpose().map_err(not_possible)?;
    let machine = machine::machine().map_err(not_possible)?;
    println!("{machine}\n");

    let mut recording = Recording::new(machine, machine::date(), options.manner());
    let of_mode = |mode: &Mode| chosen.iter().map(|row| (&*row.name, *mode, row.remains)).collect::<Vec<_>>();
    let to_try: Vec<_> = options.mode.modes().iter().flat_map(of_mode).collect();
    recording.rows = tried(&to_try, options, LIMIT)?;

    let same_manner = expected.as_ref().filter(|expected| expected.manner() == options.manner());
    let is_right = |tried: &Tried| {
        unprevented(tried, options, &chosen).is_none()
            && unguarded(tried, options, &chosen).is_none()
            && same_manner.and_then(|expected| expected.difference(tried)).is_none()
    };
    // On a busy machine, an operation can take longer than the resident kernel runs.
    let doubtful: Vec<_> = (0..to_try.len()).filter(|&index| !is_right(&recording.rows[index])).collect();
    if !doubtful.is_empty() {
        println!("\nagain, with more patience:");
        let again: Vec<_> = doubtful.iter().map(|&index| to_try[index]).collect();
        for (index, tried) in doubtful.into_iter().zip(tried(&again, options, PATIENT)?) {
            recording.rows[index] = tried;
        }
    }
    println!("\n{}", table::summary(&recording));
    if let Some(file) = &options.json {
        recording.write(file).map_err(not_possible)?;
    }

    let mut problems: Vec<_> =
        recording.rows.iter().filter_map(|tried| unprevented(tried, options, &chosen)).collect();
    problems.extend(recording.rows.iter().filter_map(|tried| unguarded(tried, options, &chosen)));
    if let Some(expected) = expected {
        let known: Vec<_> = rows.iter().map(|row| &*row.name).collect();
        if expected.machine != recording.machine {
            println!("the recording is of {}, {}", expected.machine, expected.date);
        }
        problems.extend(recording.differences(&expected, &known));
    }
    if problems.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    problems.iter().for_each(|problem| println!("{problem}"));
    Ok(ExitCode::from(FAILED))
}

/// A row's name, its mode, and why it can wait although every kernel is warm.
type ToTry<'r> = (&'r str, Mode, Option<&'static str>);

/// Tries rows in the given order, and prints a line for each. Resident work ends by itself after `limit`.
fn tried(rows: &[ToTry<'_>], options: &Options, limit: Duration) -> Result<Vec<Tried>, Failure> {
    let attempt = |(row, mode, _): &ToTry<'_>| process::outcome(row, *mode, options.manner(), limit);
    let mut all = Vec::new();
    several::in_order(rows, options.jobs, attempt, |(row, mode, remains), outcome| {
        let tried = Tried { row: (*row).to_owned(), mode: *mode, outcome };
        println!("{}", table::line(&tried, remains.filter(|_| options.warmed)));
        all.push(tried);
    })
    .map_err(not_possible)?;
    Ok(all)
}

/// Returns a problem if a row still waits although warming should have prevented that.
fn unprevented(tried: &Tried, options: &Options, rows: &[&Row]) -> Option<String> {
    let Tried { row, mode, outcome } = tried;
    let is_right = matches!(outcome.verdict, Verdict::Runs | Verdict::Lacking);
    let is_preventable = rows.iter().any(|known| known.name == *row && known.remains.is_none());
    (options.warmed && !is_right && is_preventable).then(|| format!("{mode} {row}: {outcome} after warming"))
}

/// Returns a problem if a row waits although the section should have prevented that, or if the section
/// refused or deferred a call that doesn't wait.
fn unguarded(tried: &Tried, options: &Options, rows: &[&Row]) -> Option<String> {
    let Tried { row, mode, outcome } = tried;
    // The driver refuses these rows even without a section.
    let is_refused = || rows.iter().any(|known| known.name == *row && known.refused);
    let is_right = match outcome.verdict {
        Verdict::Blocks => false,
        Verdict::Runs | Verdict::Lacking => true,
        Verdict::Refused | Verdict::Deferred => waits(row, *mode) || is_refused(),
        Verdict::Error => is_refused(),
    };
    let words = match outcome.verdict {
        Verdict::Refused | Verdict::Deferred => format!("{mode} {row}: {outcome}, and does not wait"),
        _ => format!("{mode} {row}: {outcome} in a section"),
    };
    (options.guarded && !is_right).then_some(words)
}

/// Returns whether a rule says that a row waits, or that the kernel launched by the row does.
fn waits(row: &str, mode: Mode) -> bool {
    let mode = mode.to_string();
    let waits = |evidence: &Evidence| evidence.waits(row) || evidence.waits_later(row);
    evidence::rules().any(|(_, evidence)| evidence.holds(&mode) && waits(evidence))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::{Machine, Manner, Outcome};

    /// A warmed launch that waits must be a problem, except where warming can't help.
    #[test]
    fn a_wait_is_a_problem_only_where_warming_prevents_it() {
        let machine = Machine { gpu: String::new(), arch: String::new(), driver: None, cuda: String::new() };
        let mut recording = Recording::new(machine, String::new(), Manner::Warmed);
        let rows = rows::list_rows();
        let rows: Vec<_> =
            rows.iter().filter(|row| ["frame/2k", "device/full"].contains(&&*row.name)).collect();
        assert_eq!(rows.len(), 2);
        for (name, verdict) in [("frame/2k", Verdict::Runs), ("device/full", Verdict::Blocks)] {
            let outcome = Outcome { verdict, ..Outcome::ERROR };
            recording.rows.push(Tried { row: name.into(), mode: Mode::Lazy, outcome });
        }
        let options = Options::parse_from(["census", "--warmed"]);
        let problems = |recording: &Recording| -> Vec<_> {
            recording.rows.iter().filter_map(|tried| unprevented(tried, &options, &rows)).collect()
        };
        assert!(problems(&recording).is_empty());
        recording.rows[0].outcome.verdict = Verdict::Blocks;
        assert_eq!(problems(&recording), ["lazy frame/2k: blocks after warming"]);
    }

    /// A section may only refuse or defer calls that wait.
    #[test]
    fn only_calls_that_wait_by_a_rule_may_be_refused() {
        let machine = Machine { gpu: String::new(), arch: String::new(), driver: None, cuda: String::new() };
        let mut recording = Recording::new(machine, String::new(), Manner::Guarded);
        for (row, mode, verdict) in [
            ("host/cuMemFree_1M", Mode::Lazy, Verdict::Deferred),
            ("host/cuMemFree_pooled", Mode::Lazy, Verdict::Deferred),
            ("host/cuLibraryLoadData", Mode::Eager, Verdict::Refused),
            ("host/cuLibraryLoadData", Mode::Lazy, Verdict::Refused),
            ("host/cuMemAlloc_1M", Mode::Lazy, Verdict::Runs),
            ("host/cuCtxSynchronize", Mode::Lazy, Verdict::Blocks),
            ("host/cuFuncIsLoaded_of_kernel", Mode::Lazy, Verdict::Error),
        ] {
            let outcome = Outcome { verdict, ..Outcome::ERROR };
            recording.rows.push(Tried { row: row.into(), mode, outcome });
        }
        let (rows, options) = (rows::list_rows(), Options::parse_from(["census", "--guarded"]));
        let rows: Vec<_> = rows.iter().collect();
        let problems = recording.rows.iter().filter_map(|tried| unguarded(tried, &options, &rows));
        assert_eq!(
            problems.collect::<Vec<_>>(),
            [
                "lazy host/cuMemFree_pooled: deferred, and does not wait",
                "lazy host/cuLibraryLoadData: refused, and does not wait",
                "lazy host/cuCtxSynchronize: blocks in a section",
            ]
        );
    }
}
