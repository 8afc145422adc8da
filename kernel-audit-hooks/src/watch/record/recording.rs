//! Keeps the record of this process, which is made at the first call, and again in a forked child.

use std::collections::HashMap;
use std::env;
use std::ffi::c_void;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};
use std::sync::{Once, OnceLock};
use std::time::{Duration, Instant, SystemTime};

use crate::options::Audit;
use crate::record::{
    self, Fields, InProgress, Kind, Layout, LongCall, MAGIC, MOST, RawEvent, SAMPLES, STRINGS, Sample, Text,
    VERSION, size,
};
use crate::watch::process::fork;
use crate::watch::process::locked::Locked;
use crate::watch::process::say::{self, say};
use crate::watch::process::worker;
use crate::watch::record::new_event::NewEvent;
use crate::watch::record::{call, feed, live, room};

/// Variables in which launchers tell a process its rank.
const RANKS: [&str; 4] = ["RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"];

static RECORD: AtomicPtr<Layout> = AtomicPtr::new(ptr::null_mut());

/// The offsets of texts in the record.
static TEXTS: Locked<HashMap<Vec<u8>, u32>> = Locked::new();

/// The function that is called each time a record was made.
static WITH_EACH: OnceLock<fn()> = OnceLock::new();

/// Calls a function once this process has a record, and once each child that is forked from it has one.
pub(crate) fn with_each(start: fn()) {
    fork::undivided(|| {
        if WITH_EACH.set(start).is_ok() && !RECORD.load(Ordering::Acquire).is_null() {
            start();
        }
    });
}

/// Returns the record of this process. The first call makes the record, also in a forked child.
#[inline]
pub(crate) fn record() -> &'static Layout {
    let record = RECORD.load(Ordering::Acquire);
    let record = if record.is_null() { begin() } else { record };
    if record.is_null() {
        // A forked child of a watched process must not go on half watched.
        process::abort();
    }
    // SAFETY: the record is in a mapping that is never unmapped. All that changes in the record are atomics and
    // strings, which are only reached through pointers.
    unsafe { &*record }
}

/// Set if there was no memory for a record, or if the process is divided: from then on nothing is watched.
static IS_OFF: AtomicBool = AtomicBool::new(false);

/// Returns whether this process has a record, or can make one.
pub(crate) fn is_possible() -> bool {
    let is_off = IS_OFF.load(Ordering::Relaxed)
        || is_divided()
        || RECORD.load(Ordering::Acquire).is_null() && begin().is_null();
    IS_OFF.store(is_off, Ordering::Relaxed);
    !is_off
}

fn is_divided() -> bool {
    let is_divided = fork::is_divided();
    if is_divided {
        let process = process::id();
        say(&format!(
            "process {process} is not watched: it was forked during its parent's first call of the driver"
        ));
    }
    is_divided
}

/// Makes the record, if no other thread did. Returns null if there is no memory for the record.
#[cold]
fn begin() -> *mut Layout {
    fork::undivided(|| match RECORD.load(Ordering::Acquire) {
        record if record.is_null() => make(),
        record => record,
    })
}

fn make() -> *mut Layout {
    let room = Audit::chosen().events.clamp(1, MOST) as usize;
    let record = mapped(size(room)).cast::<Layout>();
    if record.is_null() {
        return record;
    }
    room::begin();
    // SAFETY: a mapping of a record's size, aligned to a page; zeros are valid there.
    let Layout { header, .. } = unsafe { &*record };
    let since_start = start().elapsed();
    let started = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    header.version.store(VERSION, Ordering::Relaxed);
    header.process.store(process::id(), Ordering::Relaxed);
    header.started.store(nanoseconds(started.saturating_sub(since_start)), Ordering::Relaxed);
    header.room.store(room as u64, Ordering::Relaxed);
    // Texts begin at offset 1, because offset 0 means no text.
    header.strings.store(1, Ordering::Relaxed);
    let rank = RANKS.iter().find_map(|name| env::var(name).ok()?.parse::<u32>().ok());
    header.rank.store(rank.map_or(0, |rank| rank.saturating_add(1)), Ordering::Relaxed);
    let command: Vec<_> = env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
    write(record, &header.command, command.join(" ").as_bytes());
    let program = worker::program(&command).unwrap_or_default();
    write(record, &header.worker_of, program.join(" ").as_bytes());
    let functions: Vec<_> = call::list_hooks().iter().map(|hook| hook.name).collect();
    write(record, &header.functions, functions.join("\n").as_bytes());
    say::count_in(Some(&header.unsaid));
    header.lacks_thread.store(LACKS_THREAD.load(Ordering::Relaxed).into(), Ordering::Relaxed);
    header.magic.store(MAGIC, Ordering::Release);
    RECORD.store(record, Ordering::Release);
    // A program can say that it's ready before it uses the driver.
    if is_ready() {
        mark_ready();
    }
    if uses_kernel_registry() {
        mark_kernel_registry();
    }

    static HANDLERS: Once = Once::new();
    fork::call_once(&HANDLERS, || {
        // SAFETY: `ended` is called without arguments, and stays where it is.
        unsafe { libc::atexit(ended) };
        fork::in_child(forked);
    });
    if let Some(start) = WITH_EACH.get() {
        start();
    }
    record
}

