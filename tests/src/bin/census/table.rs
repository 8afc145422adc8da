//! Formats the census's output as text.

use crate::recording::{Mode, Recording, Tried, Verdict};
use crate::row::{Row, Subject};

/// Returns the line for a result, with the reason if warming can't help.
pub(crate) fn line(tried: &Tried, remains: Option<&str>) -> String {
    let Tried { row, mode, outcome } = tried;
    // `done_ms` is the time of the whole attempt; if no kernel was launched, that's `host_ms`.
    let time = outcome.done_ms.or(outcome.host_ms).map_or(String::new(), |ms| format!("{ms:.3} ms"));
    let why = match (outcome.verdict, remains) {
        (Verdict::Blocks, Some(why)) => format!("  ({why})"),
        _ => String::new(),
    };
    format!("{mode:<5}  {row:<40}  {outcome:<6}  {time:>12}{why}").trim_end().to_owned()
}

/// Returns the line for a row in the list, with the effect of warming.
pub(crate) fn listed(row: &Row) -> String {
    let warming = match (row.subject, row.remains) {
        _ if row.refused => "a call of the host that the driver refuses".into(),
        (Subject::HostCall, _) => "a call of the host, which warming does not affect".into(),
        (_, None) => "must run after warming".into(),
        (_, Some(why)) => format!("warming cannot help: {why}"),
    };
    format!("{:<40}  {warming}", row.name)
}

/// Counts the results by mode.
pub(crate) fn summary(recording: &Recording) -> String {
    let modes = [Mode::Lazy, Mode::Eager].into_iter().filter_map(|mode| {
        let verdicts: Vec<_> = recording.rows.iter().filter(|tried| tried.mode == mode).collect();
        let count = |verdict| verdicts.iter().filter(|tried| tried.outcome.verdict == verdict).count();
        let (blocks, fails) = (count(Verdict::Blocks), count(Verdict::Error));
        let guarded = match recording.guarded {
            true => {
                format!(", {} are refused, {} deferred", count(Verdict::Refused), count(Verdict::Deferred))
            }
            false => String::new(),
        };
        let lacking = match count(Verdict::Lacking) {
            0 => String::new(),
            count => format!(", {count} are not simulated"),
        };
        (!verdicts.is_empty()).then(|| {
            format!("{mode}: {blocks} of {} block{guarded}{lacking}, and {fails} failed", verdicts.len())
        })
    });
    modes.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::{Machine, Manner, Outcome};

    fn tried(mode: Mode, outcome: Outcome) -> Tried {
        Tried { row: "a/b".into(), mode, outcome }
    }

    #[test]
    fn lines_show_verdict_time_and_reason() {
        let blocks = Outcome {
            verdict: Verdict::Blocks,
            host_ms: Some(0.5),
            done_ms: Some(1000.25),
            ..Outcome::ERROR
        };
        let runs = Outcome { verdict: Verdict::Runs, host_ms: Some(0.004), ..Outcome::ERROR };
        let wide = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(wide(&line(&tried(Mode::Lazy, blocks.clone()), None)), "lazy a/b blocks 1000.250 ms");
        assert_eq!(wide(&line(&tried(Mode::Eager, runs.clone()), Some("why"))), "eager a/b runs 0.004 ms");
        assert_eq!(
            wide(&line(&tried(Mode::Eager, blocks), Some("why"))),
            "eager a/b blocks 1000.250 ms (why)"
        );
    }

    #[test]
    fn each_mode_is_counted() {
        let machine = Machine { gpu: String::new(), arch: String::new(), driver: None, cuda: String::new() };
        let mut recording = Recording::new(machine, String::new(), Manner::Cold);
        assert_eq!(summary(&recording), "");
        let runs = Outcome { verdict: Verdict::Runs, ..Outcome::ERROR };
        let blocks = Outcome { verdict: Verdict::Blocks, ..Outcome::ERROR };
        recording.rows =
            vec![tried(Mode::Lazy, runs), tried(Mode::Lazy, blocks), tried(Mode::Eager, Outcome::ERROR)];
        assert_eq!(
            summary(&recording),
            "lazy: 1 of 2 block, and 0 failed\neager: 0 of 1 block, and 1 failed"
        );
    }
}
