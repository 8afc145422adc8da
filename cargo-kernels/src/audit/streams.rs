//! Launches by stream, from samples.

use std::collections::BTreeMap;

use kernel_registry_audit::record::Activity;

use super::process::Process;

/// Launches in a stream between two times, in nanoseconds.
#[derive(Clone, Copy)]
pub(super) struct Launches<'a> {
    pub(super) from: u64,
    pub(super) to: u64,
    pub(super) count: u64,
    /// The kernel that was launched last.
    pub(super) kernel: &'a str,
}

/// How long a sample counts at most.
const SAMPLE: u64 = 50_000_000;

/// The samples of a process by stream.
pub(super) fn launches(process: &Process) -> BTreeMap<u64, Vec<Launches<'_>>> {
    let mut streams = BTreeMap::<u64, Vec<Launches<'_>>>::new();
    for Activity { at, stream, launches, kernel, .. } in &process.report.activity {
        let samples = streams.entry(*stream).or_default();
        let before = samples.last().map_or(0, |sample| sample.to);
        let from = at.saturating_sub(SAMPLE).max(before).min(*at);
        samples.push(Launches { from, to: *at, count: u64::from(*launches), kernel });
    }
    streams
}

/// `stream 0x2000`
pub(super) fn name(stream: u64) -> String {
    if stream == 0 { "default stream".to_owned() } else { format!("stream {stream:#x}") }
}