/// Returns the time at which the process began to be watched.
fn start() -> Instant {
    static START: OnceLock<Instant> = OnceLock::new();
    *fork::once(&START, Instant::now)
}

/// Returns nanoseconds since the start.
pub(crate) fn now() -> u64 {
    nanoseconds(start().elapsed())
}

pub(crate) fn nanoseconds(time: Duration) -> u64 {
    time.as_nanos().try_into().unwrap_or(u64::MAX)
}

/// Maps the record's file; or memory, if no folder is given or no file can be made in the folder. Returns null if there
/// is no memory.
fn mapped(size: usize) -> *mut c_void {
    let file = Audit::chosen().records.as_ref().map(|folder| {
        loop {
            let path = free(folder);
            match file(&path, size) {
                // The name is taken, for example by a process of the same number in another container: the next name is
                // tried. If the folder itself is a file, the error is the same, but the path does not exist.
                Err(error) if error.kind() == ErrorKind::AlreadyExists && path.exists() => {}
                Err(error) => {
                    let why = format!("no record in `{}`: {error}", path.display());
                    say(&why);
                    // If the file exists, the command learns it from the file being empty.
                    if !path.exists() {
                        say::tell_of_no_record(&format!("process {} has {why}", process::id()));
                    }
                    return Err(error);
                }
                made => return made,
            }
        }
    });
    let (flags, descriptor) = match &file {
        Some(Ok(file)) => (libc::MAP_SHARED, file.as_raw_fd()),
        _ => (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1),
    };
    // SAFETY: a new mapping touches no other memory.
    let mapped = unsafe {
        libc::mmap(ptr::null_mut(), size, libc::PROT_READ | libc::PROT_WRITE, flags, descriptor, 0)
    };
    if mapped == libc::MAP_FAILED {
        say(&format!(
            "no memory for a record of {size} bytes, so process {} is not watched: allow it more, or fewer --events",
            process::id()
        ));
        return ptr::null_mut();
    }
    // The mapping stays without the file's descriptor.
    mapped
}

/// Returns a path that no record has yet: a process can execute several programs, each with a record.
fn free(folder: &Path) -> PathBuf {
    let run = Audit::chosen().run.as_ref().map(|run| format!(".{run}")).unwrap_or_default();
    let names = (0..).map(|number| match number {
        0 => format!("{}{run}.rec", process::id()),
        number => format!("{}-{number}{run}.rec", process::id()),
    });
    names.map(|name| folder.join(name)).find(|path| !path.exists()).unwrap_or_default()
}

/// Makes a file of the record's size, and reserves disk space for its beginnings. If there is no space, the file stays
/// empty, which tells readers why.
fn file(path: &Path, size: usize) -> io::Result<File> {
    // The command has made its folder. If the folder is missing here, this process has another root folder.
    if let Some(folder) = path.parent().filter(|_| !say::has_command()) {
        fs::create_dir_all(folder)?;
    }
    let file = File::options().read(true).write(true).create_new(true).mode(0o644).open(path)?;
    let reserve = |(offset, length): (usize, usize)| {
        // SAFETY: the descriptor is open.
        match unsafe { libc::posix_fallocate(file.as_raw_fd(), offset as libc::off_t, length as libc::off_t) }
        {
            0 => Ok(()),
            why => Err(io::Error::from_raw_os_error(why)),
        }
    };
    let made = match may_be(size) {
        true => room::first(size).into_iter().try_for_each(reserve).and_then(|()| file.set_len(size as u64)),
        false => Err(io::Error::from_raw_os_error(libc::EFBIG)),
    };
    if let Err(error) = made {
        let _ = file.set_len(0);
        return Err(error);
    }
    Ok(file)
}

/// Returns whether a file of this process may have this size. A signal ends a process that writes a larger file.
pub(crate) fn may_be(size: usize) -> bool {
    let mut limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: the call stores two numbers.
    unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &mut limit) };
    size as u64 <= limit.rlim_cur
}

/// Returns the record, if there is one yet.
fn existing() -> Option<&'static Layout> {
    // SAFETY: see `record`.
    unsafe { RECORD.load(Ordering::Acquire).as_ref() }
}

