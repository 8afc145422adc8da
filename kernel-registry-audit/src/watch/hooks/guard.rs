//! What hooks do while a kernel stays on a device: calls that would wait for it are refused, made and recorded, or put off.

use cudarc::driver::sys::{CUevent, CUresult, CUstream};

use super::{about, name, on, plain};
use crate::record::Kind;
use crate::rules::{self, Rule};
use crate::watch::recording::{Happening, now};
use crate::watch::say::say;
use crate::watch::section::{self, Beside, Launch, OnWait, Place, PutOff};
use crate::watch::watched::{Call, during, event, timed};
use crate::watch::{contexts, memory, streams};

/// The subject of a launch in the stream of the kernel that stays.
const BEHIND: &str = "launch in its stream";

/// A call that waits by this rule, if a section is beside it.
#[inline]
pub(super) fn waits(
    call: Call,
    rule: &'static Rule,
    beside: Option<Beside>,
    real: impl FnOnce() -> CUresult,
) -> CUresult {
    match beside {
        None => timed(call, name(call.hook), real),
        Some(beside) => would_wait(call, rule, &subject(call), &beside, real),
    }
}

/// What a call is about, for people.
fn subject(call: Call) -> String {
    match call {
        Call { subject: 0, stream: 0, .. } => String::new(),
        Call { subject: 0, stream, .. } => format!("stream {stream:#x}"),
        Call { subject, .. } => format!("{subject:#x}"),
    }
}

#[cold]
fn would_wait(
    call: Call,
    rule: &'static Rule,
    subject: &str,
    beside: &Beside,
    real: impl FnOnce() -> CUresult,
) -> CUresult {
    if beside.on_wait != OnWait::Report {
        let words = match subject {
            "" => format!("`{}`", name(call.hook)),
            subject => format!("`{}` of {subject}", name(call.hook)),
        };
        let refused = refusal(rule, beside, &words);
        event(happening(call, Kind::Refused, subject, "", beside, (now(), 0), refused));
        return refused;
    }
    let begun = now();
    let result = during(call, real);
    event(happening(call, Kind::Waits, subject, "", beside, (begun, now() - begun), result));
    result
}

fn happening<'a>(
    call: Call,
    kind: Kind,
    subject: &'a str,
    image: &'a str,
    beside: &'a Beside,
    (begun, took): (u64, u64),
    result: CUresult,
) -> Happening<'a> {
    let (name, resident) = (name(call.hook), &*beside.kernel);
    Happening { kind, call, name, subject, image, bytes: 0, begun, took, result, resident }
}

/// The answer to a call that is refused, once that was said.
pub(super) fn refusal(rule: &Rule, beside: &Beside, words: &str) -> CUresult {
    let Rule { because, remedy, .. } = rule;
    say(&format!("REFUSED while kernel `{}` stays: {words}: {because}. Remedy: {remedy}.", beside.kernel));
    CUresult::CUDA_ERROR_NOT_PERMITTED
}

/// A call that is put off in a section, if that is what happens there. A second one for the same handle has this answer.
fn put_off(
    call: Call,
    rule: &'static Rule,
    place: Place,
    again: CUresult,
    real: impl FnOnce() -> CUresult + 'static,
) -> CUresult {
    match section::at(place) {
        Some(beside) if beside.on_wait == OnWait::Defer => {
            match section::put_off(place, call, &subject(call), real) {
                Ok(PutOff::Now) => CUresult::CUDA_SUCCESS,
                Ok(PutOff::Before) => again,
                // The section has ended meanwhile.
                Err(real) => timed(call, name(call.hook), real),
            }
        }
        beside => waits(call, rule, beside, real),
    }
}

/// A call that frees memory of a device. That of pools is freed without waiting.
pub(super) fn free(call: Call, real: impl FnOnce() -> CUresult + 'static) -> CUresult {
    // The driver refuses at once to free any other address.
    if section::any() && memory::is_known(call.subject) {
        let place = memory::place(call.subject);
        if section::at(place).is_some() && waits_to_free(call.subject) {
            return put_off(call, &rules::FREE, place, CUresult::CUDA_ERROR_INVALID_VALUE, real);
        }
    }
    timed(call, name(call.hook), real)
}

fn waits_to_free(address: u64) -> bool {
    !memory::is_pooled(address) && !memory::is_inside(address)
}

