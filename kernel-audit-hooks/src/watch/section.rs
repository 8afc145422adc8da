//! Sections: while a resident kernel is on a device, calls that would wait for it are refused, reported or deferred.
//!
//! Without a section a call costs the load of a flag. In a section a launch in another stream costs no more than that.
//!
//! No lock of a section is held while the driver is called. All contexts of a device count as one.

mod deferred;

use std::cell::Cell;
use std::collections::{BTreeMap, HashMap};
use std::ffi::{CStr, c_char};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use cudarc::driver::sys::{CUcontext, CUdevice, CUresult, CUstream};
use kernel_registry_cuda::{OnWait, rules, stream_mark};

use crate::record::{Kind, Subject};
use crate::watch::events;
use crate::watch::known::contexts;
use crate::watch::known::devices::Devices;
use crate::watch::known::owners::Owner;
use crate::watch::process::locked::Locked;
use crate::watch::process::say::say;
use crate::watch::record::call::Call;
use crate::watch::record::new_event::NewEvent;
use crate::watch::record::recording::now;
use crate::watch::record::slots::during;
pub(crate) use deferred::Free;
use deferred::{Deferred, Later};

/// The facts about a section for calls that would wait for the section's kernel.
pub(crate) struct ActiveSection {
    /// The resident kernel.
    pub(crate) kernel: Arc<str>,
    pub(crate) on_wait: OnWait,
}

struct Section {
    number: u64,
    kernel: Arc<str>,
    devices: Devices,
    context: u64,
    /// The stream, which is no default stream, because a default stream has the same handle in all contexts.
    stream: u64,
    on_wait: OnWait,
    /// Whether the kernel was launched. Until then nothing in its stream waits for it.
    is_launched: bool,
    /// The number of deferred calls of each function, by the function's number.
    deferred: BTreeMap<u32, u64>,
}

impl Section {
    fn active(&self) -> ActiveSection {
        ActiveSection { kernel: self.kernel.clone(), on_wait: self.on_wait }
    }
}

static STATE: Locked<State> = Locked::new();

/// The devices that have a section.
static DEVICES: AtomicU64 = AtomicU64::new(0);

/// The marks of the sections' streams.
static STREAMS: AtomicU64 = AtomicU64::new(0);

/// Whether events were recorded in the sections' streams.
static EVENTS: AtomicBool = AtomicBool::new(false);

/// The number of deferred calls.
static DEFERRED: AtomicU64 = AtomicU64::new(0);

#[derive(Default)]
struct State {
    last: u64,
    sections: Vec<Section>,
    /// The events that were recorded after the kernel of a section in its stream, each with the section's number.
    events: HashMap<u64, u64>,
    deferred: Deferred,
}

impl State {
    /// Updates the flags that calls read without the lock.
    fn update_flags(&mut self) {
        let State { sections, events, .. } = self;
        events.retain(|_, number| sections.iter().any(|section| section.number == *number));
        let bits = |of: fn(&Section) -> u64| sections.iter().map(of).fold(0, |all, its| all | its);
        DEVICES.store(bits(|section| section.devices.0), Ordering::Relaxed);
        STREAMS.store(bits(|section| stream_mark(section.stream)), Ordering::Relaxed);
        EVENTS.store(!events.is_empty(), Ordering::Relaxed);
    }

    /// Takes the next deferred call that waits for no section any more.
    fn next(&mut self) -> Option<Later> {
        let State { sections, deferred, .. } = self;
        let next = deferred.next(|devices| !sections.iter().any(|section| section.devices.overlap(devices)));
        DEFERRED.store(deferred.len(), Ordering::Relaxed);
        next
    }
}

/// Returns the strictest section on these devices, leaving out the section whose kernel this thread is launching.
fn find_strictest(sections: &mut [Section], devices: Devices) -> Option<&mut Section> {
    find_strictest_where(sections, |section| section.devices.overlap(devices))
}

fn find_strictest_where(
    sections: &mut [Section],
    concerns: impl Fn(&Section) -> bool,
) -> Option<&mut Section> {
    let own = LAUNCHING.get();
    let there = sections.iter_mut().filter(|section| section.number != own && concerns(section));
    there.max_by_key(|section| section.on_wait)
}

