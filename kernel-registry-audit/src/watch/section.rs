//! Sections: while a kernel stays on a device, calls that would wait for it are refused, reported or put off.
//!
//! Where no section is, a call costs the load of a flag. A launch in another stream costs no more inside of one.

mod deferred;

use std::cell::Cell;
use std::collections::{BTreeMap, HashMap};
use std::ffi::{CStr, c_char};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use cudarc::driver::sys::{CUcontext, CUdevice, CUresult, CUstream};

use crate::record::Kind;
use crate::watch::locked::Locked;
use crate::watch::recording::{Happening, now};
use crate::watch::say::say;
use crate::watch::watched::{self, Call, during};
use crate::watch::{contexts, hooks};
pub(crate) use deferred::PutOff;
use deferred::{Deferred, Later};

/// What happens to calls that would wait. The strictest is last: it holds if several sections concern a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum OnWait {
    /// They are made, and wait.
    Report,
    /// What frees or unloads succeeds at once, and is made at the end of the section. Other calls are refused.
    Defer,
    Refuse,
}

impl OnWait {
    fn of(number: u32) -> Self {
        match number {
            1 => OnWait::Report,
            2 => OnWait::Defer,
            _ => OnWait::Refuse,
        }
    }
}

/// The device of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Place {
    Device(CUdevice),
    /// It concerns all of them, or nothing tells which.
    Everywhere,
}

/// A section that a call concerns.
pub(crate) struct Beside {
    /// The kernel that stays.
    pub(crate) kernel: Arc<str>,
    pub(crate) on_wait: OnWait,
}

struct Section {
    number: u64,
    kernel: Arc<str>,
    device: CUdevice,
    stream: Stream,
    on_wait: OnWait,
    /// Whether the kernel was launched: until then nothing in its stream waits for it.
    is_launched: bool,
    /// How many calls of each function were put off, by its number.
    put_off: BTreeMap<u32, u64>,
}

impl Section {
    fn is_at(&self, place: Place) -> bool {
        place == Place::Everywhere || place == Place::Device(self.device)
    }

    fn beside(&self) -> Beside {
        Beside { kernel: self.kernel.clone(), on_wait: self.on_wait }
    }
}

/// A stream. The default streams have the same handles in each context, and one of them in each thread.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Stream {
    handle: u64,
    context: u64,
    thread: u32,
}

/// Handles of default streams. In functions with per-thread default streams, 0 means the second.
const LEGACY: u64 = 1;
const PER_THREAD: u64 = 2;

impl Stream {
    fn new(handle: u64, per_thread: bool, context: impl FnOnce() -> u64) -> Self {
        let handle = match handle {
            0 if per_thread => PER_THREAD,
            0 => LEGACY,
            other => other,
        };
        match handle {
            LEGACY => Stream { handle, context: context(), thread: 0 },
            PER_THREAD => Stream { handle, context: context(), thread: watched::thread() },
            _ => Stream { handle, context: 0, thread: 0 },
        }
    }

    /// The stream of a call.
    fn of(hook: u32, handle: u64) -> Self {
        Stream::new(handle, hooks::is_per_thread(hook), contexts::current)
    }

    /// The bits of all its handles.
    fn bits(&self) -> u64 {
        let default = if self.handle <= PER_THREAD { bit(0) } else { 0 };
        bit(self.handle) | default
    }
}

/// One of 64 bits, which others may share.
#[inline]
fn bit(handle: u64) -> u64 {
    1 << (handle.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58)
}

fn bit_of(device: CUdevice) -> u64 {
    1 << (device & 63)
}

static STATE: Locked<State> = Locked::new();

/// The bits of all devices with a section.
static DEVICES: AtomicU64 = AtomicU64::new(0);

/// The bits of the sections' streams.
static STREAMS: AtomicU64 = AtomicU64::new(0);

/// Whether events were recorded in the sections' streams.
static EVENTS: AtomicBool = AtomicBool::new(false);

#[derive(Default)]
struct State {
    last: u64,
    sections: Vec<Section>,
    /// Events that were recorded behind the kernel of a section, by its number.
    events: HashMap<u64, u64>,
    deferred: Deferred,
}

impl State {
    /// The flags follow the sections.
    fn changed(&mut self) {
        let State { sections, events, .. } = self;
        events.retain(|_, number| sections.iter().any(|section| section.number == *number));
        let bits = |of: fn(&Section) -> u64| sections.iter().map(of).fold(0, |all, its| all | its);
        DEVICES.store(bits(|section| bit_of(section.device)), Ordering::Relaxed);
        STREAMS.store(bits(|section| section.stream.bits()), Ordering::Relaxed);
        EVENTS.store(!events.is_empty(), Ordering::Relaxed);
    }

