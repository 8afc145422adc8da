//! Hooks of calls while a kernel is resident: calls that would wait for it are refused, made and recorded, or deferred.

use cudarc::driver::sys::{CUcontext, CUevent, CUresult, CUstream};
use kernel_registry_cuda::OnWait;
use kernel_registry_cuda::rules::{self, Rule};

use super::late::{self, refusal};
use crate::record::{Kind, Subject};
use crate::watch::events::{self, timed};
use crate::watch::fault;
use crate::watch::known::devices::Devices;
use crate::watch::known::owners::{self, Owner};
use crate::watch::known::{contexts, memory, stream_counts};
use crate::watch::process::say::say;
use crate::watch::record::call::{Call, stored_handle, with_handle};
use crate::watch::record::new_event::NewEvent;
use crate::watch::record::recording::now;
use crate::watch::record::slots::during;
use crate::watch::section::{self, ActiveSection, Free, Launch, Outcome, WaitingFrees};

/// Makes a call that waits by a rule, or refuses it if it would wait for the kernel of `section`.
#[inline]
pub(super) fn wait(
    call: Call,
    rule: &'static Rule,
    section: Option<ActiveSection>,
    real: impl FnOnce() -> CUresult,
) -> CUresult {
    match section {
        None => timed(call, real),
        Some(section) => {
            let words = match call.described() {
                Subject::Stream => format!("`{}` of stream {:#x}", call.name(), call.stream),
                Subject::Handle { handle } => format!("`{}` of {handle:#x}", call.name()),
                _ => format!("`{}`", call.name()),
            };
            would_wait(call, by_rule(rule, call.described()), &words, &section, || during(call, real))
        }
    }
}

/// Makes a call that waits for all work in a context, or in the current context.
#[inline]
pub(super) fn synchronize_context(
    call: Call,
    context: Option<CUcontext>,
    real: impl FnOnce() -> CUresult,
) -> CUresult {
    let context = || context.map_or_else(contexts::current, |context| context.addr() as u64);
    let section = if section::any() { section::find_running_in(context()) } else { None };
    wait(call, &rules::WAITS_FOR_RESIDENT, section, real)
}

/// Makes a call that obtains the handle of a kernel which is not loaded: the kernel's launch would wait for the
/// resident kernel.
pub(super) fn take_unloaded(
    call: Call,
    kernel: &str,
    section: &ActiveSection,
    real: impl FnOnce() -> CUresult,
) -> CUresult {
    let words = late::describe(call, kernel);
    would_wait(
        call,
        by_rule(&rules::LOAD, Subject::Kernel { symbol: kernel, image: None }),
        &words,
        section,
        || during(call, real),
    )
}

/// Refuses a call that would wait for the kernel of a section, or makes the call if the section only reports. Records
/// the call as `event`, whose rule says why it waits.
#[cold]
fn would_wait(
    call: Call,
    event: NewEvent<'_>,
    words: &str,
    section: &ActiveSection,
    real: impl FnOnce() -> CUresult,
) -> CUresult {
    let begun = now();
    let (kind, result, took) = match event.rule {
        Some(rule) if section.on_wait != OnWait::Report => (Kind::Refused, refusal(rule, section, words), 0),
        _ => {
            let result = fault::noted(call, real());
            (Kind::Waits, result, now() - begun)
        }
    };
    let event = NewEvent { kind, begun, took, resident: &section.kernel, is_finding: true, ..event };
    events::record_event(call, NewEvent { result: result as u32, ..event });
    result
}

/// Returns the event of a call that waits by a rule.
fn by_rule<'a>(rule: &'static Rule, subject: Subject<&'a str>) -> NewEvent<'a> {
    NewEvent { rule: Some(rule), subject, ..NewEvent::default() }
}

