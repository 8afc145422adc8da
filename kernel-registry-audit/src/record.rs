//! The record of a process: a file that the process maps and writes, and that others read, also while it runs, and after it
//! was killed.
//!
//! A header, a slot for each thread with its call in progress, events, and strings. All numbers are little-endian. The
//! file has its whole size from the beginning; events and strings that find no room are counted, and dropped.

#[cfg(test)]
mod tests;
mod texts;

use std::fmt;
use std::mem::offset_of;
#[cfg(feature = "watch")]
use std::sync::atomic::Ordering;
use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64};

#[cfg(any(test, feature = "watch"))]
use texts::LONGEST;
pub use texts::SharedText;
use texts::Texts;

/// The first bytes of a record.
pub(crate) const MAGIC: u64 = u64::from_le_bytes(*b"kr-audit");
/// The version of the format. A reader refuses others.
pub(crate) const VERSION: u32 = 6;

/// Threads that have a slot.
pub(crate) const SLOTS: usize = 1024;
/// Samples that have room.
pub(crate) const SAMPLES: usize = 65_536;
/// Events that a record has room for at most.
pub(crate) const MOST: u32 = 1 << 24;
/// Bytes of the largest record.
pub const LARGEST: u64 = size(MOST as usize) as u64;
/// Bytes of strings.
pub(crate) const STRINGS: usize = 4 << 20;

/// The beginning of the file.
#[repr(C)]
pub(crate) struct Header {
    pub(crate) magic: AtomicU64,
    pub(crate) version: AtomicU32,
    pub(crate) process: AtomicU32,
    /// The start in nanoseconds since 1970. Times of events count from here.
    pub(crate) started: AtomicU64,
    /// When the program was said to be ready, in nanoseconds since the start, or 0.
    pub(crate) ready: AtomicU64,
    /// Launches by threads that have ended.
    pub(crate) launches: AtomicU64,
    /// Calls by threads that have ended.
    pub(crate) calls: AtomicU64,
    /// Samples so far, also those that found no room.
    pub(crate) samples: AtomicU64,
    /// Threads that found no slot.
    pub(crate) unwatched_threads: AtomicU64,
    /// Launches in streams that found no room for samples.
    pub(crate) unsampled_launches: AtomicU64,
    /// Events so far, also those that found no room.
    pub(crate) events: AtomicU64,
    /// Events that have room.
    pub(crate) room: AtomicU64,
    /// Bytes of strings so far, also those that found no room.
    pub(crate) strings: AtomicU64,
    /// The program's name and arguments.
    pub(crate) command: Text,
    /// The process's rank among those that work together, plus one, or 0.
    pub(crate) rank: AtomicU32,
    /// How the process ended: 0 if it did not say.
    pub(crate) ended: AtomicU32,
    /// Whether kernel-registry is in the process.
    pub(crate) uses_kernel_registry: AtomicU32,
}

/// A string in the record: where its length stands, with the bytes behind it; 0 for none.
#[repr(transparent)]
#[derive(Default)]
pub(crate) struct Text(pub(crate) AtomicU32);

/// A thread, and the call that it is in.
#[repr(C, align(64))]
pub(crate) struct Slot {
    pub(crate) thread: AtomicU32,
    /// The number of the call in progress, counted from 1 in the table of hooks, or 0.
    pub(crate) call: AtomicU32,
    /// Counts calls. A call has not returned while neither this nor `call` changes.
    pub(crate) sequence: AtomicU64,
    /// The handle that the call is about: a kernel, a stream, an address.
    pub(crate) subject: AtomicU64,
    pub(crate) stream: AtomicU64,
    /// Launches by this thread.
    pub(crate) launches: AtomicU64,
    /// Whether the call loads the kernel that it is about.
    pub(crate) loads: AtomicU32,
}

