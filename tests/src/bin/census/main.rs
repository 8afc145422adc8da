//! The census: tries which driver operations wait for a resident kernel. docs/census.md tells how to run it
//! elsewhere, and what a recording contains. Its kernels are the crate `tests/census`, beside the recordings.
//!
//! Every row runs in its own process, where the resident kernel gives up after a second: `process` starts it, `child` runs
//! it. The rows are in `loading`, `first`, `stack`, `launches`, `waiting`, `calls`, `limits` and `locked`.

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
mod several;
mod stack;
mod table;
mod waiting;

use std::process::ExitCode;

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

const FAILED: u8 = 1;
const NOT_POSSIBLE: u8 = 2;

fn not_possible(error: impl ToString) -> Failure {
    (ExitCode::from(NOT_POSSIBLE), error.to_string())
}

/// Tries one row in this process. The last printed line is the result.
fn child(name: &str, options: &Options) -> Result<ExitCode, Failure> {
    let rows = row::all();
    let row = rows.iter().find(|row| row.name == name);
    let row = row.ok_or_else(|| not_possible(format!("no row `{name}`")))?;
    let [mode] = options.mode.modes() else {
        return Err(not_possible("a row is tried in one mode at a time"));
    };
    let outcome = child::outcome(row, *mode, options.manner());
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
    let rows = row::all();
    let chosen = options.choose(&rows).map_err(not_possible)?;
    if options.list {
        chosen.iter().for_each(|row| println!("{}", table::listed(row)));
        return Ok(ExitCode::SUCCESS);
    }
    // Read the recording first: trying takes minutes.
    let expected = options.expect.as_deref().map(Recording::read).transpose().map_err(not_possible)?;
    let machine = machine::machine().map_err(not_possible)?;
    println!("{machine}\n");

    let mut recording = Recording::new(machine, machine::date(), options.manner());
    for mode in options.mode.modes() {
        let names: Vec<_> = chosen.iter().map(|row| &*row.name).collect();
        let attempt = |name: &&str| process::outcome(name, *mode, options.manner());
        let mut remaining = chosen.iter().map(|row| row.remains.filter(|_| options.warmed));
        several::in_order(&names, options.jobs, attempt, |name, outcome| {
            let tried = Tried { row: (*name).to_owned(), mode: *mode, outcome };
            println!("{}", table::line(&tried, remaining.next().flatten()));
            recording.rows.push(tried);
        })
        .map_err(not_possible)?;
    }
    println!("\n{}", table::summary(&recording));
    if let Some(file) = &options.json {
        recording.write(file).map_err(not_possible)?;
    }

    let mut problems = Vec::new();
    if options.warmed {
        problems.extend(unprevented(&recording, &chosen));
    }
    if options.guarded {
        problems.extend(unguarded(&recording, &chosen));
    }
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

/// Rows that still wait although warming should have prevented it.
fn unprevented(recording: &Recording, rows: &[&Row]) -> Vec<String> {
    let preventable = |name: &str| rows.iter().any(|row| row.name == name && row.remains.is_none());
    let failed = recording
        .rows
        .iter()
        .filter(|tried| !matches!(tried.outcome.verdict, Verdict::Runs | Verdict::Lacking))
        .filter(|tried| preventable(&tried.row));
    failed.map(|Tried { row, mode, outcome }| format!("{mode} {row}: {outcome} after warming")).collect()
}

/// Rows that wait although a section should have prevented it, and those that it should have left alone.
fn unguarded(recording: &Recording, rows: &[&Row]) -> Vec<String> {
    // Also without a section.
    let is_refused = |name: &str| rows.iter().any(|row| row.name == name && row.refused);
    let is_right = |Tried { row, mode, outcome }: &&Tried| match outcome.verdict {
        Verdict::Blocks => false,
        Verdict::Runs | Verdict::Lacking => true,
        Verdict::Refused | Verdict::Deferred => waits(row, *mode) || is_refused(row),
        Verdict::Error => is_refused(row),
    };
    let wrong = recording.rows.iter().filter(|tried| !is_right(tried));
    let words = |Tried { row, mode, outcome }: &Tried| match outcome.verdict {
        Verdict::Refused | Verdict::Deferred => format!("{mode} {row}: {outcome}, and does not wait"),
        _ => format!("{mode} {row}: {outcome} in a section"),
    };
    wrong.map(words).collect()
}

/// Whether a row waits by a rule, or what it returns does.
fn waits(row: &str, mode: Mode) -> bool {
    let mode = mode.to_string();
    let waits = |evidence: &Evidence| evidence.waits(row) || evidence.waits_later(row);
    evidence::rules().any(|(_, evidence)| evidence.holds(&mode) && waits(evidence))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::{Machine, Manner, Outcome};

    /// A warmed launch that waits is a failure, except where warming cannot help.
    #[test]
    fn only_what_can_be_prevented_is_a_problem() {
        let machine = Machine { gpu: String::new(), arch: String::new(), driver: None, cuda: String::new() };
        let mut recording = Recording::new(machine, String::new(), Manner::Warmed);
        let rows = row::all();
        let rows: Vec<_> =
            rows.iter().filter(|row| ["frame/2k", "device/full"].contains(&&*row.name)).collect();
        assert_eq!(rows.len(), 2);
        for (name, verdict) in [("frame/2k", Verdict::Runs), ("device/full", Verdict::Blocks)] {
            let outcome = Outcome { verdict, ..Outcome::ERROR };
            recording.rows.push(Tried { row: name.into(), mode: Mode::Lazy, outcome });
        }
        assert!(unprevented(&recording, &rows).is_empty());
        recording.rows[0].outcome.verdict = Verdict::Blocks;
        assert_eq!(unprevented(&recording, &rows), ["lazy frame/2k: blocks after warming"]);
    }

    /// A section prevents waiting, and nothing else.
    #[test]
    fn what_waits_by_a_rule_may_be_refused() {
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
        let rows = row::all();
        assert_eq!(
            unguarded(&recording, &rows.iter().collect::<Vec<_>>()),
            [
                "lazy host/cuMemFree_pooled: deferred, and does not wait",
                "lazy host/cuLibraryLoadData: refused, and does not wait",
                "lazy host/cuCtxSynchronize: blocks in a section",
            ]
        );
    }
}