    /// The next call that was put off and waits for no section any more.
    fn next(&mut self) -> Option<(Place, Later)> {
        let State { sections, deferred, .. } = self;
        deferred.next(|place| !sections.iter().any(|section| section.is_at(place)))
    }
}

/// The strictest section that a call of this thread concerns there.
fn strictest(sections: &mut [Section], place: Place) -> Option<&mut Section> {
    let own = LAUNCHING.get();
    let there = sections.iter_mut().filter(|section| section.number != own && section.is_at(place));
    there.max_by_key(|section| section.on_wait)
}

thread_local! {
    /// The section whose kernel this thread is launching, or 0.
    static LAUNCHING: Cell<u64> = const { Cell::new(0) };
}

/// Begins a section, before its kernel is launched in this stream. `on_wait` is 0 to refuse, 1 to report, 2 to defer. Returns its
/// number, which is never 0.
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
    // No call concerns the device of a context that is gone.
    let device = contexts::device_of(context).unwrap_or(-1);
    let stream = Stream::new(stream.addr() as u64, false, || context);
    let mut state = STATE.lock();
    state.last += 1;
    let number = state.last;
    state.sections.push(Section {
        number,
        kernel: kernel.as_ref().into(),
        device,
        stream,
        on_wait: OnWait::of(on_wait),
        is_launched: false,
        put_off: BTreeMap::new(),
    });
    state.changed();
    drop(state);
    // No other call that was put off is made from now on, but one may be in progress, and would wait for the kernel.
    while STATE.lock().deferred.is_making(Place::Device(device)) {
        thread::sleep(Duration::from_micros(20));
    }
    number
}

/// Ends a section, after its kernel has ended, and makes the calls that were put off and that no other section concerns. Returns how
/// many.
#[cfg_attr(feature = "export", unsafe(no_mangle))]
pub extern "C" fn kernel_registry_audit_section_end(section: u64) -> u64 {
    let mut state = STATE.lock();
    let Some(index) = state.sections.iter().position(|its| its.number == section) else { return 0 };
    let ended = state.sections.remove(index);
    state.changed();
    drop(state);
    record_rest(&ended);
    make()
}

/// The calls of a function that are recorded one by one when they are put off in a section. The others are counted.
const LISTED: u64 = 100;

fn record_rest(section: &Section) {
    for (hook, all) in section.put_off.iter().filter(|(_, all)| **all > LISTED) {
        let call = Call { hook: *hook, subject: 0, stream: 0 };
        put_off_event(call, &format!("{} more", all - LISTED), &section.kernel);
    }
}

fn put_off_event(call: Call, subject: &str, resident: &str) {
    watched::event(Happening {
        kind: Kind::Deferred,
        call,
        name: hooks::name(call.hook),
        subject,
        image: "",
        bytes: 0,
        begun: now(),
        took: 0,
        result: CUresult::CUDA_SUCCESS,
        resident,
    });
}

/// Makes the calls that were put off, until a section concerns all that are left.
fn make() -> u64 {
    let before = contexts::current();
    let (mut current, mut made) = (before, 0);
    // While another thread captures, a free would fail, and end that capture.
    let mode = contexts::exchange_capture_mode(contexts::RELAXED);
    loop {
        let Some((place, Later { call, context, make, .. })) = STATE.lock().next() else { break };
        // What belongs to a context is gone with it, and an address may be that of something else by now.
        if context == current || contexts::set_current(context) {
            current = context;
            let result = during(call, || make.now());
            made += 1;
            if result != CUresult::CUDA_SUCCESS {
                let (name, subject) = (hooks::name(call.hook), call.subject);
                say(&format!("`{name}` of {subject:#x}, which was put off, has failed: {result:?}"));
            }
        }
        STATE.lock().deferred.made(place);
    }
    if current != before {
        contexts::set_current(before);
    }
    contexts::exchange_capture_mode(mode);
    made
}

/// Whether there is a section on any device.
#[inline]
pub(crate) fn any() -> bool {
    DEVICES.load(Ordering::Relaxed) != 0
}

/// The section that a call concerns there.
pub(crate) fn at(place: Place) -> Option<Beside> {
    let devices = DEVICES.load(Ordering::Relaxed);
    match place {
        Place::Everywhere if devices == 0 => None,
        Place::Device(device) if devices & bit_of(device) == 0 => None,
        place => strictest(&mut STATE.lock().sections, place).map(|section| section.beside()),
    }
}

/// The section that a call on this device concerns.
pub(crate) fn on(device: CUdevice) -> Option<Beside> {
    at(Place::Device(device))
}

/// The section that a call in the current context concerns.
#[inline]
pub(crate) fn here() -> Option<Beside> {
    if any() { on(contexts::device()?) } else { None }
}

/// The section that a call in this context concerns.
#[inline]
pub(crate) fn in_context(context: u64) -> Option<Beside> {
    if any() { on(contexts::device_of(context)?) } else { None }
}

