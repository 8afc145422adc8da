//! Groups samples of launches by stream.

use std::collections::BTreeMap;

use crate::command::process::Process;
use crate::record::{Activity, Report};

/// Launches in a stream between two times, in nanoseconds.
#[derive(Clone, Copy)]
pub(crate) struct Launches<'a> {
    pub(crate) from: u64,
    pub(crate) to: u64,
    pub(crate) count: u64,
    /// The kernel that was launched last.
    pub(crate) kernel: &'a str,
}

/// The longest time that a sample covers, in nanoseconds.
const SAMPLE: u64 = 50_000_000;

/// Returns the samples of a process by stream.
pub(crate) fn launches(process: &Process) -> BTreeMap<u64, Vec<Launches<'_>>> {
    let mut streams = BTreeMap::<u64, Vec<Launches<'_>>>::new();
    for Activity { at, stream, launches, kernel, .. } in &process.report.activity {
        let samples = streams.entry(*stream).or_default();
        let before = samples.last().map_or(0, |sample| sample.to);
        let from = at.saturating_sub(SAMPLE).max(before).min(*at);
        samples.push(Launches { from, to: *at, count: u64::from(*launches), kernel });
    }
    streams
}

/// Returns the name of a stream, such as `stream 0x2000`.
pub(crate) fn name(stream: u64) -> String {
    if stream == 0 { "default stream".to_owned() } else { format!("stream {stream:#x}") }
}

/// Returns when launches in a stream were counted last before a time.
pub(crate) fn last_launch(report: &Report, stream: u64, before: u64) -> Option<u64> {
    let mut samples = report.activity.iter().rev();
    samples.find(|sample| sample.stream == stream && sample.at <= before).map(|sample| sample.at)
}