/// Makes a call that frees or unloads something. A section that defers defers the call if the rules allow that and the
/// owner of the freed object is known.
fn free_or_defer(
    call: Call,
    rule: &'static Rule,
    devices: Devices,
    owner: Option<Owner>,
    real: impl FnOnce() -> CUresult + 'static,
) -> CUresult {
    let owner = owner.filter(|_| rules::can_be_deferred(call.name()));
    let section = section::find_on_devices(devices);
    let defers = section.as_ref().is_some_and(|section| section.on_wait == OnWait::Defer);
    let Some(owner) = owner.filter(|_| defers) else { return wait(call, rule, section, real) };
    let is_of_device = *rule == rules::FREE && !memory::is_of_host(call.subject);
    let bytes = if is_of_device { memory::size(call.subject) } else { 0 };
    match section::defer(Free { call, devices, owner, bytes }, real) {
        Outcome::Deferred => CUresult::CUDA_SUCCESS,
        Outcome::Again => CUresult::CUDA_ERROR_INVALID_HANDLE,
        Outcome::NotNeeded(real) => timed(call, real),
    }
}

/// The result of a second free of an address.
const FREED: CUresult = CUresult::CUDA_ERROR_INVALID_VALUE;

/// Makes a call that frees memory. In a section, `devices` returns the devices to wait for, or `None` if this free
/// never waits.
fn free_memory(
    call: Call,
    devices: impl FnOnce(u64) -> Option<Devices>,
    real: impl FnOnce() -> CUresult + 'static,
) -> CUresult {
    if section::is_deferred(call.subject) {
        return FREED;
    }
    match section::any().then(|| devices(call.subject)).flatten() {
        Some(devices) => free_or_defer(call, &rules::FREE, devices, memory::owner(call.subject), real),
        None => timed(call, real),
    }
}

/// Makes a call that frees memory of a device. Memory of pools is freed without waiting; the driver refuses other
/// addresses at once.
pub(super) fn free(call: Call, real: impl FnOnce() -> CUresult + 'static) -> CUresult {
    let devices = |address| {
        let is_of_device = memory::is_known(address) && !memory::is_of_host(address);
        let devices = is_of_device.then(|| memory::devices(address))?;
        section::find_on_devices(devices)?;
        (!memory::is_pooled(address) && !memory::is_inside(address)).then_some(devices)
    };
    free_memory(call, devices, real)
}

/// Makes a call that frees memory without waiting.
pub(super) fn free_async(call: Call, real: impl FnOnce() -> CUresult) -> CUresult {
    if section::is_deferred(call.subject) { FREED } else { timed(call, real) }
}

/// Makes a call that frees memory of the host, which kernels on all devices can use. The driver refuses other addresses
/// at once.
pub(super) fn free_host(call: Call, real: impl FnOnce() -> CUresult + 'static) -> CUresult {
    let is_allocated = |address| {
        memory::is_of_host(address) && !memory::is_registered(address) && !memory::is_inside(address)
    };
    free_memory(call, |address| is_allocated(address).then_some(Devices::ALL), real)
}

/// Calls `cuMemHostUnregister`.
pub(super) fn unregister(call: Call, real: impl FnOnce() -> CUresult + 'static) -> CUresult {
    let devices = |address| memory::is_registered(address).then_some(Devices::ALL);
    let result = free_memory(call, devices, real);
    if result == CUresult::CUDA_SUCCESS {
        memory::forget_registered(call.subject);
    }
    result
}

/// Calls `cuIpcCloseMemHandle`.
pub(super) fn close_memory(call: Call, real: impl FnOnce() -> CUresult + 'static) -> CUresult {
    let may_wait = section::any() && memory::is_known(call.subject);
    let devices = if may_wait { memory::devices(call.subject) } else { Devices::NONE };
    free_or_defer(call, &rules::FREE, devices, memory::owner(call.subject), real)
}

/// Makes a call that allocates memory. If there is too little, says which deferred calls would free some.
pub(super) fn allocate(call: Call, bytes: usize, real: impl FnOnce() -> CUresult) -> CUresult {
    let result = timed(call, real);
    if result == CUresult::CUDA_ERROR_OUT_OF_MEMORY
        && let Some(waiting) = contexts::current_device().and_then(section::waiting_frees)
    {
        let WaitingFrees { bytes: waiting, count, kernel } = waiting;
        say(&format!(
            "`{}` of {bytes} bytes found no memory: {waiting} bytes wait to be freed until kernel `{kernel}` ends, by {count} \
             deferred calls. Remedy: free with `cuMemFreeAsync`, which does not wait and also takes what `cuMemAlloc` gave; or end \
             that kernel.",
            call.name()
        ));
    }
    result
}

