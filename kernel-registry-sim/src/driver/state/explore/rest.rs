//! Waits until no thread of the host runs: each has stopped at a call, or is blocked by something else.
//!
//! Linux knows that of each thread of the process. A thread that sleeps for a time is waited for, but not long.

use std::collections::BTreeMap;
use std::fs;
use std::os::linux::fs::MetadataExt;
use std::time::{Duration, Instant};

use kernel_registry_schedule::Entry;

use super::host::{Doing, Hosts};
use crate::driver::state::State;
use crate::driver::state::simulator::Locked;

/// How long threads may run before Linux is asked what they do.
const SOON: Duration = Duration::from_micros(200);

/// A thread that sleeps, or waits for input, for longer than this isn't waited for.
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
        let moving: Vec<_> = here.iter().filter(|(_, (doing, _))| *doing >= Doing::External).collect();
        let is_late = |(_, (doing, _)): &&(&i32, &(Doing, String))| {
            begun.elapsed() > if *doing == Doing::Runs { BUSY } else { NAP }
        };
        let are_late = !moving.is_empty() && moving.iter().all(|its| is_late(&its));
        if are_late || moving.is_empty() && before.as_ref() == Some(&here) {
            // Who waits for input for long hardly matters for the order.
            let is_any = moving.iter().any(|(_, (doing, _))| *doing != Doing::External);
            let late: Vec<_> = moving.into_iter().map(|(id, (_, time))| (*id, time.clone())).collect();
            late.into_iter().for_each(|(id, time)| hosts.away.add(id, time));
            let is_first = is_any && !std::mem::replace(&mut hosts.away.is_noted, true);
            hosts.all.retain(|id, host| host.is_stopped || found.contains_key(id));
            if is_first {
                scheduler.recorder.write(&Entry::Away);
            }
            let doing = found.into_iter().map(|(id, (doing, _))| (id, doing)).collect();
            return (state, doing);
        }
        before = Some(here);
        let wakeup = state.wakeup.clone();
        state = wakeup.wait_for(state, Duration::from_micros(50));
    }
}

/// Returns whether all threads have stopped at a call, except for those that were blocked before and haven't run since.
fn have_others_not_moved(hosts: &Hosts<State>) -> bool {
    let stopped = hosts.all.values().filter(|host| host.is_stopped).count();
    // The folder's links are those of the file system, one for each thread, and one of these is the scheduler's.
    let count = (stopped + hosts.seen.len()) as u64;
    fs::metadata(TASKS).is_ok_and(|tasks| tasks.st_nlink() == 3 + count)
        && hosts.seen.iter().all(|(id, (doing, before))| {
            // A thread that was woken and hasn't got its processor has run for as long as before.
            (*doing < Doing::External || hosts.away.has(*id, before))
                && time(*id) == *before
                && is_asleep(*id)
        })
}

/// Returns what each thread does that hasn't stopped at a call, with how long it has run until now.
fn observe(hosts: &mut Hosts<State>, own: i32) -> BTreeMap<i32, (Doing, String)> {
    let Ok(tasks) = fs::read_dir(TASKS) else { return BTreeMap::new() };
    let ids = tasks.flatten().filter_map(|task| task.file_name().to_str()?.parse::<i32>().ok());
    let is_stopped = |id: &i32| hosts.all.get(id).is_some_and(|host| host.is_stopped);
    let ids = ids.filter(|id| *id != own && !is_stopped(id));
    let seen = ids.map(|id| {
        let time = time(id);
        // Who hasn't run since is still in the same call.
        let same = hosts
            .seen
            .get(&id)
            .filter(|(doing, before)| *before == time && *doing != Doing::Runs && is_asleep(id));
        (id, (same.map_or_else(|| doing(id), |(doing, _)| *doing), time))
    });
    hosts.seen = seen.collect();
    hosts.seen.clone()
}

fn time(id: i32) -> String {
    fs::read_to_string(format!("{TASKS}/{id}/schedstat")).unwrap_or_default()
}

/// Returns whether a thread isn't waiting for a processor, and doesn't have one.
fn is_asleep(id: i32) -> bool {
    let stat = fs::read_to_string(format!("{TASKS}/{id}/stat")).unwrap_or_default();
    // The state follows the name, which is in parentheses and can contain anything.
    stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with(['S', 'D', 'T', 't']))
}

/// Returns what a thread does, by its state and the system call that it's in.
fn doing(id: i32) -> Doing {
    if !is_asleep(id) {
        return Doing::Runs;
    }
    let call = fs::read_to_string(format!("{TASKS}/{id}/syscall")).unwrap_or_default();
    let mut words = call.split_whitespace();
    let number = words.next().and_then(|number| number.parse::<i64>().ok());
    let arguments: Vec<u64> =
        words.flat_map(|word| u64::from_str_radix(word.trim_start_matches("0x"), 16)).collect();
    match (number, &arguments[..]) {
        (Some(libc::SYS_futex), [_, operation, _, limit, ..]) => {
            let left = (*limit != 0).then(|| time_left(*limit, operation & WAIT_BITSET == WAIT_BITSET));
            limited(left.flatten(), Doing::Limited)
        }
        (Some(libc::SYS_nanosleep), [time, ..]) => limited(time_left(*time, false), Doing::Sleeps),
        (Some(libc::SYS_clock_nanosleep), [_, flags, time, ..]) => {
            limited(time_left(*time, *flags != 0), Doing::Sleeps)
        }
        _ => Doing::External,
    }
}

/// The operation of a futex whose limit is a moment, and not a duration.
const WAIT_BITSET: u64 = 9;

/// Threads that sleep for longer than this are watchdogs, or waits that aren't meant to be over.
const FAR: Duration = Duration::from_secs(10);

fn limited(left: Option<Duration>, doing: Doing) -> Doing {
    if left.is_some_and(|left| left < FAR) { doing } else { Doing::Blocked }
}

/// Returns how long it is until a time at an address, which is a duration or a moment.
fn time_left(address: u64, is_moment: bool) -> Option<Duration> {
    let read = |value: &mut libc::timespec, address| {
        let bytes = size_of::<libc::timespec>();
        let to = libc::iovec { iov_base: std::ptr::from_mut(value).cast(), iov_len: bytes };
        let from = libc::iovec { iov_base: std::ptr::with_exposed_provenance_mut(address), iov_len: bytes };
        // SAFETY: the target has this size. If the source isn't there any more, the call fails.
        (unsafe { libc::process_vm_readv(libc::getpid(), &to, 1, &from, 1, 0) }) == bytes as isize
    };
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    if !read(&mut time, address as usize) {
        return None;
    }
    let duration =
        |time: libc::timespec| Duration::new(time.tv_sec.max(0) as u64, time.tv_nsec as u32 % 1_000_000_000);
    if !is_moment {
        return Some(duration(time));
    }
    // Which clock it is hardly matters: a moment of the other one is far away.
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` has room for the result.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now) };
    Some(duration(time).saturating_sub(duration(now)))
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
        // Watchdogs.
        assert_eq!(seen(|| thread::sleep(Duration::from_secs(500))), Doing::Blocked);
        assert_eq!(seen(|| thread::park_timeout(Duration::from_secs(500))), Doing::Blocked);
        let end = Instant::now() + Duration::from_secs(1);
        assert_eq!(seen(move || while Instant::now() < end {}), Doing::Runs);
    }
}
