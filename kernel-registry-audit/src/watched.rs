//! The record of this process, each thread's call in progress, and events.

use std::cell::Cell;
use std::env;
use std::ffi::{CString, c_void};
use std::fs;
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, Once, OnceLock, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use cudarc::driver::sys::CUresult;

use crate::options::Audit;
use crate::record::{self, Event, Header, Kind, Layout, MAGIC, SIZE, SLOTS, Slot, Text, VERSION};
use crate::{caller, hang, hooks, ready};

static RECORD: AtomicPtr<Layout> = AtomicPtr::new(ptr::null_mut());

/// The record of this process. The first call makes it, also in a child that was forked.
#[inline]
pub(crate) fn record() -> &'static Layout {
    let record = RECORD.load(Ordering::Acquire);
    let record = if record.is_null() { begin() } else { record };
    // SAFETY: `begin` made it of a mapping that is never unmapped, and all that changes there are atomics and strings,
    // which are only reached through pointers.
    unsafe { &*record }
}

#[cold]
fn begin() -> *mut Layout {
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let record = RECORD.load(Ordering::Acquire);
    if !record.is_null() {
        return record;
    }
    let record = mapped().cast::<Layout>();
    // SAFETY: a mapping of a record's size, aligned to a page; zeros are valid there.
    let Layout { header, .. } = unsafe { &*record };
    let since_start = start().elapsed();
    let started = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    header.magic.store(MAGIC, Ordering::Relaxed);
    header.version.store(VERSION, Ordering::Relaxed);
    header.process.store(process::id(), Ordering::Relaxed);
    header.started.store(nanoseconds(started.saturating_sub(since_start)), Ordering::Relaxed);
    let command: Vec<_> = env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
    write(record, &header.command, &command.join(" "));
    RECORD.store(record, Ordering::Release);

    static HANDLERS: Once = Once::new();
    HANDLERS.call_once(|| {
        // SAFETY: both are called without arguments, and stay where they are.
        unsafe {
            libc::atexit(ended);
            libc::pthread_atfork(None, None, Some(forked));
        }
        ready::start();
    });
    hang::start();
    record
}

/// The time at which the process began to be watched.
fn start() -> Instant {
    static START: OnceLock<Instant> = OnceLock::new();
    *START.get_or_init(Instant::now)
}

/// Nanoseconds since the start.
pub(crate) fn now() -> u64 {
    nanoseconds(start().elapsed())
}

fn nanoseconds(time: Duration) -> u64 {
    time.as_nanos().try_into().unwrap_or(u64::MAX)
}

/// A mapping of the record's file, or of memory if there can be none, which is said once.
fn mapped() -> *mut c_void {
    let file = Audit::chosen().records.as_ref().map(|folder| {
        let path = free(folder);
        file(&path).inspect_err(|error| {
            eprintln!("kernel-registry-audit: no record in `{}`: {error}", path.display());
        })
    });
    let (flags, descriptor) = match file {
        Some(Ok(descriptor)) => (libc::MAP_SHARED, descriptor),
        _ => (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1),
    };
    // SAFETY: a new mapping touches no other memory.
    let mapped = unsafe {
        libc::mmap(ptr::null_mut(), SIZE, libc::PROT_READ | libc::PROT_WRITE, flags, descriptor, 0)
    };
    if mapped == libc::MAP_FAILED {
        // Without a record nothing can be watched, and the program must not go on half watched.
        eprintln!("kernel-registry-audit: no memory for a record of {SIZE} bytes");
        process::abort();
    }
    mapped
}

/// A path that no record has: a process can execute several programs.
fn free(folder: &Path) -> PathBuf {
    let names = (0..).map(|number| match number {
        0 => format!("{}.rec", process::id()),
        number => format!("{}-{number}.rec", process::id()),
    });
    names.map(|name| folder.join(name)).find(|path| !path.exists()).unwrap_or_default()
}

/// A file of the record's size, whose disk space is taken now: a full disk would end the program later.
fn file(path: &Path) -> std::io::Result<i32> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let name = CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: the name ends with a zero.
    let descriptor =
        unsafe { libc::open(name.as_ptr(), libc::O_RDWR | libc::O_CREAT | libc::O_CLOEXEC, 0o644) };
    if descriptor < 0 {
        return Err(std::io::Error::last_os_error());
    }
    // SAFETY: the descriptor is open.
    match unsafe { libc::posix_fallocate(descriptor, 0, SIZE as libc::off_t) } {
        0 => Ok(descriptor),
        error => {
            let _ = fs::remove_file(path);
            Err(std::io::Error::from_raw_os_error(error))
        }
    }
}

extern "C" fn ended() {
    let record = RECORD.load(Ordering::Acquire);
    if !record.is_null() {
        // SAFETY: see `record`.
        unsafe { (*record).header.ended.store(1, Ordering::Relaxed) };
    }
}

/// Set in a child of a process that had used the driver.
static FORKED: AtomicBool = AtomicBool::new(false);

pub(crate) fn is_forked() -> bool {
    FORKED.load(Ordering::Relaxed)
}

