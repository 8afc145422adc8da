//! The report for programs: docs/audit-json.md.

use kernel_registry_audit::record::{self, Happened, Report};
use serde::Serialize;

const SCHEMA: u32 = 1;

#[derive(Serialize)]
struct Audit<'a> {
    schema: u32,
    processes: Vec<Process<'a>>,
}

#[derive(Serialize)]
struct Process<'a> {
    process: u32,
    rank: Option<u32>,
    command: &'a str,
    started_unix_ms: f64,
    ended: bool,
    ready_ms: Option<f64>,
    launches: u64,
    calls: u64,
    events: Vec<Event<'a>>,
    events_dropped: u64,
    activity: Vec<Activity<'a>>,
    activity_dropped: u64,
}

#[derive(Serialize)]
struct Activity<'a> {
    at_ms: f64,
    stream: u64,
    launches: u32,
    kernel: &'a str,
}

#[derive(Serialize)]
struct Event<'a> {
    kind: &'static str,
    finding: bool,
    at_ms: f64,
    took_ms: f64,
    thread: u32,
    stream: u64,
    context: u64,
    bytes: u64,
    result: u32,
    call: &'a str,
    subject: &'a str,
    image: &'a str,
    caller: &'a str,
    text: &'a str,
}

pub(super) fn text(reports: &[Report]) -> String {
    let processes = reports.iter().map(process).collect();
    let mut text = serde_json::to_string_pretty(&Audit { schema: SCHEMA, processes }).unwrap_or_default();
    text.push('\n');
    text
}

fn process(report: &Report) -> Process<'_> {
    Process {
        process: report.process,
        rank: report.rank,
        command: &report.command,
        started_unix_ms: milliseconds(report.started),
        ended: report.ended,
        ready_ms: report.ready.map(milliseconds),
        launches: report.launches,
        calls: report.calls,
        events: report.events.iter().map(event).collect(),
        events_dropped: report.dropped,
        activity: report.activity.iter().map(activity).collect(),
        activity_dropped: report.activity_dropped,
    }
}

fn activity(sample: &record::Activity) -> Activity<'_> {
    Activity {
        at_ms: milliseconds(sample.at),
        stream: sample.stream,
        launches: sample.launches,
        kernel: &sample.kernel,
    }
}

fn event(event: &Happened) -> Event<'_> {
    Event {
        kind: event.kind.as_str(),
        finding: event.is_finding,
        at_ms: milliseconds(event.begun),
        took_ms: milliseconds(event.took),
        thread: event.thread,
        stream: event.stream,
        context: event.context,
        bytes: event.bytes,
        result: event.result,
        call: &event.call,
        subject: &event.subject,
        image: &event.image,
        caller: &event.caller,
        text: &event.text,
    }
}

fn milliseconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e6
}
