//! Waits until no thread of the host runs: each has stopped at a call, or is blocked by something else.
//!
//! Linux knows that of each thread of the process. A thread that sleeps for a time is waited for, but not long.

use std::collections::BTreeMap;
use std::fs;
use std::os::linux::fs::MetadataExt;
use std::time::{Duration, Instant};

use super::hosts::{Doing, Hosts};
use crate::driver::state::simulator::Locked;

/// How long threads may run before Linux is asked what they do.
const SOON: Duration = Duration::from_micros(200);

/// A thread that sleeps for longer than this isn't waited for.
const NAP: Duration = Duration::from_millis(20);

/// A thread that runs for longer than this without a call isn't waited for.
const BUSY: Duration = Duration::from_secs(1);

const TASKS: &str = "/proc/self/task";

/// Waits until no thread of the host runs. Returns the threads that haven't stopped at a call, and what each does.
pub(crate) fn rest(mut state: Locked, own: i32) -> (Locked, BTreeMap<i32, Doing>) {
    let begun = Instant::now();
    let mut before = None;
    loop {
        let Some(scheduler) = &mut state.scheduler else { return (state, BTreeMap::new()) };
        let hosts = &mut scheduler.hosts;
        if have_others_not_moved(hosts) {
            hosts.all.retain(|id, host| host.is_stopped || hosts.seen.contains_key(id));
            let doing = hosts.seen.iter().map(|(id, (doing, _))| (*id, *doing)).collect();
            return (state, doing);
        }
        if begun.elapsed() < SOON && hosts.goes_on() {
            // Most often the thread that went on is about to stop again, which needs no look at the others.
            let wakeup = state.wakeup.clone();
            state = wakeup.wait_for(state, SOON);
            continue;
        }
        let found = observe(hosts, own);
        let here = found.iter().filter(|(id, (_, time))| !hosts.away.has(**id, time));
        let here: BTreeMap<_, _> = here.map(|(id, seen)| (*id, seen.clone())).collect();
        let moving: Vec<_> = here.iter().filter(|(_, (doing, _))| *doing >= Doing::Sleeps).collect();
        let is_late = |(_, (doing, _)): &&(&i32, &(Doing, String))| {
            begun.elapsed() > if *doing == Doing::Runs { BUSY } else { NAP }
        };
        let are_late = !moving.is_empty() && moving.iter().all(|its| is_late(&its));
        if are_late || moving.is_empty() && before.as_ref() == Some(&here) {
            let late: Vec<_> = moving.into_iter().map(|(id, (_, time))| (*id, time.clone())).collect();
            late.into_iter().for_each(|(id, time)| hosts.away.add(id, time));
            hosts.all.retain(|id, host| host.is_stopped || found.contains_key(id));
            let doing = found.into_iter().map(|(id, (doing, _))| (id, doing)).collect();
            return (state, doing);
        }
        before = Some(here);
        let wakeup = state.wakeup.clone();
        state = wakeup.wait_for(state, Duration::from_micros(50));
    }
}

/// Returns whether all threads have stopped at a call, except for those that were blocked before and haven't run since.
fn have_others_not_moved(hosts: &Hosts) -> bool {
    let stopped = hosts.all.values().filter(|host| host.is_stopped).count();
    // The folder's links are those of the file system, one for each thread, and one of these is the scheduler's.
    let count = (stopped + hosts.seen.len()) as u64;
    fs::metadata(TASKS).is_ok_and(|tasks| tasks.st_nlink() == 3 + count)
        && hosts.seen.iter().all(|(id, (doing, before))| *doing != Doing::Runs && time(*id) == *before)
}

/// Returns what each thread does that hasn't stopped at a call, with how long it has run until now.
fn observe(hosts: &mut Hosts, own: i32) -> BTreeMap<i32, (Doing, String)> {
    let Ok(tasks) = fs::read_dir(TASKS) else { return BTreeMap::new() };
    let ids = tasks.flatten().filter_map(|task| task.file_name().to_str()?.parse::<i32>().ok());
    let is_stopped = |id: &i32| hosts.all.get(id).is_some_and(|host| host.is_stopped);
    let ids = ids.filter(|id| *id != own && !is_stopped(id));
    let seen = ids.map(|id| {
        let time = time(id);
        // Who hasn't run since is still in the same call.
        let same = hosts.seen.get(&id).filter(|(doing, before)| *before == time && *doing != Doing::Runs);
        (id, (same.map_or_else(|| doing(id), |(doing, _)| *doing), time))
    });
    hosts.seen = seen.collect();
    hosts.seen.clone()
}

fn time(id: i32) -> String {
    fs::read_to_string(format!("{TASKS}/{id}/schedstat")).unwrap_or_default()
}

/// Returns what a thread does, by its state and the system call that it's in.
fn doing(id: i32) -> Doing {
    let read = |file| fs::read_to_string(format!("{TASKS}/{id}/{file}")).unwrap_or_default();
    // The state follows the name, which is in parentheses and can contain anything.
    let stat = read("stat");
    let is_asleep = stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with(['S', 'D', 'T', 't']));
    if !is_asleep {
        return Doing::Runs;
    }
    let call = read("syscall");
    let mut words = call.split_whitespace();
    let number = words.next().and_then(|number| number.parse::<i64>().ok());
    match number {
        // The fourth argument is the limit of time.
        Some(libc::SYS_futex) if words.nth(3).is_some_and(|limit| limit == "0x0") => Doing::Blocked,
        Some(libc::SYS_futex) => Doing::Limited,
        Some(libc::SYS_nanosleep | libc::SYS_clock_nanosleep) => Doing::Sleeps,
        _ => Doing::External,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;

    use super::*;

    /// Returns what a thread does, when it has done that for a while.
    fn seen(work: impl FnOnce() + Send + 'static) -> Doing {
        let (send, receive) = mpsc::channel();
        thread::spawn(move || {
            // SAFETY: the call has no arguments.
            send.send(unsafe { libc::gettid() }).unwrap();
            work();
        });
        let id = receive.recv().unwrap();
        thread::sleep(Duration::from_millis(100));
        doing(id)
    }

    #[test]
    fn what_threads_do_is_seen() {
        assert_eq!(seen(|| thread::sleep(Duration::from_secs(5))), Doing::Sleeps);
        assert_eq!(seen(|| thread::park_timeout(Duration::from_secs(5))), Doing::Limited);
        assert_eq!(seen(thread::park), Doing::Blocked);
        let end = Instant::now() + Duration::from_secs(1);
        assert_eq!(seen(move || while Instant::now() < end {}), Doing::Runs);
    }
}
