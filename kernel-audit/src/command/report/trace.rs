//! Writes the timeline in the Trace Event format, which Perfetto and chrome://tracing open. Times are in microseconds
//! since the first process began.

use kernel_registry_image::readable;
use serde::Serialize;
use serde_json::{Value, json};

use crate::command::process::{Audit, Process, is_late};
use crate::command::report::streams;
use crate::command::report::stretches;
use crate::command::report::words::{short, subject};
use crate::record::{Event, Kind, Subject};

/// The first track number of streams. Linux gives no thread so high a number.
const FIRST_STREAM: usize = 1 << 23;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Trace {
    display_time_unit: &'static str,
    trace_events: Vec<Value>,
}

pub(crate) fn text(audit: &Audit) -> String {
    let trace_events = audit.processes.iter().enumerate().flat_map(process).collect();
    let trace = Trace { display_time_unit: "ms", trace_events };
    serde_json::to_string(&trace).unwrap_or_default()
}

fn process((index, process): (usize, &Process)) -> Vec<Value> {
    let pid = process.number;
    let name = format!("{}: {}", process.name, short(process.report.known_command()));
    let thread_name = |thread: usize, name: String| json!({ "ph": "M", "name": "thread_name", "pid": pid, "tid": thread, "args": { "name": name } });
    let mut events = vec![
        json!({ "ph": "M", "name": "process_name", "pid": pid, "args": { "name": name } }),
        json!({ "ph": "M", "name": "process_sort_index", "pid": pid, "args": { "sort_index": index } }),
    ];
    let mut threads: Vec<_> = process.report.events.iter().map(|event| event.thread).collect();
    threads.sort_unstable();
    threads.dedup();
    let named = threads.into_iter().map(|thread| thread_name(thread as usize, format!("thread {thread}")));
    events.extend(named);
    if let Some(ready) = process.ready_at() {
        // The mark is for the whole process.
        events.push(json!({ "ph": "i", "name": "ready", "cat": "ready", "s": "p", "pid": pid, "tid": pid, "ts": microseconds(ready) }));
    }
    events.extend(stretches::marks(process));
    for (index, (stream, samples)) in streams::launches(process).into_iter().enumerate() {
        let tid = FIRST_STREAM + index;
        events.push(thread_name(tid, streams::name(stream)));
        events.extend(samples.iter().map(|sample| {
            json!({
                "ph": "X",
                "name": match sample.kernel { "" => "launches".to_owned(), kernel => readable(kernel) },
                "cat": "launches",
                "pid": pid,
                "tid": tid,
                "ts": microseconds(process.on_axis(sample.from)),
                "dur": microseconds(sample.to - sample.from),
                "args": { "launches": sample.count },
            })
        }));
    }
    for (id, event) in process.report.events.iter().enumerate() {
        match event.kind {
            Kind::Unwatched => {}
            Kind::Hang => events.extend(hang(process, event, id)),
            _ => events.push(complete(process, event)),
        }
    }
    events
}

fn complete(process: &Process, event: &Event) -> Value {
    json!({
        "ph": "X",
        "name": name(event),
        "cat": event.kind.as_str(),
        "pid": process.number,
        "tid": event.thread,
        "ts": microseconds(process.on_axis(event.begun)),
        "dur": microseconds(event.took),
        "args": args(event),
    })
}

/// Returns the two events of a hang, on a track of its own. On its thread's track the hang could overlap the event of
/// the same call, once that has returned.
fn hang(process: &Process, event: &Event, id: usize) -> [Value; 2] {
    let begun = process.on_axis(event.begun);
    let name = format!("HANG: {}", name(event));
    let (pid, tid, cat) = (process.number, event.thread, event.kind.as_str());
    let id = format!("{pid}-{id}");
    [
        json!({ "ph": "b", "name": name, "cat": cat, "id": id, "pid": pid, "tid": tid, "ts": microseconds(begun), "args": args(event) }),
        json!({ "ph": "e", "name": name, "cat": cat, "id": id, "pid": pid, "tid": tid, "ts": microseconds(begun.saturating_add(event.took)) }),
    ]
}

/// Returns the kernel's name, or else the call's.
fn name(event: &Event) -> String {
    match &event.subject {
        Subject::Nothing => event.call.to_string(),
        Subject::Kernel { symbol, .. } => readable(symbol),
        _ => format!("{} ({})", event.call, subject(event)),
    }
}

fn args(event: &Event) -> Value {
    json!({
        "call": &*event.call,
        "subject": &event.subject,
        "caller": &*event.caller,
        "stream": format!("{:#x}", event.stream),
        "context": format!("{:#x}", event.context),
        "result": event.result,
        "after_ready": is_late(event),
        "resident": &*event.resident,
        "stack": &*event.stack,
        "explanation": &*event.words,
    })
}

fn microseconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e3
}
