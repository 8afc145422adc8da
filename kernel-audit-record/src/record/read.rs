//! Reads a record, also if its bytes are damaged or malicious.

use std::fmt;
use std::mem::offset_of;

use super::collected;
use super::layout::{Header, Layout, LongCall, MAGIC, RawEvent, SAMPLES, SLOTS, Sample, VERSION};
use super::model::{Activity, CallInProgress, Event, Kind, Report};
use super::slot::Slot;
use super::texts::Texts;

/// Reads a record. Any bytes are read without a panic: offsets that lead outside of the record give empty texts.
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
    let read = (0..events.min(room) as usize)
        .filter_map(|index| event(bytes, size_of::<Layout>() + index * size_of::<RawEvent>(), &mut texts));
    let (others, events_read): (Vec<_>, Vec<_>) =
        read.partition(|event: &Event| matches!(event.kind, Kind::Preload | Kind::Stretch | Kind::Spent));
    let stretches = collected::stretches(&others);
    let preloaded = others.into_iter().filter(|event| event.kind == Kind::Preload).collect();
    let slots = || (0..SLOTS).map(|index| offset_of!(Layout, slots) + index * size_of::<Slot>());
    let of_slots = |offset| slots().map(|at| u64_at(bytes, at + offset)).fold(0_u64, u64::wrapping_add);
    let functions = texts.at(u32_at(bytes, offset_of!(Header, functions)));
    let main_thread = texts.at(u32_at(bytes, offset_of!(Header, main_thread)));
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
        preloaded,
        stretches,
        dropped: events.saturating_sub(room).saturating_add(header(offset_of!(Header, left_out))),
        dropped_findings: header(offset_of!(Header, dropped_findings)),
        unsaid: header(offset_of!(Header, unsaid)),
        lacks_thread: header(offset_of!(Header, lacks_thread)) != 0,
        activity,
        activity_dropped: samples.saturating_sub(SAMPLES as u64),
        unwatched_threads: header(offset_of!(Header, unwatched_threads)),
        unsampled_launches: header(offset_of!(Header, unsampled_launches)),
        texts_dropped: texts.dropped,
        main_thread,
        in_progress: (0..SLOTS).filter_map(|index| in_progress(bytes, index, &functions)).collect(),
    })
}

/// Returns the call in progress of a slot. `functions` has the name of a function in each line.
fn in_progress(bytes: &[u8], index: usize, functions: &str) -> Option<CallInProgress> {
    let slot = offset_of!(Layout, slots) + index * size_of::<Slot>();
    let long = offset_of!(Layout, long_calls) + index * size_of::<LongCall>();
    let number = u32_at(bytes, slot + offset_of!(Slot, call)).checked_sub(1)?;
    let thread = u32_at(bytes, slot + offset_of!(Slot, thread));
    let is_long = u32_at(bytes, long + offset_of!(LongCall, thread)) == thread
        && u64_at(bytes, long + offset_of!(LongCall, sequence))
            == u64_at(bytes, slot + offset_of!(Slot, sequence));
    let took = if is_long { u64_at(bytes, long + offset_of!(LongCall, took)) } else { 0 };
    Some(CallInProgress {
        call: functions.lines().nth(number as usize).unwrap_or_default().into(),
        thread,
        took,
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
        is_finding: u8_at(bytes, at + offset_of!(RawEvent, is_finding)) != 0,
        has_returned: kind != Kind::Hang || u8_at(bytes, at + offset_of!(RawEvent, has_returned)) != 0,
        call: text(offset_of!(RawEvent, call)),
        subject: text(offset_of!(RawEvent, subject)),
        image: text(offset_of!(RawEvent, image)),
        origin: text(offset_of!(RawEvent, origin)),
        resident: text(offset_of!(RawEvent, resident)),
        rule: text(offset_of!(RawEvent, rule)),
        remedy: text(offset_of!(RawEvent, remedy)),
        commands: Vec::new(),
        library: text(offset_of!(RawEvent, library)),
        caller: text(offset_of!(RawEvent, caller)),
        text: text(offset_of!(RawEvent, text)),
    })
}

pub(super) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes_at(bytes, at))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes_at(bytes, at))
}

pub(super) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(bytes_at(bytes, at))
}

fn u8_at(bytes: &[u8], at: usize) -> u8 {
    u8::from_le_bytes(bytes_at(bytes, at))
}

/// Returns the bytes of a number. Outside of the record they are 0.
fn bytes_at<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes.get(at..).and_then(<[u8]>::first_chunk).copied().unwrap_or([0; N])
}

/// Why the bytes are not read as a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NotRead {
    /// The bytes are something else, or were cut off.
    NoRecord,
    /// Another version of this library wrote the record.
    Version(u32),
}

impl fmt::Display for NotRead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotRead::NoRecord => f.write_str("it is not a whole record of an audit"),
            NotRead::Version(version) => write!(
                f,
                "it has version {version}, and this is version {VERSION}; read it with the version of this command that made it"
            ),
        }
    }
}

impl std::error::Error for NotRead {}
