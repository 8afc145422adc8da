//! Reads a record, also if its bytes are damaged or malicious.

use std::fmt;
use std::mem::offset_of;

use super::collected;
use super::explanation::Explanation;
use super::layout::{Header, Layout, LongCall, MAGIC, RawEvent, SAMPLES, SLOTS, Sample, Text, VERSION};
use super::model::{Activity, CallInProgress, Device, Event, Kind, Report};
use super::slot::Slot;
use super::stretch::{Spending, Spent, Stretch};
use super::subject::{Fields, Subject};
use super::texts::{SharedText, Texts};

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
    let worker_of = texts.at(u32_at(bytes, offset_of!(Header, worker_of))).to_string();
    let devices = texts.at(u32_at(bytes, offset_of!(Header, devices)));
    let mut activity: Vec<_> = (0..samples.min(SAMPLES as u64) as usize)
        .filter_map(|index| {
            sample(bytes, offset_of!(Layout, samples) + index * size_of::<Sample>(), &mut texts)
        })
        .collect();
    activity.sort_by_key(|sample| sample.at);
    let (mut read, mut preloaded) = (Vec::new(), Vec::new());
    let (mut stretches, mut parts) = (Vec::new(), Vec::new());
    for index in 0..events.min(room) as usize {
        let at = size_of::<Layout>() + index * size_of::<RawEvent>();
        match Kind::from_number(u16_at(bytes, at + offset_of!(RawEvent, kind))) {
            Some(Kind::Stretch) => stretches.push(stretch(bytes, at, &mut texts)),
            Some(Kind::Spent) => parts.push(spent(bytes, at, &mut texts)),
            Some(Kind::Preload) => preloaded.extend(event(bytes, at, &mut texts)),
            _ => read.extend(event(bytes, at, &mut texts)),
        }
    }
    let stretches = collected::stretches(stretches, parts);
    let slots = || (0..SLOTS).map(|index| offset_of!(Layout, slots) + index * size_of::<Slot>());
    let of_slots = |offset| slots().map(|at| u64_at(bytes, at + offset)).fold(0_u64, u64::wrapping_add);
    let functions = texts.at(u32_at(bytes, offset_of!(Header, functions)));
    let main_thread = texts.at(u32_at(bytes, offset_of!(Header, main_thread)));
    Ok(Report {
        process: u32_at(bytes, offset_of!(Header, process)),
        rank: u32_at(bytes, offset_of!(Header, rank)).checked_sub(1),
        command,
        worker_of,
        devices: devices.lines().filter_map(device).collect(),
        started: header(offset_of!(Header, started)),
        ready: Some(header(offset_of!(Header, ready))).filter(|ready| *ready > 0),
        launches: header(offset_of!(Header, launches)).wrapping_add(of_slots(offset_of!(Slot, launches))),
        calls: header(offset_of!(Header, calls)).wrapping_add(of_slots(offset_of!(Slot, sequence))),
        ended: u32_at(bytes, offset_of!(Header, ended)) != 0,
        uses_kernel_registry: u32_at(bytes, offset_of!(Header, uses_kernel_registry)) != 0,
        events: read,
        preloaded,
        stretches,
        dropped: events.saturating_sub(room).saturating_add(header(offset_of!(Header, left_out))),
        dropped_findings: header(offset_of!(Header, dropped_findings)),
        unlisted: header(offset_of!(Header, unlisted)),
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

/// Returns the device of a line, as [`Header::devices`] has them.
fn device(line: &str) -> Option<Device> {
    let (ordinal, rest) = line.split_once(' ')?;
    let (capability, name) = rest.split_once(' ')?;
    Some(Device { ordinal: ordinal.parse().ok()?, compute_capability: capability.into(), name: name.into() })
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
    let kind = Kind::from_number(u16_at(bytes, at + offset_of!(RawEvent, kind)))?;
    let mut text = |offset| texts.at(u32_at(bytes, at + offset));
    let subject = Subject::from_fields(fields(bytes, at, &mut text));
    let details = u32_at(bytes, at + offset_of!(RawEvent, details));
    let later = u8_at(bytes, at + offset_of!(RawEvent, later)) != 0;
    let mut event = Event {
        kind,
        thread: u32_at(bytes, at + offset_of!(RawEvent, thread)),
        begun: u64_at(bytes, at + offset_of!(RawEvent, begun)),
        took: u64_at(bytes, at + offset_of!(RawEvent, took)),
        stream: u64_at(bytes, at + offset_of!(RawEvent, stream)),
        context: u64_at(bytes, at + offset_of!(RawEvent, context)),
        result: u32_at(bytes, at + offset_of!(RawEvent, result)),
        is_finding: u8_at(bytes, at + offset_of!(RawEvent, is_finding)) != 0,
        has_returned: kind != Kind::Hang || later,
        is_used: kind != Kind::Preload || later || subject.image().is_none(),
        subject,
        call: text(offset_of!(RawEvent, call)),
        resident: text(offset_of!(RawEvent, resident)),
        rule: text(offset_of!(RawEvent, rule)),
        library: text(offset_of!(RawEvent, library)),
        caller: text(offset_of!(RawEvent, caller)),
        stack: text(offset_of!(RawEvent, stack)),
        ..Event::default()
    };
    match kind {
        Kind::Hang | Kind::Fault => {
            event.explanation = texts.bytes_at(details).and_then(Explanation::from_bytes).map(Box::new)
        }
        _ => event.reason = texts.at(details),
    }
    Some(event)
}

fn fields(bytes: &[u8], at: usize, text: &mut impl FnMut(usize) -> SharedText) -> Fields<SharedText> {
    let number = |index| u64_at(bytes, at + offset_of!(RawEvent, numbers) + index * size_of::<u64>());
    Fields {
        kind: u16_at(bytes, at + offset_of!(RawEvent, subject)),
        code: u16_at(bytes, at + offset_of!(RawEvent, code)),
        numbers: [number(0), number(1)],
        texts: [0, 1, 2].map(|index| text(offset_of!(RawEvent, texts) + index * size_of::<Text>())),
    }
}

/// Returns a stretch, with the number by which its parts name it.
fn stretch(bytes: &[u8], at: usize, texts: &mut Texts<'_>) -> (u64, Stretch) {
    let fields = fields(bytes, at, &mut |offset| texts.at(u32_at(bytes, at + offset)));
    let ([looks, lost], [name, ..]) = (fields.numbers, fields.texts);
    let [begun, took, number] =
        [offset_of!(RawEvent, begun), offset_of!(RawEvent, took), offset_of!(RawEvent, context)]
            .map(|offset| u64_at(bytes, at + offset));
    (number, Stretch { name, begun, took, looks, lost, spent: Vec::new() })
}

/// Returns what a part of a stretch was spent on, with the number of the stretch.
fn spent(bytes: &[u8], at: usize, texts: &mut Texts<'_>) -> (u64, Spent) {
    let mut text = |offset| texts.at(u32_at(bytes, at + offset));
    let Fields { code, numbers: [looks, _], texts: [function, user, _], .. } = fields(bytes, at, &mut text);
    let stack = text(offset_of!(RawEvent, stack));
    let took = u64_at(bytes, at + offset_of!(RawEvent, took));
    let what = Spending::from_number(code.into());
    (u64_at(bytes, at + offset_of!(RawEvent, context)), Spent { what, took, looks, function, user, stack })
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
