//! Finds out why a call has not returned: what runs on the device, which rules the call waits by, and which kernels are not loaded yet.

use kernel_registry_cuda::rules::{self, Rule};

use crate::causes;
use crate::options::{Audit, OnHang};
use crate::record::{Explanation, Running, ThreadInCall};
use crate::watch::hang::{busy, unloaded};
use crate::watch::known::mode::is_eager;
use crate::watch::known::{contexts, handles};
use crate::watch::record::launches::Stream;

/// A call that has not returned.
pub(super) struct HangingCall<'a> {
    /// The driver's function.
    pub(super) name: &'a str,
    pub(super) is_loaded: bool,
    /// The handle that the call is about, or 0.
    pub(super) subject: u64,
    pub(super) stream: u64,
    pub(super) thread: u32,
    /// The other threads that are in a call.
    pub(super) others: Vec<ThreadInCall>,
}

pub(super) struct Found {
    pub(super) explanation: Explanation,
    pub(super) rule: Option<&'static Rule>,
    /// Whether the call may just wait for long work: no rule says that it waits for what runs on the device.
    pub(super) may_end: bool,
    /// The name of a kernel that runs, or an empty text.
    pub(super) resident: String,
}

/// Asks the driver which streams are busy, and explains the call.
pub(super) fn explain(call: HangingCall<'_>) -> Found {
    let HangingCall { name, is_loaded, subject, stream, thread, others } = call;
    let busy = busy::find_beside_hang();
    let streams = busy.as_deref().unwrap_or_default();
    let mut rules: Vec<_> = rules::of(name, is_loaded).collect();
    // A kernel that was launched before needs no larger stack.
    let was_launched = stream > 0 && handles::is_launched(contexts::key(subject, stream));
    rules.retain(|rule| **rule != rules::STACK || !was_launched);
    rules.retain(|rule| **rule != rules::LIBRARY || is_eager());
    rules.retain(|rule| **rule != rules::LOCKED || others.iter().any(|other| keeps_lock(&other.call)));
    let launches = unloaded::find_waiting(streams);
    let taken = unloaded::find_taken(streams).filter(|_| launches.is_empty());
    // kernel-registry loads a module of its own, to wait for the kernels whose handles it obtained.
    let waits_for_its_own = taken.as_ref().is_some_and(|taken| taken.thread == thread);
    let waits_for_work = rules.is_empty() || rules.contains(&&rules::SYNCHRONIZE);
    let waits_for_load = (waits_for_work || waits_for_its_own) && (taken.is_some() || !launches.is_empty());
    if waits_for_load {
        // The call only waits for work that would otherwise end.
        rules = vec![&rules::LOAD];
    }
    let may_end =
        !rules.iter().any(|rule| causes::waits_for_device(rule)) || busy.as_ref().is_some_and(Vec::is_empty);
    let aborts = may_end && Audit::chosen().on_hang == OnHang::Abort;
    let is_own = |its: &Stream| (its.handle, its.thread, its.kernel) == (stream, thread, subject);
    let describe = |its: &Stream| Running { is_own: is_own(its), ..busy::running(its) };
    Found {
        rule: rules.first().copied(),
        may_end,
        resident: streams.iter().find_map(|stream| handles::name_of(stream.kernel)).unwrap_or_default(),
        explanation: Explanation {
            rules: rules.iter().map(|rule| rule.name.into()).collect(),
            waits_for_load,
            is_loaded,
            busy: busy.as_ref().map(|busy| busy.iter().map(describe).collect()),
            launches: launches.iter().map(Into::into).collect(),
            handles: taken.as_ref().map(Into::into),
            threads: others,
            aborts_after_ms: aborts
                .then(|| Audit::chosen().patience().as_millis().try_into().unwrap_or(u64::MAX)),
        },
    }
}

/// Returns whether a call may hold the driver's lock while it waits.
fn keeps_lock(call: &str) -> bool {
    rules::of(call, false).any(causes::waits_for_device)
}
