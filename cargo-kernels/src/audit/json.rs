//! The report for programs: docs/audit-json.md.

use kernel_registry_audit::record::{Happened, Report};
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
    command: &'a str,
    ended: bool,
    ready_ms: Option<f64>,
    launches: u64,
    calls: u64,
    events: Vec<Event<'a>>,
    events_dropped: u64,
}

#[derive(Serialize)]
struct Event<'a> {
    kind: &'static str,
    finding: bool,
    at_ms: f64,
    took_ms: f64,
    thread: u32,
    stream: u64,
    result: u32,
    call: &'a str,
    subject: &'a str,
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
        command: &report.command,
        ended: report.ended,
        ready_ms: report.ready.map(milliseconds),
        launches: report.launches,
        calls: report.calls,
        events: report.events.iter().map(event).collect(),
        events_dropped: report.dropped,
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
        result: event.result,
        call: &event.call,
        subject: &event.subject,
        caller: &event.caller,
        text: &event.text,
    }
}

fn milliseconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e6
}