/// How many kernels were launched in a stream since the sample before.
#[repr(C)]
#[derive(Default)]
pub(crate) struct Sample {
    /// In nanoseconds since the start; 0 while it is being written.
    pub(crate) at: AtomicU64,
    pub(crate) stream: AtomicU64,
    pub(crate) launches: AtomicU32,
    /// The kernel that was launched last.
    pub(crate) kernel: Text,
}

/// Something that happened.
#[repr(C)]
#[derive(Default)]
pub(crate) struct RawEvent {
    /// The [`Kind`], or 0 while the event is being written.
    pub(crate) kind: AtomicU16,
    /// Whether it came after the program was ready, or would have waited for a resident kernel.
    pub(crate) is_finding: AtomicU16,
    pub(crate) thread: AtomicU32,
    /// In nanoseconds since the start.
    pub(crate) begun: AtomicU64,
    /// In nanoseconds.
    pub(crate) took: AtomicU64,
    pub(crate) stream: AtomicU64,
    /// The context's handle.
    pub(crate) context: AtomicU64,
    /// The size of an image.
    pub(crate) bytes: AtomicU64,
    /// The driver's answer.
    pub(crate) result: AtomicU32,
    /// The driver's function.
    pub(crate) call: Text,
    /// The kernel, or the kind of an image.
    pub(crate) subject: Text,
    /// The image of the kernel, and which library loaded it.
    pub(crate) image: Text,
    /// The resident kernel on the device, if the call would have waited for it.
    pub(crate) resident: Text,
    /// The name of the rule by which the call waits.
    pub(crate) rule: Text,
    /// What prevents a hang.
    pub(crate) remedy: Text,
    /// The library that made the call.
    pub(crate) library: Text,
    /// The library, and the function in it.
    pub(crate) caller: Text,
    /// A paragraph for people, or the stack.
    pub(crate) text: Text,
}

/// The kinds of events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "lowercase"))]
#[repr(u16)]
pub enum Kind {
    /// A kernel was loaded by its first launch, or by a call that waits in the same way.
    #[default]
    Load = 1,
    /// An image was loaded, and perhaps compiled.
    Image = 2,
    /// The stack limit, the printf buffer or the heap was resized.
    Resize = 3,
    /// Another call that took long.
    Slow = 4,
    /// A call that has not returned for long. Its `text` explains it.
    Hang = 5,
    /// A call that was refused, after the program was ready or while a kernel was resident.
    Refused = 6,
    /// A function of a version that is not watched was asked for.
    Unwatched = 7,
    /// A call that would have waited for a resident kernel, and was deferred until that had ended.
    Deferred = 8,
    /// A call that waits for a resident kernel, and was made all the same.
    Waits = 9,
}

impl Kind {
    const ALL: [Kind; 9] = [
        Kind::Load,
        Kind::Image,
        Kind::Resize,
        Kind::Slow,
        Kind::Hang,
        Kind::Refused,
        Kind::Unwatched,
        Kind::Deferred,
        Kind::Waits,
    ];

    fn from_number(number: u16) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| *kind as u16 == number)
    }

    /// `load`
    pub const fn as_str(self) -> &'static str {
        match self {
            Kind::Load => "load",
            Kind::Image => "image",
            Kind::Resize => "resize",
            Kind::Slow => "slow",
            Kind::Hang => "hang",
            Kind::Refused => "refused",
            Kind::Unwatched => "unwatched",
            Kind::Deferred => "deferred",
            Kind::Waits => "waits",
        }
    }
}

/// The `subject` of an image of PTX, which the driver compiles.
pub const PTX: &str = "PTX";

/// The file up to its events, which are an array behind this.
#[repr(C)]
pub(crate) struct Layout {
    pub(crate) header: Header,
    pub(crate) slots: [Slot; SLOTS],
    pub(crate) samples: [Sample; SAMPLES],
    pub(crate) strings: [u8; STRINGS],
}

/// Bytes of a record with room for so many events.
pub(crate) const fn size(room: usize) -> usize {
    size_of::<Layout>() + room * size_of::<RawEvent>()
}

