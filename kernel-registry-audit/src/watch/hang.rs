//! Watches for calls that do not return, and explains them.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::process;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use cudarc::driver::sys::CUresult;

use crate::options::{Audit, OnHang};
use crate::record::{Kind, Slot};
use crate::rules;
use crate::watch::caller::Caller;
use crate::watch::locked::Locked;
use crate::watch::recording::{
    By, Happening, nanoseconds, now, samples_run_short, write_event, write_sample,
};
use crate::watch::say::say;
use crate::watch::watched::{self, Call, Stream, WAIT};
use crate::watch::{busy, hooks, known, stacks, threads, unloaded};

/// How often the calls in progress are looked at.
const STEP: Duration = Duration::from_millis(50);

/// When room for samples runs short, one is taken at so many looks: once a second.
const SPARSE: u32 = 20;

/// Starts the thread that watches this process.
pub(crate) fn start() {
    let timeout = Audit::chosen().hang_after;
    // Without a thread hangs are not explained; the calls in progress are in the record all the same.
    let _ = threads::start(move || watch(timeout));
}

/// What was seen in a slot, and since when.
struct Seen {
    /// Another thread can take the slot of one that has ended.
    thread: u32,
    call: u32,
    sequence: u64,
    since: Instant,
    is_explained: bool,
}

fn watch(timeout: Duration) {
    let mut seen = HashMap::<usize, Seen>::new();
    let child = process::id();
    let mut steps = 0_u32;
    while process::id() == child {
        for (index, slot) in watched::slots() {
            let (call, sequence) = (slot.call.load(Ordering::Relaxed), slot.sequence.load(Ordering::Relaxed));
            let thread = slot.thread.load(Ordering::Relaxed);
            let fresh = || Seen { thread, call, sequence, since: Instant::now(), is_explained: false };
            let seen = seen.entry(index).or_insert_with(fresh);
            if call == 0 || (seen.thread, seen.call, seen.sequence) != (thread, call, sequence) {
                *seen = fresh();
            } else if !seen.is_explained && seen.since.elapsed() >= timeout {
                seen.is_explained = true;
                explain(slot, call - 1, seen.since.elapsed());
            }
        }
        steps = steps.wrapping_add(1);
        if !samples_run_short() || steps.is_multiple_of(SPARSE) {
            sample();
        }
        unloaded::forget_ended();
        thread::sleep(STEP);
    }
}

/// The launches in each place of the streams at the last sample.
static COUNTED: Locked<HashMap<usize, u64>> = Locked::new();

pub(crate) fn forked() {
    COUNTED.renew();
}

/// Records how many kernels were launched in each stream since the last time.
pub(crate) fn sample() {
    let mut counted = COUNTED.lock();
    let now = now();
    let mut samples = BTreeMap::new();
    for (place, Stream { handle, kernel, launches, .. }) in watched::streams() {
        let since = launches.wrapping_sub(counted.insert(place, launches).unwrap_or(0));
        if since > 0 {
            let (all, last) = samples.entry(handle).or_insert((0_u64, kernel));
            (*all, *last) = (*all + since, kernel);
        }
    }
    for (stream, (launches, kernel)) in samples {
        let launches = u32::try_from(launches).unwrap_or(u32::MAX);
        write_sample(now, stream, launches, &known::named(kernel).unwrap_or_default());
    }
}