/// Makes a call that unloads or destroys something of a context.
pub(super) fn destroy(
    call: Call,
    rule: &'static Rule,
    real: impl FnOnce() -> CUresult + 'static,
) -> CUresult {
    let owner = owners::find(call.subject);
    let context = match owner {
        Some(Owner::Context(context)) => context,
        _ => contexts::current(),
    };
    let device = if section::any() { contexts::device_of(context) } else { None };
    let real = move || {
        // The owner is forgotten before the call, because another thread may get the same handle right after it.
        owners::forget(call.subject);
        real()
    };
    unload_or_destroy(call, rule, device.map(Devices::from_device), owner, real)
}

/// Makes a call that creates something in the current context.
pub(super) fn create<T>(call: Call, out: *mut *mut T, real: impl FnOnce() -> CUresult) -> CUresult {
    with_handle(timed(call, real), out, owners::add)
}

/// Makes a call that unloads something from all contexts. If the program `keeps` the code, the call is not deferred,
/// because the program may free the code after the call.
pub(super) fn unload_everywhere(
    call: Call,
    keeps: bool,
    real: impl FnOnce() -> CUresult + 'static,
) -> CUresult {
    let owner = (!keeps).then_some(Owner::Process);
    unload_or_destroy(call, &rules::UNLOAD, section::any().then_some(Devices::ALL), owner, real)
}

fn unload_or_destroy(
    call: Call,
    rule: &'static Rule,
    devices: Option<Devices>,
    owner: Option<Owner>,
    real: impl FnOnce() -> CUresult + 'static,
) -> CUresult {
    if section::is_deferred(call.subject) {
        return CUresult::CUDA_ERROR_INVALID_HANDLE;
    }
    match devices {
        Some(devices) => free_or_defer(call, rule, devices, owner, real),
        None => timed(call, real),
    }
}

/// Makes a launch in a stream that may be the resident kernel's. Behind the resident kernel the launch would wait for
/// it.
#[cold]
pub(super) fn launch(
    call: Call,
    kernel: impl FnOnce() -> String,
    real: impl FnOnce() -> CUresult,
) -> CUresult {
    let section = match section::classify_launch(call.stream) {
        Launch::Elsewhere => return real(),
        Launch::Own(section) => return section::launch_resident(section, real),
        Launch::Behind(section) => section,
    };
    let kernel = kernel();
    let words = format!("`{}` of kernel `{kernel}` in the stream of that kernel", call.name());
    let event = by_rule(&rules::BEHIND_RESIDENT, Subject::Kernel { symbol: &*kernel, image: None });
    would_wait(call, event, &words, &section, real)
}

/// Makes a call that waits for a stream.
pub(super) fn synchronize_stream(call: Call, stream: CUstream, real: impl FnOnce() -> CUresult) -> CUresult {
    let call = call.on(stream);
    wait(call, &rules::WAITS_FOR_RESIDENT, section::find_by_stream(call.stream), real)
}

/// Makes a call that waits for an event.
pub(super) fn synchronize_event(call: Call, event: CUevent, real: impl FnOnce() -> CUresult) -> CUresult {
    let call = call.about(event);
    wait(call, &rules::WAITS_FOR_RESIDENT, section::find_by_event(call.subject), real)
}

/// Makes a call that records an event in a stream.
pub(super) fn record_event(
    call: Call,
    event: CUevent,
    stream: CUstream,
    real: impl FnOnce() -> CUresult,
) -> CUresult {
    let call = call.on(stream);
    let result = timed(call, real);
    if result == CUresult::CUDA_SUCCESS {
        section::recorded(event.addr() as u64, call.stream);
    }
    result
}

/// Makes a call that creates an event.
pub(super) fn create_event(call: Call, out: *mut CUevent, real: impl FnOnce() -> CUresult) -> CUresult {
    with_handle(timed(call, real), out, section::forget_event)
}

/// Makes a call that creates a stream.
pub(super) fn create_stream(call: Call, out: *mut CUstream, real: impl FnOnce() -> CUresult) -> CUresult {
    let context = contexts::current();
    let section = if stream_counts::begin(context) { section::find_in_current_context() } else { None };
    let result = wait(call, &rules::STREAMS, section, real);
    stream_counts::finish(context, stored_handle(result, out));
    result
}