extern "C" fn ended() {
    if let Some(record) = existing() {
        record.header.ended.store(1, Ordering::Relaxed);
    }
}

/// Whether this process is a child of a process that had used the driver.
static FORKED: AtomicBool = AtomicBool::new(false);

pub(crate) fn is_forked() -> bool {
    FORKED.load(Ordering::Relaxed)
}

/// Makes the next call in a forked child make another record, because this record is the parent's.
fn forked() {
    FORKED.store(true, Ordering::Relaxed);
    READY.store(false, Ordering::Relaxed);
    LACKS_THREAD.store(false, Ordering::Relaxed);
    say::forked();
    RECORD.store(ptr::null_mut(), Ordering::Release);
}

static READY: AtomicBool = AtomicBool::new(false);

/// Returns whether the program counts as ready.
pub(crate) fn is_ready() -> bool {
    READY.load(Ordering::Relaxed)
}

/// The function that is called when a process is ready.
static WHEN_READY: OnceLock<fn()> = OnceLock::new();

/// Calls a function when the program is ready, or now if it is.
pub(crate) fn when_ready(act: fn()) {
    if WHEN_READY.set(act).is_ok() && existing().is_some() && is_ready() {
        act();
    }
}

/// Marks the program as ready. A record that is made later says so from the beginning.
pub(crate) fn mark_ready() {
    READY.store(true, Ordering::Relaxed);
    if let Some(record) = existing() {
        let ready = &record.header.ready;
        let is_first = ready.compare_exchange(0, now().max(1), Ordering::Relaxed, Ordering::Relaxed).is_ok();
        if let Some(act) = WHEN_READY.get().filter(|_| is_first) {
            act();
        }
    }
}

static LACKS_THREAD: AtomicBool = AtomicBool::new(false);

/// Says and records that a thread of the audit could not be started. A record that is made later says so from the
/// beginning.
pub(crate) fn mark_thread_lacking(error: &io::Error, without: &str) {
    say(&format!("a thread could not be started ({error}), so {without}; allow the program more of them"));
    LACKS_THREAD.store(true, Ordering::Relaxed);
    if let Some(record) = existing() {
        record.header.lacks_thread.store(1, Ordering::Relaxed);
    }
}

static USES_KERNEL_REGISTRY: AtomicBool = AtomicBool::new(false);

pub(crate) fn uses_kernel_registry() -> bool {
    USES_KERNEL_REGISTRY.load(Ordering::Relaxed)
}

/// Records that kernel-registry is in the process. A record that is made later says so from the beginning.
pub(crate) fn mark_kernel_registry() {
    USES_KERNEL_REGISTRY.store(true, Ordering::Relaxed);
    if let Some(record) = existing() {
        record.header.uses_kernel_registry.store(1, Ordering::Relaxed);
    }
}

/// Counts a slow call that is not listed.
pub(crate) fn count_unlisted() {
    record().header.unlisted.fetch_add(1, Ordering::Relaxed);
}