thread_local! {
    /// The section whose kernel this thread is launching, or 0.
    static LAUNCHING: Cell<u64> = const { Cell::new(0) };
}

/// Begins a section, before its kernel is launched in this stream. `on_wait` is 0 to refuse, 1 to report, 2 to defer.
/// Returns the section's number. Returns 0, and says why, if there can be no section: the context is gone, or the
/// stream waits for the default stream.
///
/// # Safety
///
/// The kernel's name ends with a zero, or is null.
#[cfg_attr(feature = "export", unsafe(no_mangle))]
pub unsafe extern "C" fn kernel_registry_audit_section_begin(
    kernel: *const c_char,
    context: CUcontext,
    stream: CUstream,
    on_wait: u32,
) -> u64 {
    // SAFETY: the caller's promise.
    let kernel = (!kernel.is_null()).then(|| unsafe { CStr::from_ptr(kernel) }.to_string_lossy());
    let kernel = kernel.filter(|name| !name.is_empty()).unwrap_or("without a name".into());
    let context = if context.is_null() { contexts::current() } else { context.addr() as u64 };
    let Some(device) = contexts::device_of(context) else {
        say(&format!("no section for kernel `{kernel}`: its context does not exist"));
        return 0;
    };
    if !contexts::is_non_blocking(stream) {
        let rules::Rule { because, remedy, .. } = rules::LEGACY_STREAM;
        say(&format!(
            "no section for kernel `{kernel}`: its stream is a default or blocking stream; {because}. Remedy: {remedy}."
        ));
        return 0;
    }
    let devices = Devices::from_device(device);
    let mut state = STATE.lock();
    state.last += 1;
    let number = state.last;
    state.sections.push(Section {
        number,
        kernel: kernel.as_ref().into(),
        devices,
        context,
        stream: stream.addr() as u64,
        on_wait: OnWait::from_code(on_wait),
        is_launched: false,
        deferred: BTreeMap::new(),
    });
    state.update_flags();
    drop(state);
    // No other deferred call is made from now on, but a call may be in progress that would wait for the kernel.
    while STATE.lock().deferred.is_making(devices) {
        thread::sleep(Duration::from_micros(20));
    }
    number
}

/// Ends a section, after its kernel has ended, and makes the deferred calls that no other section concerns. Returns the
/// number of calls made.
#[cfg_attr(feature = "export", unsafe(no_mangle))]
pub extern "C" fn kernel_registry_audit_section_end(section: u64) -> u64 {
    let mut state = STATE.lock();
    let Some(index) = state.sections.iter().position(|its| its.number == section) else { return 0 };
    let ended = state.sections.remove(index);
    state.update_flags();
    drop(state);
    record_rest(&ended);
    make()
}

/// How many deferred calls of a function are recorded one by one in a section. Further calls are only counted.
const LISTED: u64 = 100;

fn record_rest(section: &Section) {
    for (hook, all) in section.deferred.iter().filter(|(_, all)| **all > LISTED) {
        let call = Call::plain(*hook);
        deferred_event(call, Subject::More { count: all - LISTED }, &section.kernel);
    }
}

fn deferred_event(call: Call, subject: Subject<&str>, resident: &str) {
    let (kind, rule) = (Kind::Deferred, rules::of(call.name(), true).next());
    let event =
        NewEvent { kind, subject, begun: now(), resident, rule, is_finding: true, ..NewEvent::default() };
    events::record_event(call, event);
}

/// Makes the deferred calls that no section concerns. Returns the number of calls made.
fn make() -> u64 {
    let mut made = 0;
    // In another mode, a free would fail while another thread captures, and end that capture.
    let mode = contexts::exchange_capture_mode(contexts::RELAXED);
    loop {
        let Some(Later { free: Free { call, devices, owner, .. }, make, .. }) = STATE.lock().next() else {
            break;
        };
        let make = || during(call, || make.now());
        let result = match owner {
            // If the context is gone, so is the memory, and its address may be that of something else by now.
            Owner::Context(context) => contexts::within(context, make),
            Owner::Process => Some(make()),
        };
        if let Some(result) = result {
            made += 1;
            if result != CUresult::CUDA_SUCCESS {
                let (name, subject) = (call.name(), call.subject);
                say(&format!("`{name}` of {subject:#x}, which was deferred, has failed: {result:?}"));
            }
        }
        STATE.lock().deferred.made(devices);
    }
    contexts::exchange_capture_mode(mode);
    made
}

