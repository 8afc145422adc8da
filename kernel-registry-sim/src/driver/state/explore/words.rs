//! Describes steps, and deadlocks: what each party waits for.

use std::collections::BTreeMap;

use kernel_registry_ptx::{Group, Stuck, Waits};
use kernel_registry_schedule::Party;

use super::host::{Doing as Thread, Host};
use crate::driver::handles::Handle;
use crate::driver::state::State;
use crate::driver::stream::queue::{Doing, Item, Stream, Work};

/// Of a kernel's threads that wait, these many are described.
const MOST: usize = 3;

/// Describes a deadlock: each thread, stream and kernel, and what it waits for.
pub(crate) fn deadlock(state: &State, others: &BTreeMap<i32, Thread>) -> String {
    let mut reasons = Vec::new();
    let hosts = state.scheduler.iter().flat_map(|scheduler| scheduler.hosts.all.values());
    reasons.extend(hosts.filter(|host| host.is_stopped).map(|host| host_waits(state, host)));
    for (handle, stream) in state.streams.iter() {
        if let Some(item) = stream.queue.front() {
            reasons.extend(head_waits(state, handle, stream, item));
        }
    }
    let known = state.scheduler.as_ref().map(|scheduler| &scheduler.hosts.all);
    for (id, doing) in others {
        let name = known.and_then(|known| known.get(id)).and_then(|host| host.name.clone());
        let name = name.map_or_else(|| "another thread".to_owned(), |name| format!("thread `{name}`"));
        reasons.push(match doing {
            Thread::External => format!("{name} waits for something outside of the program"),
            Thread::Sleeps | Thread::Limited => format!("{name} sleeps, or waits for a time"),
            Thread::Runs => format!("{name} computes"),
            _ => format!("{name} waits outside of the driver, for a lock or another thread"),
        });
    }
    format!("no party can continue: {}", reasons.join("; "))
}

/// Returns what to call a party.
pub(crate) fn name(state: &State, party: Party) -> String {
    let block = |grid, block| format!("kernel `{}`, block {block}", kernel(state, grid));
    match party {
        Party::Host(number) => {
            let mut hosts = state.scheduler.iter().flat_map(|scheduler| scheduler.hosts.all.values());
            hosts.find(|host| host.number == Some(number)).map_or_else(|| party.to_string(), host_name)
        }
        Party::Stream(number) => numbered_stream(state, number),
        Party::Room(number) => format!("{}, with room for one block,", numbered_stream(state, number)),
        Party::Block { grid, block: number } => block(grid, number),
        Party::Threads { grid, block: number, warp, lane } => {
            let threads = if lane == 0 { String::new() } else { format!(", from lane {lane} on") };
            format!("{}, warp {warp}{threads}", block(grid, number))
        }
    }
}

fn numbered_stream(state: &State, number: u32) -> String {
    let mut numbers = state.watched.iter().flat_map(|watched| &watched.numbers);
    let handle = numbers.find(|(_, its)| **its == number).map(|(handle, _)| *handle);
    handle.map_or_else(|| Party::Stream(number).to_string(), stream_name)
}

fn host_name(host: &Host<State>) -> String {
    match (&host.name, host.number) {
        (Some(name), _) => format!("thread `{name}`"),
        (None, number) => format!("thread {}", number.unwrap_or_default()),
    }
}

fn call(host: &Host<State>) -> String {
    let place = host.place.as_ref().map(|place| format!(" at {place}")).unwrap_or_default();
    format!("{}{place}", host.call)
}

fn host_waits(state: &State, host: &Host<State>) -> String {
    let waits = state.waiting.values().find(|waiting| waiting.call == host.call);
    let because = waits.map(|waits| format!(": {}", waits.because)).unwrap_or_default();
    format!("{} waits in {}{because}", host_name(host), call(host))
}

fn stream_name(handle: Handle) -> String {
    format!("stream {handle:#x}")
}