/// What a record says, read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Report {
    /// The process that wrote it.
    pub process: u32,
    /// The process's rank among those that work together, as `torchrun`, MPI or Slurm name it.
    pub rank: Option<u32>,
    /// The program's name and arguments.
    pub command: String,
    /// When it began to be watched, in nanoseconds since 1970.
    #[cfg_attr(feature = "serde", serde(rename = "started_unix_ms", serialize_with = "json::milliseconds"))]
    pub started: u64,
    /// Whether the process ended by itself, and was not killed.
    pub ended: bool,
    /// When the program was said to be ready, in nanoseconds since the start.
    #[cfg_attr(
        feature = "serde",
        serde(rename = "ready_ms", serialize_with = "json::optional_milliseconds")
    )]
    pub ready: Option<u64>,
    /// Launches.
    pub launches: u64,
    /// Watched calls, with launches.
    pub calls: u64,
    /// Whether kernel-registry is in the process: then `warm_all` is a remedy.
    #[cfg_attr(feature = "serde", serde(skip))]
    pub uses_kernel_registry: bool,
    /// What happened, in the order in which it ended.
    pub events: Vec<Event>,
    /// Events without room.
    #[cfg_attr(feature = "serde", serde(rename = "events_dropped"))]
    pub dropped: u64,
    /// Launches by stream, in the order of time.
    pub activity: Vec<Activity>,
    /// Samples of activity without room.
    pub activity_dropped: u64,
    /// Texts of events and samples that are empty here, because the record has more of them than one that this library wrote.
    pub texts_dropped: u64,
    /// Threads that found no slot: their launches are not counted, and their hangs not explained.
    pub unwatched_threads: u64,
    /// Launches in streams that found no room for samples.
    pub unsampled_launches: u64,
    /// The calls that were in progress when the record was read, or the process was killed, as numbers in the table of
    /// hooks, with the thread.
    #[cfg_attr(feature = "serde", serde(skip))]
    pub in_progress: Vec<(u32, u32)>,
}

/// Launches in a stream between two samples. Samples are 50 ms apart, and later one second.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Activity {
    /// The end of the time in which they were counted, in nanoseconds since the start.
    #[cfg_attr(feature = "serde", serde(rename = "at_ms", serialize_with = "json::milliseconds"))]
    pub at: u64,
    /// The handle of the stream, or 0.
    pub stream: u64,
    /// How many launches.
    pub launches: u32,
    /// The kernel that was launched last.
    pub kernel: SharedText,
}

/// Something that happened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Event {
    /// What it was.
    pub kind: Kind,
    /// Whether it came after the program was ready, or would have waited for a resident kernel.
    #[cfg_attr(feature = "serde", serde(rename = "finding"))]
    pub is_finding: bool,
    /// When it began, in nanoseconds since the start.
    #[cfg_attr(feature = "serde", serde(rename = "at_ms", serialize_with = "json::milliseconds"))]
    pub begun: u64,
    /// How long it took, in nanoseconds.
    #[cfg_attr(feature = "serde", serde(rename = "took_ms", serialize_with = "json::milliseconds"))]
    pub took: u64,
    /// The thread, as the system numbers it.
    pub thread: u32,
    /// The handle of the stream, or 0.
    pub stream: u64,
    /// The handle of the context, or 0.
    pub context: u64,
    /// The size of an image in bytes, or 0.
    pub bytes: u64,
    /// The driver's answer: 0 is success.
    pub result: u32,
    /// The driver's function.
    pub call: SharedText,
    /// The kernel, the kind of an image, or the limit.
    pub subject: SharedText,
    /// The image of the kernel, and which library loaded it.
    pub image: SharedText,
    /// The resident kernel on the device, if the call would have waited for it, or nothing.
    pub resident: SharedText,
    /// The name of the [rule](crate::rules) by which the call waits, if one was found.
    pub rule: SharedText,
    /// What prevents a hang, if that is known. A [`Cause`](crate::Cause) has the remedies of other findings.
    pub remedy: SharedText,
    /// The library that made the call.
    pub library: SharedText,
    /// The library, and the function in it.
    pub caller: SharedText,
    /// The stack, or the explanation of a hang.
    pub text: SharedText,
}