/// Returns whether there is a section on any device.
#[inline]
pub(crate) fn any() -> bool {
    DEVICES.load(Ordering::Relaxed) != 0
}

/// Returns the strictest section on these devices, for a call that waits for their kernels.
pub(crate) fn find_on_devices(devices: Devices) -> Option<ActiveSection> {
    if !devices.overlap(Devices(DEVICES.load(Ordering::Relaxed))) {
        return None;
    }
    find_strictest(&mut STATE.lock().sections, devices).map(|section| section.active())
}

/// Returns the strictest section on a device.
pub(crate) fn find_on_device(device: CUdevice) -> Option<ActiveSection> {
    find_on_devices(Devices::from_device(device))
}

/// Returns the strictest section on the device of the current context.
#[inline]
pub(crate) fn find_in_current_context() -> Option<ActiveSection> {
    if any() { find_on_device(contexts::current_device()?) } else { None }
}

/// Returns the strictest section on the device of a context.
#[inline]
pub(crate) fn find_in_context(context: u64) -> Option<ActiveSection> {
    if any() { find_on_device(contexts::device_of(context)?) } else { None }
}

/// Returns the strictest section whose kernel runs in a context, for a call that waits for all work there.
pub(crate) fn find_running_in(context: u64) -> Option<ActiveSection> {
    if !any() {
        return None;
    }
    let (devices, contexts) = (Devices::from_device(contexts::device_of(context)?), contexts::list());
    // A green context, which is not in the list, may be a part of the other context.
    let is_apart = |section: &Section| {
        section.context != context && [section.context, context].iter().all(|its| contexts.contains(its))
    };
    let concerns = |section: &Section| section.devices.overlap(devices) && !is_apart(section);
    find_strictest_where(&mut STATE.lock().sections, concerns).map(|section| section.active())
}

/// Returns the strictest section on the device of a stream's context.
#[inline]
pub(crate) fn find_in_context_of(stream: u64) -> Option<ActiveSection> {
    if any() { find_in_context(contexts::find_for_stream(stream)) } else { None }
}

/// Returns whether a stream may be that of a section: false is certain.
#[inline]
pub(crate) fn may_own(stream: u64) -> bool {
    STREAMS.load(Ordering::Relaxed) & stream_mark(stream) != 0
}

/// Returns the section whose kernel runs in a stream.
#[inline]
pub(crate) fn find_by_stream(stream: u64) -> Option<ActiveSection> {
    if may_own(stream) { look_up_stream(stream) } else { None }
}

#[cold]
fn look_up_stream(stream: u64) -> Option<ActiveSection> {
    let state = STATE.lock();
    let mut its = state.sections.iter().filter(|section| section.is_launched && section.stream == stream);
    its.next().map(Section::active)
}

/// A launch in a stream, as sections see it.
pub(crate) enum Launch {
    /// No section has this stream.
    Elsewhere,
    /// The launch of a section's kernel, with the section's number.
    Own(u64),
    /// A launch after the resident kernel of this section, in the same stream.
    Behind(ActiveSection),
}

/// Classifies a launch in a stream. The first launch in a section's stream is that of the section's kernel; later
/// launches come after the kernel.
pub(crate) fn classify_launch(stream: u64) -> Launch {
    let mut state = STATE.lock();
    let mut launch = Launch::Elsewhere;
    for section in state.sections.iter_mut().filter(|section| section.stream == stream) {
        if section.is_launched {
            return Launch::Behind(section.active());
        }
        section.is_launched = true;
        launch = Launch::Own(section.number);
    }
    launch
}

/// Launches the kernel of a section, which does not wait for itself. If the launch fails, the next launch in the stream
/// counts as the kernel's.
pub(crate) fn launch_resident(section: u64, launch: impl FnOnce() -> CUresult) -> CUresult {
    let before = LAUNCHING.replace(section);
    let result = launch();
    LAUNCHING.set(before);
    if result != CUresult::CUDA_SUCCESS {
        let mut state = STATE.lock();
        let its = state.sections.iter_mut().filter(|its| its.number == section);
        its.for_each(|section| section.is_launched = false);
    }
    result
}