/// A call that frees memory of the host, which kernels on all devices can use.
pub(super) fn free_host(call: Call, real: impl FnOnce() -> CUresult + 'static) -> CUresult {
    // The driver refuses at once to free any other address.
    if !section::any() || !memory::is_of_host(call.subject) || memory::is_inside(call.subject) {
        return timed(call, name(call.hook), real);
    }
    put_off(call, &rules::FREE, Place::Everywhere, CUresult::CUDA_ERROR_INVALID_VALUE, real)
}

/// `cuMemHostUnregister`, which is never put off: the program may free the memory next.
pub(super) fn unregister(call: Call, real: impl FnOnce() -> CUresult) -> CUresult {
    let is_known = section::any() && memory::is_known(call.subject);
    let beside = if is_known { section::at(Place::Everywhere) } else { None };
    waits(call, &rules::FREE, beside, real)
}

/// A call that frees something of the current context.
pub(super) fn destroys(
    call: Call,
    rule: &'static Rule,
    real: impl FnOnce() -> CUresult + 'static,
) -> CUresult {
    let place = if section::any() { contexts::device().map(Place::Device) } else { None };
    gone(call, rule, place, real)
}

/// A call that unloads something of all contexts.
pub(super) fn unloads_everywhere(call: Call, real: impl FnOnce() -> CUresult + 'static) -> CUresult {
    gone(call, &rules::UNLOAD, section::any().then_some(Place::Everywhere), real)
}

fn gone(
    call: Call,
    rule: &'static Rule,
    place: Option<Place>,
    real: impl FnOnce() -> CUresult + 'static,
) -> CUresult {
    match place {
        Some(place) => put_off(call, rule, place, CUresult::CUDA_ERROR_INVALID_HANDLE, real),
        None => timed(call, name(call.hook), real),
    }
}

/// A launch in what may be the stream of a kernel that stays, where it waits for that. `kernel` names what is launched.
#[cold]
pub(super) fn launches(
    call: Call,
    kernel: impl FnOnce() -> String,
    real: impl FnOnce() -> CUresult,
) -> CUresult {
    let beside = match section::launch(call.hook, call.stream) {
        Launch::Elsewhere => return real(),
        Launch::Own(section) => return section::launching(section, real),
        Launch::Behind(beside) => beside,
    };
    let of = kernel();
    let (begun, rule) = (now(), &rules::BEHIND_RESIDENT);
    let (kind, took, result) = if beside.on_wait == OnWait::Report {
        let result = real();
        (Kind::Waits, now() - begun, result)
    } else {
        let words = format!("`{}` of {of} in the stream of that kernel", name(call.hook));
        (Kind::Refused, 0, refusal(rule, &beside, &words))
    };
    event(happening(call, kind, BEHIND, &of, &beside, (begun, took), result));
    result
}

/// A call that waits for a stream.
pub(super) fn synchronizes(hook: u32, stream: CUstream, real: impl FnOnce() -> CUresult) -> CUresult {
    let call = on(hook, stream);
    waits(call, &rules::WAITS_FOR_RESIDENT, section::owner(hook, call.stream), real)
}

/// A call that waits for an event.
pub(super) fn waits_for(hook: u32, event: CUevent, real: impl FnOnce() -> CUresult) -> CUresult {
    let call = about(hook, event);
    waits(call, &rules::WAITS_FOR_RESIDENT, section::of_event(call.subject), real)
}

/// A call that records an event in a stream.
pub(super) fn records(
    hook: u32,
    event: CUevent,
    stream: CUstream,
    real: impl FnOnce() -> CUresult,
) -> CUresult {
    let call = on(hook, stream);
    let result = timed(call, name(hook), real);
    if result == CUresult::CUDA_SUCCESS {
        section::recorded(hook, event.addr() as u64, call.stream);
    }
    result
}

/// A call that makes an event.
pub(super) fn makes_event(hook: u32, out: *mut CUevent, real: impl FnOnce() -> CUresult) -> CUresult {
    let result = timed(plain(hook), name(hook), real);
    if result == CUresult::CUDA_SUCCESS && !out.is_null() {
        // SAFETY: the driver has stored the handle there.
        section::forget_event(unsafe { *out }.addr() as u64);
    }
    result
}

/// A call that makes a stream.
pub(super) fn makes_stream(hook: u32, out: *mut CUstream, real: impl FnOnce() -> CUresult) -> CUresult {
    let context = contexts::current();
    let beside = if streams::begin(context) { section::here() } else { None };
    let result = waits(plain(hook), &rules::STREAMS, beside, real);
    let is_made = result == CUresult::CUDA_SUCCESS && !out.is_null();
    // SAFETY: the driver has stored the handle there.
    streams::made(context, is_made.then(|| unsafe { *out }.addr() as u64));
    result
}