/// Why a file is no record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NotRead {
    /// It is something else, or was cut off.
    NoRecord,
    /// Another version of this library wrote it.
    Version(u32),
}

impl fmt::Display for NotRead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotRead::NoRecord => f.write_str("it is not a whole record of an audit"),
            NotRead::Version(version) => write!(
                f,
                "it has version {version}, and this is version {VERSION}; read it with the version of cargo-kernels that made it"
            ),
        }
    }
}

impl std::error::Error for NotRead {}

/// How numbers are written as JSON.
#[cfg(feature = "serde")]
mod json {
    use serde::Serializer;

    pub(super) fn milliseconds<S: Serializer>(nanoseconds: &u64, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_f64(*nanoseconds as f64 / 1e6)
    }

    pub(super) fn optional_milliseconds<S: Serializer>(time: &Option<u64>, to: S) -> Result<S::Ok, S::Error> {
        match time {
            Some(nanoseconds) => milliseconds(nanoseconds, to),
            None => to.serialize_none(),
        }
    }
}

/// Reads a record. Any bytes are read without a panic: numbers that lead outside give empty texts.
///
/// # Errors
///
/// The bytes are not a record of this version.
pub fn read(bytes: &[u8]) -> Result<Report, NotRead> {
    let header = |offset: usize| u64_at(bytes, offset);
    if header(offset_of!(Header, magic)) != MAGIC {
        return Err(NotRead::NoRecord);
    }
    match u32_at(bytes, offset_of!(Header, version)) {
        VERSION => {}
        other => return Err(NotRead::Version(other)),
    }
    let room = header(offset_of!(Header, room));
    let behind = bytes.len().checked_sub(size_of::<Layout>()).ok_or(NotRead::NoRecord)?;
    if room > (behind / size_of::<RawEvent>()) as u64 {
        return Err(NotRead::NoRecord);
    }
    let (events, samples) = (header(offset_of!(Header, events)), header(offset_of!(Header, samples)));
    let mut texts = Texts::new(&bytes[offset_of!(Layout, strings)..size_of::<Layout>()], bytes.len());
    let command = texts.at(u32_at(bytes, offset_of!(Header, command))).to_string();
    let mut activity: Vec<_> = (0..samples.min(SAMPLES as u64) as usize)
        .filter_map(|index| {
            sample(bytes, offset_of!(Layout, samples) + index * size_of::<Sample>(), &mut texts)
        })
        .collect();
    activity.sort_by_key(|sample| sample.at);
    let events_read = (0..events.min(room) as usize)
        .filter_map(|index| event(bytes, size_of::<Layout>() + index * size_of::<RawEvent>(), &mut texts))
        .collect();
    let slots = || (0..SLOTS).map(|index| offset_of!(Layout, slots) + index * size_of::<Slot>());
    let of_slots = |offset| slots().map(|at| u64_at(bytes, at + offset)).fold(0_u64, u64::wrapping_add);
    let in_progress = slots()
        .map(|at| (u32_at(bytes, at + offset_of!(Slot, call)), u32_at(bytes, at + offset_of!(Slot, thread))));
    Ok(Report {
        process: u32_at(bytes, offset_of!(Header, process)),
        rank: u32_at(bytes, offset_of!(Header, rank)).checked_sub(1),
        command,
        started: header(offset_of!(Header, started)),
        ready: Some(header(offset_of!(Header, ready))).filter(|ready| *ready > 0),
        launches: header(offset_of!(Header, launches)).wrapping_add(of_slots(offset_of!(Slot, launches))),
        calls: header(offset_of!(Header, calls)).wrapping_add(of_slots(offset_of!(Slot, sequence))),
        ended: u32_at(bytes, offset_of!(Header, ended)) != 0,
        uses_kernel_registry: u32_at(bytes, offset_of!(Header, uses_kernel_registry)) != 0,
        events: events_read,
        dropped: events.saturating_sub(room),
        activity,
        activity_dropped: samples.saturating_sub(SAMPLES as u64),
        unwatched_threads: header(offset_of!(Header, unwatched_threads)),
        unsampled_launches: header(offset_of!(Header, unsampled_launches)),
        texts_dropped: texts.dropped,
        in_progress: in_progress.filter(|(call, _)| *call > 0).collect(),
    })
}

