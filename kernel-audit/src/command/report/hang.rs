//! Completes the lines on a hang from all that is in the record: since when a kernel runs beside the call, who uses that kernel, and the
//! commands that end the hang without a change to the program.

use std::fmt::Write as _;

use kernel_registry_command::many;

use crate::causes::is_preloadable;
use crate::command::how_run::HowRun;
use crate::command::process::Process;
use crate::command::report::streams;
use crate::command::report::words::{brief, caller};
use crate::hang::{Hanging, Lines};
use crate::record::{Event, Kind, Report, Running, Work};
use crate::wrapped::wrapped_for_terminal;

/// Returns the lines on a hang.
pub(crate) fn lines(process: &Process, hang: &Event, run: &HowRun) -> Lines {
    let report = &process.report;
    let mut lines = hanging(process, hang).lines(|running| beginning(report, hang, running));
    lines.place = match &*hang.caller {
        "" => format!("{}, thread {}", process.name, hang.thread),
        by => caller(by),
    };
    for words in lines.beside.iter_mut().chain([&mut lines.called, &mut lines.why]) {
        *words = with_brief_names(words);
    }
    lines.cures.retain(|cure| !cure.is_empty());
    if hang.explanation.is_none() {
        // The record had no room for what the process knew.
        (lines.beside, lines.why) = (Vec::new(), String::new());
    }
    if is_preloadable(hang) {
        if let Some(in_code) = lines.cures.first_mut() {
            *in_code = format!("or in the program: {in_code}");
        }
        lines.cures.insert(0, run.cure(report, true).to_string());
    } else if let Some(look) = run.look(report) {
        lines.cures.push(look);
    }
    lines
}

/// Returns what is known of a hang besides its lines, in sentences.
pub(crate) fn details(process: &Process, hang: &Event) -> Vec<String> {
    hanging(process, hang).details()
}

/// Returns what prevents a hang by a change to the program, or nothing.
pub(crate) fn cure(process: &Process, hang: &Event) -> String {
    hanging(process, hang).cure()
}

fn hanging<'a>(process: &Process, hang: &'a Event) -> Hanging<'a> {
    Hanging::new(hang, process.report.uses_kernel_registry)
}

/// Returns the lines on a hang, then the details, and the beginning of the thread's stack.
pub(crate) fn in_words(process: &Process, hang: &Event, run: &HowRun) -> String {
    const FRAMES: usize = 5;
    let mut words = lines(process, hang, run).to_string();
    // Writing to a `String` does not fail.
    for detail in details(process, hang) {
        let _ = writeln!(words, "{}", wrapped_for_terminal(&format!("  {}", with_brief_names(&detail))));
    }
    let mut stack = hang.stack.lines();
    for frame in stack.by_ref().take(FRAMES) {
        let _ = writeln!(words, "    at {frame}");
    }
    match stack.count() {
        0 => {}
        more => {
            let _ = writeln!(words, "    and {}; `--json` has all", many(more, "more frame"));
        }
    }
    words
}

/// Returns when the work in a stream began, and who loaded its kernel: `, launched about 0.3 s before the call, loaded by tp.py:17 rank_main`.
fn beginning(report: &Report, hang: &Event, running: &Running) -> String {
    const SAMPLE: u64 = 60_000_000;
    let Work::Kernel { symbol } = &running.what else { return String::new() };
    let mut words = String::new();
    let latest = hang.begun.saturating_add(SAMPLE);
    if let Some(at) = streams::last_launch(report, running.stream, latest) {
        words += &format!(", launched {} before the call", since(hang.begun.saturating_sub(at)));
    }
    let mut loads =
        report.events.iter().filter(|event| event.kind == Kind::Load && event.begun <= hang.begun);
    if let Some(load) = loads.find(|load| load.subject.kernel() == Some(symbol) && !load.caller.is_empty()) {
        words += &format!(", loaded by {}", caller(&load.caller));
    }
    words
}

