//! Completes the lines on a hang from all that is in the record: since when a kernel runs beside the call, who uses that kernel, and the
//! commands that end the hang without a change to the program.

use std::fmt::Write as _;

use kernel_registry_command::many;

use crate::causes::is_preloadable;
use crate::command::how_run::HowRun;
use crate::command::process::Process;
use crate::command::report::streams;
use crate::command::report::words::{Time, brief, caller};
use crate::hang::Lines;
use crate::record::{Event, Kind, Report};
use crate::wrapped::wrapped_for_terminal;

/// Returns the lines on a hang, and the details.
pub(crate) fn lines<'e>(process: &Process, hang: &'e Event, run: &HowRun) -> (Lines, Vec<&'e str>) {
    let (mut lines, rest) = Lines::parse(&hang.text);
    if lines.called.is_empty() {
        lines.called = format!("`{}`", hang.call);
    }
    lines.place = match &*hang.caller {
        "" => format!("{}, thread {}", process.name, hang.thread),
        by => caller(by),
    };
    for beside in &mut lines.beside {
        *beside = with_brief_names(&(beside.clone() + &beginning(&process.report, hang, beside)));
    }
    (lines.called, lines.why) = (with_brief_names(&lines.called), with_brief_names(&lines.why));
    lines.cures.retain(|cure| !cure.is_empty());
    if is_preloadable(hang) {
        if let Some(in_code) = lines.cures.first_mut() {
            *in_code = format!("or in the program: {in_code}");
        }
        lines.cures.insert(0, run.cure(&process.report).to_string());
    }
    (lines, rest)
}

/// Returns the lines on a hang, then the details, and the beginning of the thread's stack.
pub(crate) fn in_words(process: &Process, hang: &Event, run: &HowRun) -> String {
    const FRAMES: usize = 5;
    let (lines, rest) = lines(process, hang, run);
    let (details, stack): (Vec<_>, Vec<_>) = rest.into_iter().partition(|line| !line.starts_with(' '));
    let mut words = lines.to_string();
    // Writing to a `String` does not fail.
    for detail in details {
        let _ = writeln!(words, "{}", wrapped_for_terminal(&format!("  {}", with_brief_names(detail))));
    }
    stack.iter().take(FRAMES).for_each(|frame| words += &format!("{frame}\n"));
    if let Some(more) = stack.len().checked_sub(FRAMES).filter(|more| *more > 0) {
        let _ = writeln!(words, "    and {}; `--json` has all", many(more, "more frame"));
    }
    words
}

/// Returns when the kernel of a stream began, and who used it first: `, launched 61.2 ms before; first used by tp.py:17 rank_main`.
fn beginning(report: &Report, hang: &Event, beside: &str) -> String {
    let mut words = String::new();
    let kernel = beside.split('`').nth(1).unwrap_or_default();
    // A wait for a word has no kernel, and a kernel whose name found no room has none either.
    if kernel.is_empty() {
        return words;
    }
    const SAMPLE: u64 = 60_000_000;
    let latest = hang.begun.saturating_add(SAMPLE);
    let launched = streams::in_words(beside).and_then(|stream| streams::last_launch(report, stream, latest));
    if let Some(at) = launched {
        // A sample is taken some time after the launch.
        words += &match hang.begun.checked_sub(at) {
            Some(before) => format!(", launched {} before", Time(before)),
            None => ", launched just before".to_owned(),
        };
    }
    let mut loads =
        report.events.iter().filter(|event| event.kind == Kind::Load && event.begun <= hang.begun);
    if let Some(load) = loads.find(|load| *load.subject == *kernel && !load.caller.is_empty()) {
        words += &format!(", first used by {}", caller(&load.caller));
    }
    words
}

/// Returns a text with the kernels' names in it, which are between backticks, as short as people read them.
fn with_brief_names(text: &str) -> String {
    let parts: Vec<_> = text.split('`').map(brief).collect();
    parts.join("`")
}

#[cfg(test)]
mod tests {
    use crate::record::Activity;
    use crate::rules;

    use super::*;
    use crate::command::process::with_names;

    fn lines_of(run: &HowRun) -> Lines {
        let mut load = Event::default();
        (load.subject, load.caller) = ("_Z4spinPj".into(), "tp.py:17 rank_main".into());
        let mut hang = Event::default();
        (hang.kind, hang.begun, hang.took) = (Kind::Hang, 500_000_000, 5_000_000_000);
        (hang.caller, hang.rule) = ("tp.py:21 rank_main".into(), rules::LOAD.name.into());
        hang.text = "where: x\ncalls: `cuLaunchKernel` for `_Z4latei`\nbeside: `_Z4spinPj` runs in stream 0x20\nwhy: w\ncure: c".into();
        let mut sample = Activity::default();
        (sample.at, sample.stream, sample.launches) = (400_000_000, 0x20, 1);
        let mut report = Report::default();
        (report.activity, report.command) = (vec![sample], "python3 tp.py".to_owned());
        report.events = vec![load, hang];
        let process = with_names(vec![report]).remove(0);
        lines(&process, &process.report.events[1], run).0
    }

    #[test]
    fn lines_name_the_user_and_the_beginning() {
        let run = HowRun { tool: "kernel-audit".into(), ..HowRun::default() };
        let lines = lines_of(&run);
        assert_eq!(lines.place, "tp.py:21 rank_main");
        assert_eq!(lines.called, "`cuLaunchKernel` for `late(int)`");
        assert_eq!(
            lines.beside,
            [
                "`spin(unsigned int*)` runs in stream 0x20, launched 100.0 ms before, first used by tp.py:17 rank_main"
            ]
        );
        assert_eq!(lines.cures.len(), 2, "{lines}");
        let commands: Vec<_> = lines.cures[0].lines().skip(1).collect();
        assert_eq!(
            commands,
            [
                "  kernel-audit --record late.preload python3 tp.py",
                "  kernel-audit --preload late.preload python3 tp.py"
            ]
        );
        assert_eq!(lines.cures[1], "or in the program: c");
    }

    #[test]
    fn a_run_that_records_is_not_recorded_again() {
        let run =
            HowRun { tool: "kernel-audit".into(), record: Some("x.preload".into()), ..HowRun::default() };
        assert_eq!(lines_of(&run).cures[0].matches("--record").count(), 0);
    }
}
