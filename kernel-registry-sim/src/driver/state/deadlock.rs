//! Waits for a device, and reports deadlocks, where NVIDIA's driver would hang. The report says which calls and streams
//! wait for which work.

use std::process;
use std::thread;
use std::time::Duration;

use super::State;
use super::current::CurrentContext;
use super::explore::hosts;
use super::simulator::Locked;
use crate::driver::clock;
use crate::driver::config::Deadlock;
use crate::driver::handles::Handle;
use crate::driver::report::failures::{report, report_at_once};
use crate::driver::result::{Answer, Code};
use crate::driver::stream::order::Streams;
use crate::driver::stream::queue::{Doing, Stream, Work};
use crate::driver::wait::{Seq, WaitReason, Waiting};
use crate::driver::watched;

/// How long, in simulated time, nothing may make progress before the wait counts as a deadlock. Another host thread may
/// be about to end the wait.
const TIMEOUT: Duration = Duration::from_millis(200);

/// Waits until all work is done that now occupies a device.
pub(crate) fn wait_for_device(
    state: Locked,
    device: usize,
    call: &'static str,
    because: WaitReason,
) -> Answer<Locked> {
    let until = state.streams.last;
    wait_until(state, device, until, call, because)
}

/// Waits until all work is done that occupies a device and was submitted up to the position `until`.
pub(crate) fn wait_until(
    mut state: Locked,
    device: usize,
    until: Seq,
    call: &'static str,
    because: WaitReason,
) -> Answer<Locked> {
    if !state.streams.is_busy(device, until) {
        state.host_saw_all(|stream| stream.device == device);
        return Ok(state);
    }
    let id = state.id();
    let current = thread::current();
    let thread = current.name().map_or_else(|| format!("{:?}", current.id()), |name| format!("`{name}`"));
    let context = CurrentContext::peek().map(|current| current.context);
    let waiting = Waiting { call, thread, context, device, until, because, reported: false, gave_up: None };
    state.waiting.insert(id, waiting);
    watched::set(watched::WAITING, true);
    state = hosts::wait_until(state, move |state| {
        let gave_up = state.waiting.get(&id).is_none_or(|waiting| waiting.gave_up.is_some());
        gave_up || !state.streams.is_busy(device, until)
    });
    let waiting = state.waiting.remove(&id);
    watched::set(watched::WAITING, !state.waiting.is_empty());
    let Some(words) = waiting.and_then(|waiting| waiting.gave_up) else {
        state.host_saw_all(|stream| stream.device == device);
        return Ok(state);
    };
    drop(state);
    report(&words);
    Err(Code::LAUNCH_TIMEOUT)
}

/// Looks for calls and launches that wait for work without progress, and reports each of them once.
pub(crate) fn report_deadlocks(state: &mut State) {
    let mut found = Vec::new();
    for (id, waiting) in state.waiting.iter().filter(|(_, waiting)| !waiting.reported) {
        if let Some(reasons) = describe_stuck(&state.streams, waiting.device, waiting.until) {
            let Waiting { call, thread, because, .. } = waiting;
            found.push((
                Who::Call(*id),
                format!("{call}, in thread {thread}, waits: {because}. But {reasons}"),
            ));
        }
    }
    for (handle, stream) in state.streams.iter() {
        let Some(item) = stream.queue.front() else { continue };
        let (Work::Launch(launch), Some(behind)) = (&item.work, item.behind) else { continue };
        if behind.reported || !matches!(item.state, Doing::Waiting) {
            continue;
        }
        if let Some(reasons) = describe_stuck(&state.streams, stream.device, behind.until) {
            let name = launch.source_name();
            let because = behind.because;
            let words = format!("kernel `{name}` on stream {handle:#x} waits: {because}. But {reasons}");
            found.push((Who::Launch(handle), words));
        }
    }
    for (who, words) in found {
        let words = format!(
            "DEADLOCK: {words}; only another thread of the program, or a limit of time, can end that"
        );
        match state.config.deadlock {
            Deadlock::Fail => give_up(state, who, words),
            Deadlock::Explained => note(state, who),
            Deadlock::Wait => {
                report_at_once(&words);
                note(state, who);
            }
            Deadlock::Abort => {
                report_at_once(&words);
                process::abort();
            }
        }
    }
}

/// The side that waits in a deadlock: a call, or the launch at the head of a stream.
enum Who {
    Call(u64),
    Launch(Handle),
}

fn note(state: &mut State, who: Who) {
    match who {
        Who::Call(id) => {
            if let Some(waiting) = state.waiting.get_mut(&id) {
                waiting.reported = true;
            }
        }
        Who::Launch(stream) => {
            let item = state.streams.get_mut(stream).ok().and_then(|stream| stream.queue.front_mut());
            if let Some(behind) = item.and_then(|item| item.behind.as_mut()) {
                behind.reported = true;
            }
        }
    }
}

fn give_up(state: &mut State, who: Who, words: String) {
    match who {
        Who::Call(id) => {
            if let Some(waiting) = state.waiting.get_mut(&id) {
                waiting.gave_up = Some(words);
            }
            state.wakeup.notify();
        }
        Who::Launch(stream) => {
            let words = words + ". The launch is dropped, and its context fails";
            state.break_context_of(stream, Code::LAUNCH_TIMEOUT, &words);
        }
    }
}

/// Describes the work that occupies a device, if none of the work has made progress for a while.
fn describe_stuck(streams: &Streams, device: usize, until: Seq) -> Option<String> {
    let busy = streams.iter().filter(|(_, stream)| stream.device == device && stream.is_busy(until));
    let mut reasons = Vec::new();
    for (handle, stream) in busy {
        if clock::now().saturating_sub(stream.still_since) < TIMEOUT {
            return None;
        }
        reasons.push(reason(handle, stream));
    }
    // Without reasons the wait is over, and the waiting thread has not noticed yet.
    (!reasons.is_empty()).then(|| reasons.join(", and "))
}

fn reason(handle: Handle, stream: &Stream) -> String {
    match stream.queue.front().map(|item| (&item.work, &item.state)) {
        Some((Work::Launch(launch), Doing::Running(_) | Doing::Stepping)) => format!(
            "kernel `{}` runs on stream {handle:#x}, and does nothing but read the same memory again and again",
            launch.source_name()
        ),
        Some((Work::Launch(launch), Doing::Waiting)) => {
            format!("kernel `{}` on stream {handle:#x} waits itself", launch.source_name())
        }
        Some((Work::WaitValue { address, value, .. }, _)) => {
            format!("stream {handle:#x} waits until somebody writes {value} to the word at {address:#x}")
        }
        Some((Work::WaitFor { stream, .. }, _)) => {
            format!("stream {handle:#x} waits for stream {stream:#x}")
        }
        _ => format!("stream {handle:#x} does not move"),
    }
}