/// The section that a call in the context of this stream concerns.
#[inline]
pub(crate) fn beside_stream(stream: u64) -> Option<Beside> {
    if any() { in_context(contexts::of_stream(stream)) } else { None }
}

/// Whether this may be the stream of a section.
#[inline]
pub(crate) fn may_own(stream: u64) -> bool {
    STREAMS.load(Ordering::Relaxed) & bit(stream) != 0
}

/// The section whose kernel runs in this stream.
#[inline]
pub(crate) fn owner(hook: u32, stream: u64) -> Option<Beside> {
    if may_own(stream) { find_owner(hook, stream) } else { None }
}

#[cold]
fn find_owner(hook: u32, stream: u64) -> Option<Beside> {
    let stream = Stream::of(hook, stream);
    let state = STATE.lock();
    let mut its = state.sections.iter().filter(|section| section.is_launched && section.stream == stream);
    its.next().map(Section::beside)
}

/// A launch in a stream.
pub(crate) enum Launch {
    /// No section's kernel runs there.
    Elsewhere,
    /// The launch of the section of this number.
    Own(u64),
    /// The kernel runs there.
    Behind(Beside),
}

/// What a launch in this stream is to a section. The first one there launches its kernel.
pub(crate) fn launch(hook: u32, stream: u64) -> Launch {
    let stream = Stream::of(hook, stream);
    let mut state = STATE.lock();
    let mut launch = Launch::Elsewhere;
    for section in state.sections.iter_mut().filter(|section| section.stream == stream) {
        if section.is_launched {
            return Launch::Behind(section.beside());
        }
        section.is_launched = true;
        launch = Launch::Own(section.number);
    }
    launch
}

/// Launches the kernel of a section, which does not wait for itself.
pub(crate) fn launching<T>(section: u64, launch: impl FnOnce() -> T) -> T {
    let before = LAUNCHING.replace(section);
    let result = launch();
    LAUNCHING.set(before);
    result
}

/// An event was recorded in a stream.
#[inline]
pub(crate) fn recorded(hook: u32, event: u64, stream: u64) {
    if may_own(stream) || EVENTS.load(Ordering::Relaxed) {
        record_in(hook, event, stream);
    }
}

#[cold]
fn record_in(hook: u32, event: u64, stream: u64) {
    let stream = Stream::of(hook, stream);
    let mut state = STATE.lock();
    let mut its = state.sections.iter().filter(|section| section.is_launched && section.stream == stream);
    match its.next().map(|section| section.number) {
        Some(section) => state.events.insert(event, section),
        None => state.events.remove(&event),
    };
    EVENTS.store(!state.events.is_empty(), Ordering::Relaxed);
}

/// A new event may have the handle of an old one.
#[inline]
pub(crate) fn forget_event(event: u64) {
    if EVENTS.load(Ordering::Relaxed) {
        STATE.lock().events.remove(&event);
    }
}

/// The section behind whose kernel an event was recorded.
#[inline]
pub(crate) fn of_event(event: u64) -> Option<Beside> {
    if !EVENTS.load(Ordering::Relaxed) {
        return None;
    }
    let state = STATE.lock();
    let number = state.events.get(&event)?;
    state.sections.iter().find(|section| section.number == *number).map(Section::beside)
}

/// Puts a call off, and records that. Returns whether it was put off before and not made yet; or gives the call back if no section
/// concerns it any more.
pub(crate) fn put_off<F: FnOnce() -> CUresult + 'static>(
    place: Place,
    call: Call,
    subject: &str,
    make: F,
) -> Result<PutOff, F> {
    let context = contexts::current();
    let mut state = STATE.lock();
    let State { sections, deferred, .. } = &mut *state;
    let Some(section) = strictest(sections, place) else { return Err(make) };
    let put_off = deferred.put(place, call, context, make);
    let mut listed = None;
    if put_off == PutOff::Now {
        let count = section.put_off.entry(call.hook).or_default();
        *count += 1;
        listed = (*count <= LISTED).then(|| section.kernel.clone());
    }
    drop(state);
    if let Some(kernel) = listed {
        put_off_event(call, subject, &kernel);
    }
    Ok(put_off)
}

/// What was put off in a context that is gone is not made: the next context may have its handle, and memory at the same addresses.
pub(crate) fn context_is_gone(context: u64) {
    // Calls without a context have 0.
    if context != 0 {
        STATE.lock().deferred.forget(context);
    }
}

/// A child that was forked has no section: what runs on the device is its parent's.
pub(crate) fn forked() {
    STATE.renew();
    DEVICES.store(0, Ordering::Relaxed);
    STREAMS.store(0, Ordering::Relaxed);
    EVENTS.store(false, Ordering::Relaxed);
    LAUNCHING.set(0);
}