/// Records an event, if there is room.
pub(crate) fn write_event(new: NewEvent<'_>) -> Option<&'static RawEvent> {
    write_with(&new.subject.fields(), new)
}

/// Records an event with these fields in place of its subject's, if there is room.
pub(crate) fn write_with(fields: &Fields<&str>, new: NewEvent<'_>) -> Option<&'static RawEvent> {
    feed::add(&new);
    if is_ready() {
        live::log(&new);
    }
    let record = record();
    let room = record.header.room.load(Ordering::Relaxed);
    // A service that waits for the GPU in each request fills a record in hours. What it loads later, and a hang, need room.
    let is_common = new.kind == Kind::Slow && !new.is_finding;
    if is_common && record.header.events.load(Ordering::Relaxed) >= room / 2 {
        record.header.left_out.fetch_add(1, Ordering::Relaxed);
        return None;
    }
    let index = record.header.events.fetch_add(1, Ordering::Relaxed);
    // SAFETY: the record has room for as many events as it says.
    let has_room = index < room && unsafe { room::EVENTS.has(record, index as usize + 1, room as usize) };
    if !has_room {
        record.header.left_out.fetch_add((index < room).into(), Ordering::Relaxed);
        record.header.dropped_findings.fetch_add(new.is_finding.into(), Ordering::Relaxed);
        return None;
    }
    // SAFETY: the mapping has room for this event after the layout. Zeros are valid there, and all fields of an event
    // are atomics.
    let event = unsafe { &*ptr::from_ref(record).add(1).cast::<RawEvent>().add(index as usize) };
    event.thread.store(new.thread, Ordering::Relaxed);
    event.begun.store(new.begun, Ordering::Relaxed);
    event.took.store(new.took, Ordering::Relaxed);
    event.stream.store(new.stream, Ordering::Relaxed);
    event.context.store(new.context, Ordering::Relaxed);
    event.result.store(new.result, Ordering::Relaxed);
    event.is_finding.store(new.is_finding.into(), Ordering::Relaxed);
    write_fields(record, event, fields);
    for (field, text) in [
        (&event.call, new.call),
        (&event.resident, new.resident),
        (&event.rule, new.rule.map_or("", |rule| rule.name)),
        (&event.library, new.library),
        (&event.caller, new.caller),
        (&event.stack, new.stack),
    ] {
        write(record, field, text.as_bytes());
    }
    match new.explanation {
        Some(explanation) => write(record, &event.details, &explanation.to_bytes()),
        None => write(record, &event.details, new.reason.as_bytes()),
    }
    event.kind.store(new.kind as u16, Ordering::Release);
    Some(event)
}

fn write_fields(record: *const Layout, event: &RawEvent, fields: &Fields<&str>) {
    event.subject.store(fields.kind, Ordering::Relaxed);
    event.code.store(fields.code, Ordering::Relaxed);
    for (field, number) in event.numbers.iter().zip(fields.numbers) {
        field.store(number, Ordering::Relaxed);
    }
    for (field, text) in event.texts.iter().zip(fields.texts) {
        write(record, field, text.as_bytes());
    }
}

/// Records the frames of the main thread while the process makes no calls, or none.
pub(crate) fn write_main_thread(frames: &str) {
    let record = record();
    write(record, &record.header.main_thread, frames.as_bytes());
}

/// Records the devices on which the process made a context, a line for each.
pub(crate) fn write_devices(lines: &str) {
    let record = record();
    write(record, &record.header.devices, lines.as_bytes());
}

/// Records how long the call in this slot has been in progress.
pub(crate) fn write_long_call(slot: usize, call: InProgress, took: u64) {
    let Some(LongCall { thread, sequence, took: written }) = record().long_calls.get(slot) else { return };
    let is_same =
        (thread.load(Ordering::Relaxed), sequence.load(Ordering::Relaxed)) == (call.thread, call.sequence);
    if !is_same {
        // A process can be killed between two of these lines: then there is no time.
        written.store(0, Ordering::Release);
        thread.store(call.thread, Ordering::Release);
        sequence.store(call.sequence, Ordering::Release);
    }
    written.store(took, Ordering::Release);
}

/// Records how many kernels were launched in a stream.
pub(crate) fn write_sample(at: u64, stream: u64, launches: u32, kernel: &str) {
    let record = record();
    let index = record.header.samples.fetch_add(1, Ordering::Relaxed);
    let Some(sample) = usize::try_from(index).ok().and_then(|index| record.samples.get(index)) else {
        return;
    };
    // SAFETY: `index` is below `SAMPLES`, for which the record is mapped.
    if !unsafe { room::SAMPLED.has(record, index as usize + 1, SAMPLES) } {
        return;
    }
    let Sample { at: written, stream: of, launches: count, kernel: last } = sample;
    of.store(stream, Ordering::Relaxed);
    count.store(launches, Ordering::Relaxed);
    write(record, last, kernel.as_bytes());
    written.store(at.max(1), Ordering::Release);
}

/// Returns whether half of the room for events is used up.
pub(crate) fn is_half_full() -> bool {
    let header = &record().header;
    header.events.load(Ordering::Relaxed) > header.room.load(Ordering::Relaxed) / 2
}

/// Returns whether half of the room for samples is used up.
pub(crate) fn samples_run_short() -> bool {
    record().header.samples.load(Ordering::Relaxed) > SAMPLES as u64 / 2
}

/// Stores a text. Texts that are equal are stored once.
fn write(record: *const Layout, field: &Text, text: &[u8]) {
    let mut texts = TEXTS.lock();
    let at = texts.get(text).copied().unwrap_or_else(|| {
        // SAFETY: `record` is the mapped record of this process.
        let at = unsafe { record::write(record, text, |bytes| room::TEXTS.has(record, bytes, STRINGS)) };
        texts.insert(text.to_vec(), at);
        at
    });
    field.0.store(at, Ordering::Relaxed);
}

/// Returns the record of this process, and its size in bytes, to another copy of this crate. The record of a process
/// that cannot be watched has no bytes.
#[cfg_attr(feature = "export", unsafe(no_mangle))]
pub extern "C" fn kernel_registry_audit_record(bytes: &mut usize) -> *const AtomicU64 {
    if !is_possible() {
        *bytes = 0;
        return ptr::dangling();
    }
    let record = record();
    *bytes = size(record.header.room.load(Ordering::Relaxed) as usize);
    ptr::from_ref(record).cast()
}
