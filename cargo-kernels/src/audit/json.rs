//! The report for programs: docs/audit-json.md.

use kernel_registry_audit::record;
use serde::Serialize;

use super::comparison::{Compared, Loads, compared};
use super::groups::{self, Group};
use super::process::{Audit, Process};
use super::words::{Readable, milliseconds};

const SCHEMA: u32 = 1;

#[derive(Serialize)]
struct Report<'a> {
    schema: u32,
    findings: usize,
    causes: Vec<WithRemedy>,
    processes: Vec<Of<'a>>,
    left_out: &'a [String],
    kernels: Vec<Kernel<'a>>,
    libraries: Vec<Sum<'a>>,
    callers: Vec<Sum<'a>>,
}

#[derive(Serialize)]
struct WithRemedy {
    cause: String,
    remedy: Option<&'static str>,
    findings: usize,
}

#[derive(Serialize)]
struct Of<'a> {
    process: u32,
    name: &'a str,
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
    texts_dropped: u64,
    unwatched_threads: u64,
    unsampled_launches: u64,
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
    resident: &'a str,
    rule: &'a str,
    remedy: &'a str,
    library: &'a str,
    caller: &'a str,
    text: &'a str,
}

#[derive(Serialize)]
struct Kernel<'a> {
    symbol: &'a str,
    signature: String,
    loads: Vec<Load<'a>>,
}

#[derive(Serialize)]
struct Load<'a> {
    process: &'a str,
    at_ms: f64,
    took_ms: f64,
    times: usize,
    after_ready: usize,
}

#[derive(Serialize)]
struct Sum<'a> {
    caller: &'a str,
    times: usize,
    total_ms: f64,
    longest_ms: f64,
    after_ready: usize,
}

pub(super) fn text(audit: &Audit) -> String {
    let report = Report {
        schema: SCHEMA,
        findings: audit.findings(),
        causes: audit
            .causes()
            .into_iter()
            .map(|cause| WithRemedy {
                cause: cause.to_string(),
                remedy: cause.remedy(),
                findings: cause.count(),
            })
            .collect(),
        processes: audit.processes.iter().map(process).collect(),
        left_out: &audit.left_out,
        kernels: compared(audit).into_iter().map(|compared| kernel(audit, compared)).collect(),
        libraries: groups::libraries(audit.events()).iter().map(sum).collect(),
        callers: groups::callers(audit.events()).iter().map(sum).collect(),
    };
    let mut text = serde_json::to_string_pretty(&report).unwrap_or_default();
    text.push('\n');
    text
}

fn process(process: &Process) -> Of<'_> {
    let report = &process.report;
    Of {
        process: report.process,
        name: &process.name,
        rank: process.rank,
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
        texts_dropped: report.texts_dropped,
        unwatched_threads: report.unwatched_threads,
        unsampled_launches: report.unsampled_launches,
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

fn event(event: &record::Event) -> Event<'_> {
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
        resident: &event.resident,
        rule: &event.rule,
        remedy: &event.remedy,
        library: &event.library,
        caller: &event.caller,
        text: &event.text,
    }
}

fn kernel<'a>(audit: &'a Audit, Compared { kernel, loads }: Compared<'a>) -> Kernel<'a> {
    let load = |Loads { process, at, took, times, late }: Loads| Load {
        process: &audit.processes[process].name,
        at_ms: milliseconds(at),
        took_ms: milliseconds(took),
        times,
        after_ready: late,
    };
    Kernel {
        symbol: kernel,
        signature: Readable(kernel).to_string(),
        loads: loads.into_iter().map(load).collect(),
    }
}

fn sum<'a>(&Group { of, times, total, longest, late }: &Group<'a>) -> Sum<'a> {
    let (total_ms, longest_ms) = (milliseconds(total), milliseconds(longest));
    Sum { caller: of, times, total_ms, longest_ms, after_ready: late }
}