/// Remembers that an event was recorded in a stream.
#[inline]
pub(crate) fn recorded(event: u64, stream: u64) {
    if may_own(stream) || EVENTS.load(Ordering::Relaxed) {
        record_in(event, stream);
    }
}

#[cold]
fn record_in(event: u64, stream: u64) {
    let mut state = STATE.lock();
    let mut its = state.sections.iter().filter(|section| section.is_launched && section.stream == stream);
    match its.next().map(|section| section.number) {
        Some(section) => state.events.insert(event, section),
        None => state.events.remove(&event),
    };
    EVENTS.store(!state.events.is_empty(), Ordering::Relaxed);
}

/// Forgets an old event, whose handle a new event may have.
#[inline]
pub(crate) fn forget_event(event: u64) {
    if EVENTS.load(Ordering::Relaxed) {
        STATE.lock().events.remove(&event);
    }
}

/// Returns the section in whose stream an event was recorded after the section's kernel.
#[inline]
pub(crate) fn find_by_event(event: u64) -> Option<ActiveSection> {
    if !EVENTS.load(Ordering::Relaxed) {
        return None;
    }
    let state = STATE.lock();
    let number = state.events.get(&event)?;
    state.sections.iter().find(|section| section.number == *number).map(Section::active)
}

/// The outcome for a call that should be deferred.
pub(crate) enum Outcome<F> {
    Deferred,
    /// A call for the same address or handle is deferred already.
    Again,
    /// No section concerns the call any more.
    NotNeeded(F),
}

/// Defers a call, and records the deferral.
pub(crate) fn defer<F: FnOnce() -> CUresult + 'static>(free: Free, make: F) -> Outcome<F> {
    let mut state = STATE.lock();
    let State { sections, deferred, .. } = &mut *state;
    let Some(section) = find_strictest(sections, free.devices) else { return Outcome::NotNeeded(make) };
    let call = free.call;
    if !deferred.put(free, make) {
        return Outcome::Again;
    }
    DEFERRED.store(deferred.len(), Ordering::Relaxed);
    let count = section.deferred.entry(call.hook).or_default();
    *count += 1;
    let listed = (*count <= LISTED).then(|| section.kernel.clone());
    drop(state);
    if let Some(kernel) = listed {
        deferred_event(call, call.described(), &kernel);
    }
    Outcome::Deferred
}

/// Returns whether this address or handle will be freed by a deferred call.
#[inline]
pub(crate) fn is_deferred(subject: u64) -> bool {
    DEFERRED.load(Ordering::Relaxed) > 0 && STATE.lock().deferred.has(subject)
}

/// Memory of a device that waits to be freed.
pub(crate) struct WaitingFrees {
    pub(crate) bytes: u64,
    pub(crate) count: usize,
    /// A resident kernel that the frees wait for.
    pub(crate) kernel: Arc<str>,
}

/// Returns the memory that deferred calls will free on this device, or `None` if there are no such calls.
pub(crate) fn waiting_frees(device: CUdevice) -> Option<WaitingFrees> {
    if DEFERRED.load(Ordering::Relaxed) == 0 {
        return None;
    }
    let devices = Devices::from_device(device);
    let mut state = STATE.lock();
    let (bytes, count) = state.deferred.waiting(devices);
    let kernel = find_strictest(&mut state.sections, devices)?.kernel.clone();
    (count > 0).then_some(WaitingFrees { bytes, count, kernel })
}

/// Forgets deferred calls that would free objects of a context that is gone: another context may get its handle, and
/// memory at these addresses.
pub(crate) fn forget_context(context: u64) {
    let mut state = STATE.lock();
    state.deferred.forget(context);
    DEFERRED.store(state.deferred.len(), Ordering::Relaxed);
}

/// Resets the flags in a forked child, which has no section: what runs on the device is its parent's.
pub(crate) fn forked() {
    DEVICES.store(0, Ordering::Relaxed);
    STREAMS.store(0, Ordering::Relaxed);
    EVENTS.store(false, Ordering::Relaxed);
    DEFERRED.store(0, Ordering::Relaxed);
    LAUNCHING.set(0);
}
