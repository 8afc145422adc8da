//! Finds what stands beside a hang in the timeline: the kernels that run meanwhile, and the threads that are in other calls.

use std::collections::{BTreeMap, HashSet};

use crate::command::process::Process;
use crate::command::report::streams;
use crate::command::report::words::brief;
use crate::record::Kind;

/// A stretch of a lane that no event of its own draws.
pub(super) struct Mark {
    pub(super) from: u64,
    pub(super) to: u64,
    pub(super) class: &'static str,
    pub(super) title: String,
}

/// The marks of a process, by stream and by thread.
#[derive(Default)]
pub(super) struct Beside {
    pub(super) streams: BTreeMap<u64, Vec<Mark>>,
    pub(super) threads: BTreeMap<u32, Vec<Mark>>,
}

pub(super) fn beside(process: &Process) -> Beside {
    const HANGS: usize = 50;
    let mut found = Beside::default();
    let hangs: Vec<_> = process.of_kind(Kind::Hang).collect();
    let hanging: HashSet<_> = hangs.iter().map(|hang| hang.thread).collect();
    for hang in hangs.iter().take(HANGS) {
        let Some(explanation) = &hang.explanation else { continue };
        let to = hang.begun.saturating_add(hang.took);
        for running in explanation.busy.iter().flatten().filter(|running| !running.is_own) {
            let from = streams::last_launch(&process.report, running.stream, to).unwrap_or(hang.begun);
            let words = running.to_string();
            let title = words.split('`').map(brief).collect::<Vec<_>>().join("`");
            let mark = Mark { from, to, class: "resident", title };
            found.streams.entry(running.stream).or_default().push(mark);
        }
        // A thread whose own call hangs has an event.
        for other in explanation.threads.iter().filter(|other| !hanging.contains(&other.thread)) {
            let title = format!("in `{}` while `{}` does not return", other.call, hang.call);
            let mark = Mark { from: hang.begun, to, class: "hang", title };
            found.threads.entry(other.thread).or_default().push(mark);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use crate::command::process::with_names;
    use crate::record::{Activity, Event, Explanation, Report, Running, ThreadInCall, Work};

    use super::*;

    #[test]
    fn what_runs_and_who_waits_beside_a_hang_is_drawn() {
        let mut hang = Event::default();
        (hang.kind, hang.begun, hang.took, hang.thread) = (Kind::Hang, 500, 1000, 1);
        let what = Work::Kernel { symbol: "_Z4spini".into() };
        let in_call = |thread, call: &str| ThreadInCall { thread, call: call.into() };
        hang.explanation = Some(Box::new(Explanation {
            busy: Some(vec![Running { stream: 0x20, what, ..Running::default() }]),
            threads: vec![in_call(1, "cuCtxSynchronize"), in_call(7, "cuMemAlloc")],
            ..Explanation::none()
        }));
        let mut sample = Activity::default();
        (sample.at, sample.stream) = (400, 0x20);
        let mut report = Report::default();
        (report.events, report.activity) = (vec![hang], vec![sample]);
        let found = beside(&with_names(vec![report])[0]);
        let mark = &found.streams[&0x20][0];
        assert_eq!((mark.from, mark.to, &*mark.title), (400, 1500, "`spin(int)` runs in stream 0x20"));
        assert_eq!(found.threads.keys().collect::<Vec<_>>(), [&7]);
    }
}