fn sample(bytes: &[u8], at: usize, texts: &mut Texts<'_>) -> Option<Activity> {
    let time = u64_at(bytes, at + offset_of!(Sample, at));
    (time > 0).then(|| Activity {
        at: time,
        stream: u64_at(bytes, at + offset_of!(Sample, stream)),
        launches: u32_at(bytes, at + offset_of!(Sample, launches)),
        kernel: texts.at(u32_at(bytes, at + offset_of!(Sample, kernel))),
    })
}

fn event(bytes: &[u8], at: usize, texts: &mut Texts<'_>) -> Option<Event> {
    let mut text = |offset| texts.at(u32_at(bytes, at + offset));
    let kind = Kind::from_number(u16_at(bytes, at + offset_of!(RawEvent, kind)))?;
    Some(Event {
        kind,
        thread: u32_at(bytes, at + offset_of!(RawEvent, thread)),
        begun: u64_at(bytes, at + offset_of!(RawEvent, begun)),
        took: u64_at(bytes, at + offset_of!(RawEvent, took)),
        stream: u64_at(bytes, at + offset_of!(RawEvent, stream)),
        context: u64_at(bytes, at + offset_of!(RawEvent, context)),
        bytes: u64_at(bytes, at + offset_of!(RawEvent, bytes)),
        result: u32_at(bytes, at + offset_of!(RawEvent, result)),
        is_finding: u16_at(bytes, at + offset_of!(RawEvent, is_finding)) != 0,
        call: text(offset_of!(RawEvent, call)),
        subject: text(offset_of!(RawEvent, subject)),
        image: text(offset_of!(RawEvent, image)),
        resident: text(offset_of!(RawEvent, resident)),
        rule: text(offset_of!(RawEvent, rule)),
        remedy: text(offset_of!(RawEvent, remedy)),
        library: text(offset_of!(RawEvent, library)),
        caller: text(offset_of!(RawEvent, caller)),
        text: text(offset_of!(RawEvent, text)),
    })
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes_at(bytes, at))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes_at(bytes, at))
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(bytes_at(bytes, at))
}

/// Bytes of a number, which is 0 outside of the record.
fn bytes_at<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes.get(at..).and_then(<[u8]>::first_chunk).copied().unwrap_or([0; N])
}

/// Writes a text into a record, cut off if it is very long, and returns its place; 0 if it is empty or there is no room.
///
/// # Safety
///
/// `record` is a mapped record of this process.
#[cfg(feature = "watch")]
pub(crate) unsafe fn write(record: *const Layout, text: &str) -> u32 {
    if text.is_empty() {
        return 0;
    }
    let text = &text.as_bytes()[..text.len().min(LONGEST)];
    let length = (text.len() as u32).to_le_bytes();
    let whole = (length.len() + text.len()) as u64;
    // SAFETY: the caller's promise; the header is made of atomics.
    let header = unsafe { &(*record).header };
    let at = header.strings.fetch_add(whole, Ordering::Relaxed);
    if at.saturating_add(whole) > STRINGS as u64 {
        return 0;
    }
    // SAFETY: these bytes are inside the strings of the record, and no other thread was given them.
    unsafe {
        let place = (&raw const (*record).strings).cast::<u8>().cast_mut().add(at as usize);
        place.copy_from_nonoverlapping(length.as_ptr(), length.len());
        place.add(length.len()).copy_from_nonoverlapping(text.as_ptr(), text.len());
    }
    at as u32
}