/// Writes the time between two events that were only seen by looking every 50 ms: neither is known better than that.
fn since(nanoseconds: u64) -> String {
    match nanoseconds / 100_000_000 {
        0 => "less than 0.1 s".to_owned(),
        tenths => format!("about {:.1} s", tenths as f64 / 10.0),
    }
}

/// Returns a text with the kernels' names in it, which are between backticks, as short as people read them.
fn with_brief_names(text: &str) -> String {
    let parts: Vec<_> = text.split('`').map(brief).collect();
    parts.join("`")
}

#[cfg(test)]
mod tests {
    use crate::record::{Activity, Explanation, Subject};
    use crate::rules;

    use super::*;
    use crate::command::process::with_names;

    fn lines_of(run: &HowRun) -> Lines {
        let mut load = Event::default();
        (load.subject, load.caller) = (Subject::of_kernel("_Z4spinPj"), "tp.py:17 rank_main".into());
        let mut hang = Event::default();
        (hang.kind, hang.begun, hang.took) = (Kind::Hang, 500_000_000, 5_000_000_000);
        (hang.caller, hang.rule) = ("tp.py:21 rank_main".into(), rules::LOAD.name.into());
        (hang.call, hang.subject) = ("cuLaunchKernel".into(), Subject::of_kernel("_Z4latei"));
        let what = Work::Kernel { symbol: "_Z4spinPj".into() };
        let busy = Some(vec![Running { stream: 0x20, what, ..Running::default() }]);
        let rules = vec![rules::LOAD.name.into()];
        hang.explanation =
            Some(Box::new(Explanation { rules, busy, is_loaded: true, ..Explanation::none() }));
        let mut sample = Activity::default();
        (sample.at, sample.stream, sample.launches) = (400_000_000, 0x20, 1);
        let mut report = Report::default();
        (report.activity, report.command) = (vec![sample], "python3 tp.py".to_owned());
        report.events = vec![load, hang];
        let process = with_names(vec![report]).remove(0);
        lines(&process, &process.report.events[1], run)
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
                "`spin(unsigned int*)` runs in stream 0x20, launched about 0.1 s before the call, loaded by tp.py:17 rank_main"
            ]
        );
        assert_eq!(lines.cures.len(), 2, "{lines}");
        let commands: Vec<_> = lines.cures[0].lines().skip(1).collect();
        assert_eq!(
            commands,
            [
                "  kernel-audit --on-hang abort --record late.preload python3 tp.py",
                "  kernel-audit --preload late.preload python3 tp.py",
                "if that hangs, record again: add `--on-hang abort --record late.preload`"
            ]
        );
        let in_code = rules::LOAD.remedy_for(rules::Reader::Python);
        assert_eq!(lines.cures[1], format!("or in the program: {in_code}"));
    }

    #[test]
    fn a_call_that_waits_for_a_kernel_leads_to_a_look_at_the_gpu() {
        let mut hang = Event::default();
        (hang.kind, hang.call) = (Kind::Hang, "cuStreamSynchronize".into());
        hang.explanation = Some(Box::new(Explanation::none()));
        let mut report = Report::default();
        (report.process, report.events) = (4711, vec![hang]);
        let process = with_names(vec![report]).remove(0);
        let cures = |tool: &str| {
            let run = HowRun { tool: tool.into(), ..HowRun::default() };
            lines(&process, &process.report.events[0], &run).cures
        };
        let look = "to see at which line the GPU is, while this hangs: kernel-audit dump 4711";
        assert_eq!(cures("kernel-audit --hang-after 9"), [look]);
        assert!(cures("kernel-audit --sim").is_empty());
    }

    #[test]
    fn a_run_that_records_is_not_recorded_again() {
        let run =
            HowRun { tool: "kernel-audit".into(), record: Some("x.preload".into()), ..HowRun::default() };
        let commands: Vec<_> = lines_of(&run).cures[0].lines().skip(1).map(str::to_owned).collect();
        assert_eq!(commands[0], "  kernel-audit --preload x.preload python3 tp.py");
        assert_eq!(commands.len(), 2, "and what to do if that hangs");
    }
}