/// In a child that was forked: the record belongs to the parent, so the next call makes another one.
extern "C" fn forked() {
    RECORD.store(ptr::null_mut(), Ordering::Release);
    FORKED.store(true, Ordering::Relaxed);
    // The parent's slot is not this thread's.
    SLOT.set(ptr::null());
}

thread_local! {
    /// This thread's slot, or null before its first call. It has no destructor, so reading it is one load.
    static SLOT: Cell<*const Slot> = const { Cell::new(ptr::null()) };

    /// Gives the slot back when the thread ends.
    static LEAVE: Leave = const { Leave };
}

struct Leave;

impl Drop for Leave {
    fn drop(&mut self) {
        // While the thread ends, it has none.
        let slot = SLOT.replace(&NOBODY);
        if slot.is_null() || ptr::eq(slot, &NOBODY) {
            return;
        }
        // SAFETY: slots are in the record, which is never unmapped.
        let slot = unsafe { &*slot };
        let header = &record().header;
        header.launches.fetch_add(slot.launches.swap(0, Ordering::Relaxed), Ordering::Relaxed);
        header.calls.fetch_add(slot.sequence.swap(0, Ordering::Relaxed), Ordering::Relaxed);
        slot.thread.store(0, Ordering::Release);
    }
}

/// The slot of threads that found none free. Nothing watches it.
// SAFETY: zeros are valid in a slot, which is made of atomics.
static NOBODY: Slot = unsafe { MaybeUninit::zeroed().assume_init() };

/// This thread's slot.
#[inline]
fn slot() -> &'static Slot {
    let slot = SLOT.get();
    let slot = if slot.is_null() { enter() } else { slot };
    // SAFETY: slots are never freed.
    unsafe { &*slot }
}

#[cold]
fn enter() -> *const Slot {
    // SAFETY: it returns the thread's number.
    let number = unsafe { libc::gettid() }.unsigned_abs();
    let free =
        |slot: &&Slot| slot.thread.compare_exchange(0, number, Ordering::AcqRel, Ordering::Relaxed).is_ok();
    // A thread that ends would not give it back.
    let slots = LEAVE.try_with(|_| record().slots.iter()).into_iter().flatten();
    let slot = { slots }.find(free).map_or(&raw const NOBODY, ptr::from_ref);
    SLOT.set(slot);
    slot
}

/// A call in progress.
#[derive(Clone, Copy)]
pub(crate) struct Call {
    /// Its number in the table of hooks.
    pub(crate) hook: u32,
    /// What it is about.
    pub(crate) subject: u64,
    pub(crate) stream: u64,
}

/// Makes a call, which is in progress meanwhile.
#[inline]
pub(crate) fn during(call: Call, real: impl FnOnce() -> CUresult) -> CUresult {
    within(slot(), call, real)
}

/// Makes a launch, which is in progress meanwhile, and is [`launched`].
#[inline]
pub(crate) fn launch(call: Call, real: impl FnOnce() -> CUresult) -> CUresult {
    let slot = slot();
    count(slot, call.stream, call.subject);
    within(slot, call, real)
}

#[inline]
fn within(slot: &Slot, call: Call, real: impl FnOnce() -> CUresult) -> CUresult {
    slot.subject.store(call.subject, Ordering::Relaxed);
    slot.stream.store(call.stream, Ordering::Relaxed);
    // A hook can be called by the driver behind, or by another hook. Only this thread writes to its slot.
    let outer = slot.call.load(Ordering::Relaxed);
    slot.call.store(call.hook + 1, Ordering::Relaxed);
    let result = real();
    slot.call.store(outer, Ordering::Relaxed);
    increment(&slot.sequence);
    result
}

#[inline]
fn increment(number: &AtomicU64) {
    number.store(number.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
}

/// Counts a launch, and remembers which kernel this thread launched last in the stream.
pub(crate) fn launched(stream: u64, kernel: u64) {
    count(slot(), stream, kernel);
}

#[inline]
fn count(slot: &Slot, stream: u64, kernel: u64) {
    increment(&slot.launches);
    // The default stream is 0, so each handle is stored plus one. Handles are addresses, which leave room for the thread.
    let key = (stream + 1) ^ (ptr::from_ref(slot).addr() as u64 / size_of::<Slot>() as u64) << HANDLE;
    let first = &STREAMS[place(key)];
    let last = if first.key.load(Ordering::Relaxed) == key { Some(first) } else { find(key) };
    if let Some(last) = last {
        last.kernel.store(kernel, Ordering::Relaxed);
        last.thread.store(slot.thread.load(Ordering::Relaxed), Ordering::Relaxed);
    }
}

fn place(key: u64) -> usize {
    (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 52) as usize
}

/// The place of a key that is new, or not where it belongs. There may be none left.
#[cold]
fn find(key: u64) -> Option<&'static Last> {
    let places = (0..16).map(|step| &STREAMS[(place(key) + step) % STREAMS.len()]);
    { places }.find(|last| {
        let found = last.key.compare_exchange(0, key, Ordering::Relaxed, Ordering::Relaxed);
        found.is_ok() || found == Err(key)
    })
}

