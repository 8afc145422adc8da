//! Explains why a call has not returned: first the lines that people read first, then details.

use std::collections::HashSet;
use std::fmt;

use kernel_registry_cuda::rules::{self, Rule};

use crate::causes::{self, reader};
use crate::hang::Lines;
use crate::options::{Audit, OnHang};
use crate::watch::hang::{busy, unloaded};
use crate::watch::known::mode::is_eager;
use crate::watch::known::{contexts, handles};
use crate::watch::record::launches::{Stream, WAIT};
use crate::watch::record::recording;

/// A call that has not returned.
pub(super) struct HangingCall<'a> {
    /// The driver's function.
    pub(super) name: &'a str,
    /// The kernel that the call is about.
    pub(super) kernel: Option<&'a str>,
    pub(super) is_loaded: bool,
    /// The handle that the call is about, or 0.
    pub(super) subject: u64,
    pub(super) stream: u64,
    pub(super) thread: u32,
    /// The function that made the call.
    pub(super) caller: &'a str,
    /// The other threads that are in a call, each with the name of its call.
    pub(super) others: &'a [(u32, &'static str)],
}

pub(super) struct Explanation {
    /// What people read first, without the place.
    pub(super) lines: Lines,
    details: Vec<String>,
    pub(super) rule: Option<&'static Rule>,
    /// Whether the call may only wait for work that takes long: no rule says that it waits for what runs on the device.
    pub(super) may_end: bool,
    /// The name of a kernel that runs meanwhile, or an empty text.
    pub(super) resident: String,
}

/// Writes the details.
impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.details.iter().try_for_each(|detail| write!(f, "\n{detail}."))
    }
}

/// Asks the driver which streams are busy, and explains the call.
pub(super) fn explain(call: &HangingCall<'_>) -> Explanation {
    let HangingCall { name, kernel, is_loaded, subject, stream, thread, caller, others } = *call;
    let busy = busy::find_beside_hang();
    let streams = busy.as_deref().unwrap_or_default();
    let mut rules: Vec<_> = rules::of(name, is_loaded).collect();
    // A kernel that was launched before needs no larger stack.
    let was_launched = stream > 0 && handles::is_launched(contexts::key(subject, stream));
    rules.retain(|rule| **rule != rules::STACK || !was_launched);
    rules.retain(|rule| **rule != rules::LIBRARY || is_eager());
    rules.retain(|rule| **rule != rules::LOCKED || others.iter().any(|(_, call)| keeps_lock(call)));
    let unloaded: Vec<_> = unloaded::find_waiting(streams).iter().map(ToString::to_string).collect();
    let taken = unloaded::find_taken(streams).filter(|_| unloaded.is_empty());
    // kernel-registry loads a module of its own, to wait for the kernels whose handles it obtained.
    let waits_for_its_own = taken.as_ref().is_some_and(|taken| taken.thread == thread);
    let mut waits: Vec<_> = unloaded.into_iter().chain(taken.map(|taken| taken.to_string())).collect();
    let waits_for_work = rules.is_empty() || rules.contains(&&rules::SYNCHRONIZE);
    let mut why = if (waits_for_work || waits_for_its_own) && !waits.is_empty() {
        // The call only waits for work that would otherwise end.
        rules = vec![&rules::LOAD];
        waits.remove(0)
    } else if !rules.is_empty() {
        let because: Vec<_> = rules.iter().map(|rule| rule.because).collect();
        because.join("; or ")
    } else if streams.iter().any(|busy| stream > 0 && busy.handle == stream) {
        "its own stream is busy".to_owned()
    } else {
        "no rule says that it waits for kernels".to_owned()
    };
    let waits_for_device = rules.iter().any(|rule| causes::waits_for_device(rule));
    if !streams.is_empty() && waits_for_device {
        why += ". If what runs there waits for this program, both wait for ever";
    }

    let about = kernel.map(|kernel| format!(" for `{kernel}`")).unwrap_or_default();
    let loaded = match kernel {
        Some(_) if !is_loaded => ", which was not loaded before",
        _ => "",
    };
    let mut details = vec![format!("It is thread {thread} that hangs")];
    let may_end = !waits_for_device || busy.as_ref().is_some_and(Vec::is_empty);
    if may_end && Audit::chosen().on_hang == OnHang::Abort {
        let patience = Audit::chosen().patience().as_secs_f64();
        details.push(format!(
            "It may wait for work that takes long, so it is ended after {patience:.1} s, not now"
        ));
    }
    details.extend(waits);
    let beside = match &busy {
        None => vec!["the driver does not answer which streams are busy".to_owned()],
        Some(busy) if busy.is_empty() => vec!["no stream that was used is busy".to_owned()],
        Some(busy) => {
            details.extend(busy.iter().map(last_launched));
            words_beside(busy, call)
        }
    };
    details.extend(others.iter().map(|(its, call)| format!("Thread {its} is in `{call}` meanwhile")));
    let reader = reader(caller, recording::uses_kernel_registry());
    let mut remedies: Vec<_> = rules.iter().map(|rule| rule.remedy_for(reader)).collect();
    remedies.dedup();
    Explanation {
        lines: Lines {
            place: caller.to_owned(),
            called: format!("`{name}`{about}{loaded}"),
            beside,
            why,
            cures: vec![remedies.join("; or ")],
        },
        details,
        rule: rules.first().copied(),
        may_end,
        resident: streams.iter().find_map(|stream| handles::name_of(stream.kernel)).unwrap_or_default(),
    }
}

/// Says once of each stream what runs there. The kernel of a launch that has not returned counts as launched, but does not run yet.
fn words_beside(busy: &[Stream], call: &HangingCall<'_>) -> Vec<String> {
    const MOST: usize = 8;
    let is_own =
        |its: &Stream| (its.handle, its.thread, its.kernel) == (call.stream, call.thread, call.subject);
    let (own, others): (Vec<&Stream>, Vec<&Stream>) = busy.iter().partition(|its| is_own(its));
    let mut words = Vec::new();
    let mut handles = HashSet::new();
    for stream in others {
        if handles.insert(stream.handle) {
            words.push(busy::in_words(stream, "waits", "runs"));
        }
    }
    if own.iter().any(|stream| handles.insert(stream.handle)) {
        words.push(format!("what was launched before in its own stream {:#x}", call.stream));
    }
    let more = words.split_off(words.len().min(MOST)).len();
    words.extend((more > 0).then(|| format!("{more} more streams that are busy")));
    words
}

fn last_launched(stream: &Stream) -> String {
    let Stream { handle, kernel, thread, .. } = stream;
    let last = match handles::name_of(*kernel) {
        _ if *kernel == WAIT => "what came last there is a wait for a word in memory".to_owned(),
        Some(kernel) => format!("the last kernel launched there is `{kernel}`"),
        None => format!("the last kernel launched there is {kernel:#x}"),
    };
    format!("Stream {handle:#x} is busy: {last}, by thread {thread}")
}

/// Returns whether a call may hold the driver's lock while it waits.
fn keeps_lock(call: &str) -> bool {
    rules::of(call, false).any(causes::waits_for_device)
}