/// Says on the standard error output, and in the record, what the call waits for.
fn explain(slot: &Slot, hook: u32, waited: Duration) {
    let subject = slot.subject.load(Ordering::Relaxed);
    let (stream, thread) = (slot.stream.load(Ordering::Relaxed), slot.thread.load(Ordering::Relaxed));
    let name = hooks::name(hook);
    let of = known::named(subject);
    let about = of.as_deref().map(|of| format!(" for `{of}`")).unwrap_or_default();
    let mut text =
        format!("`{name}`{about}, in thread {thread}, has not returned for {:.1} s", waited.as_secs_f64());
    let is_loaded = slot.loads.load(Ordering::Relaxed) == 0;
    let busy = busy::all();
    let others = others(thread);
    let mut rules: Vec<_> = rules::of(name, is_loaded).collect();
    rules.retain(|rule| **rule != rules::LOCKED || others.iter().any(|(_, call)| keeps_lock(call)));
    let its_busy = busy.as_deref().unwrap_or_default();
    let unloaded = unloaded::waiting(its_busy);
    let taken = if unloaded.is_empty() { unloaded::taken_and_waiting(its_busy) } else { None };
    let of_stream = busy.iter().flatten().find(|busy| stream > 0 && busy.handle == stream);
    // Writing to a `String` does not fail.
    let _ = match (rules.as_slice(), of_stream) {
        ([], Some(_)) => write!(text, ": its own stream is busy."),
        ([], None) => write!(text, ". No rule says that it waits for kernels."),
        (rules, _) => {
            write!(text, ": {}.", rules.iter().map(|rule| rule.because).collect::<Vec<_>>().join("; or "))
        }
    };
    if of.is_some() {
        text.push_str(if is_loaded {
            " The kernel is loaded."
        } else {
            " The kernel was not loaded before."
        });
    }
    for launch in &unloaded {
        let _ = write!(text, " {launch}.");
    }
    if let Some(taken) = &taken {
        let _ = write!(text, " {taken}.");
    }
    match busy {
        None => text.push_str(" The driver does not answer which streams are busy."),
        Some(busy) if busy.is_empty() => text.push_str(" No stream that was used is busy."),
        Some(busy) => {
            for Stream { handle, kernel, thread, .. } in busy {
                let last = match known::named(kernel) {
                    _ if kernel == WAIT => "what came last there is a wait for a word in memory".to_owned(),
                    Some(kernel) => format!("the last kernel launched there is `{kernel}`"),
                    None => format!("the last kernel launched there is {kernel:#x}"),
                };
                let _ = write!(text, " Stream {handle:#x} is busy: {last}, by thread {thread}.");
            }
        }
    }
    for (its, call) in others {
        let _ = write!(text, " Thread {its} is in `{call}` meanwhile.");
    }
    if !unloaded.is_empty() || taken.is_some() {
        // The call only waits for work that would end.
        rules.retain(|rule| **rule != rules::SYNCHRONIZE);
        rules.insert(0, &rules::LOAD);
    }
    if !rules.is_empty() {
        let remedies: Vec<_> = rules.iter().map(|rule| rule.remedy).collect();
        let _ = write!(text, " Remedy: {}.", remedies.join("; or "));
    }
    let Caller { library, name: caller, stack } =
        stacks::of(thread, hooks::address(hook)).unwrap_or_default();
    for frame in stack.lines() {
        let _ = write!(text, "\n    at {frame}");
    }
    say(&format!("HANG: {text}"));
    let took = nanoseconds(waited);
    let happening = Happening {
        kind: Kind::Hang,
        call: Call { hook, subject, stream },
        name,
        subject: of.as_deref().unwrap_or_default(),
        image: &known::image_of(subject).unwrap_or_default(),
        bytes: 0,
        begun: now().saturating_sub(took),
        took,
        result: CUresult::CUDA_ERROR_NOT_READY,
        resident: "",
        rule: rules.first().copied(),
    };
    let by = By { thread, context: 0, library: &library, caller: &caller, text: &text };
    write_event(happening, by, true);
    if Audit::chosen().on_hang == OnHang::Abort {
        process::abort();
    }
}

/// The other threads that are in a call, and which.
fn others(thread: u32) -> Vec<(u32, &'static str)> {
    let in_call = watched::slots().filter_map(|(_, slot)| {
        let call = slot.call.load(Ordering::Relaxed).checked_sub(1)?;
        Some((slot.thread.load(Ordering::Relaxed), hooks::name(call)))
    });
    in_call.filter(|(other, _)| *other != thread).collect()
}

/// Whether a call may wait with the driver's lock.
fn keeps_lock(call: &str) -> bool {
    rules::of(call, false).any(|rule| *rule != rules::LOCKED && *rule != rules::SYNCHRONIZE)
}