/// Bits of a stream's handle.
const HANDLE: u32 = 48;

/// The last kernel that a thread launched in a stream, in a cache line that no other thread writes to.
#[repr(align(64))]
struct Last {
    /// The stream, and the thread's slot.
    key: AtomicU64,
    kernel: AtomicU64,
    thread: AtomicU32,
}

static STREAMS: [Last; 4096] =
    [const { Last { key: AtomicU64::new(0), kernel: AtomicU64::new(0), thread: AtomicU32::new(0) } }; 4096];

impl Last {
    /// The stream, once there is one.
    fn stream(&self) -> Option<u64> {
        (self.key.load(Ordering::Relaxed) & ((1 << HANDLE) - 1)).checked_sub(1)
    }
}

/// Streams in which kernels were launched: the stream, and for each thread its last kernel there.
pub(crate) fn streams() -> impl Iterator<Item = (u64, u64, u64)> {
    STREAMS.iter().filter_map(|last| {
        let kernel = last.kernel.load(Ordering::Relaxed);
        Some((last.stream()?, kernel, last.thread.load(Ordering::Relaxed).into()))
    })
}

/// A stream was destroyed.
pub(crate) fn forget_stream(stream: u64) {
    let its = STREAMS.iter().filter(|last| last.stream() == Some(stream));
    // The place stays taken, so that others behind it are still found: the kernel is what is forgotten.
    its.for_each(|last| last.kernel.store(0, Ordering::Relaxed));
}

/// Makes a call, and records it as slow if it was.
pub(crate) fn timed(call: Call, name: &str, real: impl FnOnce() -> CUresult) -> CUresult {
    let begun = now();
    let result = during(call, real);
    let took = now() - begun;
    if took >= slow() {
        event(Happening { kind: Kind::Slow, call, name, subject: "", begun, took, result });
    }
    result
}

fn slow() -> u64 {
    nanoseconds(Audit::chosen().slow)
}

/// Something to be recorded.
#[derive(Clone, Copy)]
pub(crate) struct Happening<'a> {
    pub(crate) kind: Kind,
    pub(crate) call: Call,
    /// The driver's function.
    pub(crate) name: &'a str,
    pub(crate) subject: &'a str,
    pub(crate) begun: u64,
    pub(crate) took: u64,
    pub(crate) result: CUresult,
}

/// Records an event of this thread, with its stack.
pub(crate) fn event(happening: Happening<'_>) {
    let (caller, stack) = caller::caller(hooks::address(happening.call.hook));
    let thread = slot().thread.load(Ordering::Relaxed);
    let is_finding = ready::is_ready() && happening.kind != Kind::Slow;
    record_event(happening, thread, is_finding, &caller, &stack);
}

/// Records an event.
pub(crate) fn record_event(
    happening: Happening<'_>,
    thread: u32,
    is_finding: bool,
    caller: &str,
    text: &str,
) {
    let Happening { kind, call, name, subject, begun, took, result } = happening;
    let record = record();
    let index = record.header.events.fetch_add(1, Ordering::Relaxed);
    let Some(event) = usize::try_from(index).ok().and_then(|index| record.events.get(index)) else { return };
    let Event { kind: written, .. } = event;
    event.thread.store(thread, Ordering::Relaxed);
    event.begun.store(begun, Ordering::Relaxed);
    event.took.store(took, Ordering::Relaxed);
    event.stream.store(call.stream, Ordering::Relaxed);
    event.result.store(result as u32, Ordering::Relaxed);
    event.is_finding.store(is_finding.into(), Ordering::Relaxed);
    for (place, text) in
        [(&event.call, name), (&event.subject, subject), (&event.caller, caller), (&event.text, text)]
    {
        write(record, place, text);
    }
    written.store(kind as u32, Ordering::Release);
}

fn write(record: *const Layout, place: &Text, text: &str) {
    // SAFETY: it is the mapped record of this process.
    let (at, len) = unsafe { record::write(record, text) };
    place.at.store(at, Ordering::Relaxed);
    place.len.store(len, Ordering::Relaxed);
}

/// Records that the program is ready.
pub(crate) fn mark_ready() {
    let Header { ready, .. } = &record().header;
    let _ = ready.compare_exchange(0, now().max(1), Ordering::Relaxed, Ordering::Relaxed);
}

/// The slots with a thread.
pub(crate) fn slots() -> impl Iterator<Item = (usize, &'static Slot)> {
    let slots = record().slots.iter().take(SLOTS).enumerate();
    slots.filter(|(_, slot)| slot.thread.load(Ordering::Relaxed) > 0)
}

/// The record of this process, and its size in bytes, for another copy of this crate.
#[cfg_attr(feature = "export", unsafe(no_mangle))]
pub extern "C" fn kernel_registry_audit_record(size: &mut usize) -> *const AtomicU64 {
    *size = SIZE;
    ptr::from_ref(record()).cast()
}