fn head_waits(state: &State, handle: Handle, stream: &Stream, item: &Item) -> Vec<String> {
    let name = stream_name(handle);
    match (&item.work, &item.state) {
        (Work::Launch(launch), Doing::Running(execution)) => {
            let kernel = format!("kernel `{}` on {name}", launch.source_name());
            let stuck = execution.as_grid().stuck();
            let (all, total) = (described(&stuck), stuck.len());
            let more = if total > all.len() {
                vec![format!("{} more groups of its threads", total - all.len())]
            } else {
                Vec::new()
            };
            let room = match execution.as_grid().unstarted() {
                0 => None,
                1 => Some("1 of its blocks waits for room until another block ends".to_owned()),
                blocks => Some(format!("{blocks} of its blocks wait for room until another block ends")),
            };
            let all = all.into_iter().chain(more).chain(room).collect::<Vec<_>>();
            vec![format!("{kernel} runs: {}", all.join(", and "))]
        }
        (Work::Launch(launch), _) => {
            let kernel = format!("kernel `{}` on {name}", launch.source_name());
            let behind = item.behind.filter(|behind| state.streams.is_busy(stream.device, behind.until));
            vec![match behind {
                Some(behind) => format!("{kernel} can't start: {}", behind.because),
                None if state.streams.waits_for_others(stream, item) => {
                    format!(
                        "{kernel} can't start before earlier work of other streams, as one of them is a default stream"
                    )
                }
                None => format!("{kernel} has no room next to the running kernels"),
            }]
        }
        (Work::WaitValue { address, value, .. }, _) => {
            let word = state.memory.lock().load_word(*address).ok();
            let now = word.map(|word| format!(", which is {word}")).unwrap_or_default();
            vec![format!("{name} waits for {value} in the word at {address:#x}{now}")]
        }
        (Work::WaitFor { stream, .. }, _) => vec![format!("{name} waits for {}", stream_name(*stream))],
        (_, Doing::Stepping) => {
            vec![format!("{name} waits for a function of the host to return")]
        }
        _ => vec![format!("{name} waits for other streams")],
    }
}

/// Describes some of the threads that wait: those that wait for the same are described once.
fn described(all: &[Stuck]) -> Vec<String> {
    let mut seen: Vec<(&Waits, &Option<String>, &str)> = Vec::new();
    let mut texts = Vec::new();
    // Who waits at a barrier waits for those that don't.
    let mut sorted: Vec<_> = all.iter().collect();
    sorted.sort_by_key(|stuck| !matches!(stuck.waits, Waits::Change(_)));
    for stuck in sorted {
        let same = (&stuck.waits, &stuck.place, stuck.instruction.as_str());
        if texts.len() < MOST && !seen.contains(&same) {
            seen.push(same);
            texts.push(stuck.to_string());
        }
    }
    texts
}

/// Describes the step that a party is about to take.
pub(crate) fn step(state: &mut State, party: Party) -> String {
    match party {
        Party::Host(number) => {
            let mut hosts = state.scheduler.iter().flat_map(|scheduler| scheduler.hosts.all.values());
            let host = hosts.find(|host| host.number == Some(number));
            host.map_or(String::new(), |host| match host.condition {
                Some(_) => format!("goes on after {}", call(host)),
                None => call(host),
            })
        }
        Party::Stream(number) | Party::Room(number) => {
            let text = head_starts(state, number);
            if matches!(party, Party::Room(_)) { format!("{text}, with room for one block") } else { text }
        }
        Party::Block { block, grid } => format!("block {block} of `{}` starts", kernel(state, grid)),
        Party::Threads { grid, block, warp, lane } => {
            let group = Group { block, warp, lane };
            let Some(handle) = state.running_grid(grid) else { return String::new() };
            let at = state.with_execution(handle, |execution, _, _| execution.as_grid().at(group));
            at.map_or(String::new(), |at| at.place.unwrap_or(at.instruction).replace('\t', " "))
        }
    }
}

fn kernel(state: &State, grid: u32) -> String {
    let Some(handle) = state.running_grid(grid) else { return String::new() };
    let head = state.streams.get(handle).ok().and_then(|stream| stream.queue.front());
    match head.map(|item| &item.work) {
        Some(Work::Launch(launch)) => launch.source_name().to_owned(),
        _ => String::new(),
    }
}

fn head_starts(state: &mut State, number: u32) -> String {
    let Some((handle, _)) = state.heads().into_iter().find(|(_, its)| *its == number) else {
        return String::new();
    };
    let head = state.streams.get(handle).ok().and_then(|stream| stream.queue.front());
    match head.map(|item| &item.work) {
        Some(Work::Launch(launch)) => format!("kernel `{}` starts", launch.source_name()),
        Some(Work::Copy { bytes, .. }) => format!("a copy of {bytes} bytes"),
        Some(Work::Fill { .. }) => "a fill".into(),
        Some(Work::Free(_)) => "memory is freed".into(),
        Some(Work::WaitValue { address, value, .. }) => {
            format!("the word at {address:#x} has the value {value}")
        }
        Some(Work::WriteValue { address, value }) => {
            format!("{value} is written to the word at {address:#x}")
        }
        Some(Work::Call { .. }) => "a function of the host is called".into(),
        _ => "the next work".into(),
    }
}
