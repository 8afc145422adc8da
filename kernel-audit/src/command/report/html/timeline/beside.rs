//! Finds what stands beside a hang in the timeline: the kernels that run meanwhile, and the threads that are in other calls.

use std::collections::{BTreeMap, HashSet};

use crate::command::process::Process;
use crate::command::report::streams;
use crate::command::report::words::brief;
use crate::hang::Lines;
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
        let (lines, details) = Lines::parse(&hang.text);
        let to = hang.begun.saturating_add(hang.took);
        for words in &lines.beside {
            let Some(stream) = streams::in_words(words) else { continue };
            let from = streams::last_launch(&process.report, stream, to).unwrap_or(hang.begun);
            let title = words.split('`').map(brief).collect::<Vec<_>>().join("`");
            found.streams.entry(stream).or_default().push(Mark { from, to, class: "resident", title });
        }
        for words in details {
            let Some((thread, call)) = other_thread(words) else { continue };
            // A thread whose own call hangs has an event.
            if !hanging.contains(&thread) {
                let title = format!("in {call} while `{}` does not return", hang.call);
                let mark = Mark { from: hang.begun, to, class: "hang", title };
                found.threads.entry(thread).or_default().push(mark);
            }
        }
    }
    found
}

/// Reads `Thread 7 is in `cuStreamSynchronize` meanwhile.`
fn other_thread(words: &str) -> Option<(u32, &str)> {
    let (thread, call) = words.strip_prefix("Thread ")?.split_once(" is in ")?;
    Some((thread.parse().ok()?, call.strip_suffix(" meanwhile.")?))
}

#[cfg(test)]
mod tests {
    use crate::command::process::with_names;
    use crate::record::{Activity, Event, Report};

    use super::*;

    #[test]
    fn what_runs_and_who_waits_beside_a_hang_is_drawn() {
        let mut hang = Event::default();
        (hang.kind, hang.begun, hang.took, hang.thread) = (Kind::Hang, 500, 1000, 1);
        hang.text = "where: x\ncalls: `a`\nbeside: `_Z4spini` runs in stream 0x20\nwhy: w\ncure: c\n\
                     Thread 1 is in `cuCtxSynchronize` meanwhile.\nThread 7 is in `cuMemAlloc` meanwhile."
            .into();
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
