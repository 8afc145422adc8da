//! Tests of reading records: any bytes are read, texts are bounded, and a record is followed while it grows.

use std::io::Write;
use std::mem::offset_of;
use std::{env, fs, process};

use super::layout::*;
use super::slot::Slot;
use super::texts::LONGEST;
use super::*;

const ROOM: usize = 100;

/// The number of a subject with three texts: a kernel with its image.
const SUBJECT: u8 = 2;

fn empty_record() -> Vec<u8> {
    record_with_room(ROOM)
}

fn record_with_room(events: usize) -> Vec<u8> {
    let mut bytes = vec![0; size(events)];
    bytes[..8].copy_from_slice(&MAGIC.to_le_bytes());
    bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
    let room = offset_of!(Header, room);
    bytes[room..room + 8].copy_from_slice(&(events as u64).to_le_bytes());
    bytes
}

#[test]
fn other_bytes_are_no_record() {
    assert_eq!(read(&[]), Err(NotRead::NoRecord));
    for len in [8, 100, size_of::<Layout>() - 1, size_of::<Layout>(), size(ROOM) - 1] {
        assert!(read(&empty_record()[..len]).is_err());
    }
    let mut newer = empty_record();
    newer[8] += 1;
    assert_eq!(read(&newer), Err(NotRead::Version(VERSION + 1)));
    assert!(read(&empty_record()).expect("a record").events.is_empty());
}

#[test]
fn numbers_that_lead_outside_are_read() {
    let mut bytes = empty_record();
    let room = offset_of!(Header, room) + 8;
    bytes[16..room - 8].fill(0xff);
    bytes[room..offset_of!(Layout, strings)].fill(0xff);
    for event in bytes[size_of::<Layout>()..].chunks_mut(size_of::<RawEvent>()) {
        event.fill(0xff);
        event[..4].copy_from_slice(&(Kind::Load as u32).to_le_bytes());
    }
    let report = read(&bytes).expect("a record");
    assert_eq!(report.events.len(), ROOM);
    assert!(report.events.iter().all(|event| event.subject.is_nothing() && event.call.is_empty()));
}

#[test]
fn a_million_events_are_less_than_110_megabytes() {
    assert!(size(1_000_000) < 110_000_000, "{}", size(1_000_000));
}

/// Returns a record whose events each refer to ten texts, and whose samples to one. The texts are as long as can be;
/// they begin `apart` bytes apart.
fn record_of_long_texts(events: usize, apart: usize) -> Vec<u8> {
    let mut bytes = record_with_room(events);
    for counter in [offset_of!(Header, events), offset_of!(Header, samples)] {
        bytes[counter..counter + 8].copy_from_slice(&(events as u64).to_le_bytes());
    }
    let (samples, strings) = (offset_of!(Layout, samples), offset_of!(Layout, strings));
    // Wherever a length is read, it is that of a long text.
    bytes[strings..size_of::<Layout>()].fill(0x7f);
    let mut offsets = (1..STRINGS - 2 * LONGEST).step_by(apart).cycle();
    let mut next = || (offsets.next().unwrap_or(1) as u32).to_le_bytes();
    for sample in bytes[samples..strings].chunks_mut(size_of::<Sample>()) {
        sample[0] = 1;
        sample[offset_of!(Sample, kernel)..][..4].copy_from_slice(&next());
    }
    for event in bytes[size_of::<Layout>()..].chunks_mut(size_of::<RawEvent>()) {
        event[..4].copy_from_slice(&(Kind::Load as u32).to_le_bytes());
        event[offset_of!(RawEvent, subject)] = SUBJECT;
        event[offset_of!(RawEvent, texts)..].chunks_mut(4).for_each(|text| text.copy_from_slice(&next()));
    }
    bytes
}

#[test]
fn texts_are_bounded_in_total() {
    // First all refer to one text; then each refers to a text that overlaps the next.
    for apart in [STRINGS, 1] {
        let bytes = record_of_long_texts(65_536, apart);
        let report = read(&bytes).expect("a record");
        let texts = report.events.iter().flat_map(|event| {
            let Subject::Kernel { symbol, image: Some(image) } = &event.subject else { panic!("{event:?}") };
            let Event { call, resident, rule, library, caller, stack, reason, .. } = event;
            [symbol, &image.origin, &image.library, call, resident, rule, library, caller, stack, reason]
        });
        let texts: Vec<_> = texts.chain(report.activity.iter().map(|sample| &sample.kernel)).collect();
        let referred: usize = texts.iter().map(|text| text.len()).sum();
        let different: std::collections::HashMap<_, _> =
            texts.iter().map(|text| (text.as_ptr(), text.len())).collect();
        let held: usize = different.values().sum();
        assert!(held <= STRINGS && referred <= 16 * bytes.len(), "{apart}: {held}, {referred}");
        assert!(report.texts_dropped > 0);
    }
}

#[test]
fn a_record_that_grows_is_read_again_and_again() {
    let path = env::temp_dir().join(format!("kernel-registry-tail-{}.rec", process::id()));
    fs::write(&path, []).unwrap();
    let mut tail = Tail::open(&path).unwrap();
    // The file is overwritten in place, as a mapping does it.
    let mut hangs = |bytes: &[u8]| {
        fs::File::options().write(true).truncate(true).open(&path).unwrap().write_all(bytes).unwrap();
        tail.look().unwrap().map(|report| report.events.iter().map(|hang| hang.took).collect::<Vec<_>>())
    };
    assert_eq!(hangs(&[]), None, "there is no record yet");
    let mut bytes = empty_record();
    assert_eq!(hangs(&bytes), Some(vec![]));

    let event_offset = |index: usize| size_of::<Layout>() + index * size_of::<RawEvent>();
    let (kind, returned) = (offset_of!(RawEvent, kind), offset_of!(RawEvent, later));
    bytes[offset_of!(Header, events)] = 3;
    for (index, its) in [Kind::Hang, Kind::Load, Kind::Hang].into_iter().enumerate() {
        bytes[event_offset(index) + kind] = its as u8;
        bytes[event_offset(index) + offset_of!(RawEvent, took)] = 10 + index as u8;
    }
    // The last event is still being written.
    bytes[event_offset(2) + kind] = 0;
    assert_eq!(hangs(&bytes), Some(vec![10]));
    bytes[event_offset(0) + offset_of!(RawEvent, took)] = 20;
    bytes[event_offset(2) + kind] = Kind::Hang as u8;
    assert_eq!(hangs(&bytes), Some(vec![20, 12]));
    bytes[event_offset(0) + returned] = 1;
    assert_eq!(hangs(&bytes), Some(vec![12]));

    // Counters lead outside of the record; then the file is cut off, or something else.
    for counter in [offset_of!(Header, events), offset_of!(Header, samples), offset_of!(Header, strings)] {
        bytes[counter..counter + 8].fill(0xff);
    }
    assert_eq!(hangs(&bytes), Some(vec![12]));
    for length in [0, 10, size_of::<Layout>() - 1, event_offset(1)] {
        assert_eq!(hangs(&bytes[..length]), None, "{length}");
    }
    assert_eq!(hangs(&bytes), Some(vec![12]));
    bytes[0] = 0;
    assert_eq!(hangs(&bytes), None);
    fs::remove_file(&path).unwrap();
}

#[test]
fn what_a_stretch_was_spent_on_is_read_with_it() {
    let mut bytes = empty_record();
    bytes[offset_of!(Header, events)] = 4;
    let event = |kind: Kind, number: u8, took: u8, what: u8| {
        let mut event = vec![0; size_of::<RawEvent>()];
        event[offset_of!(RawEvent, kind)] = kind as u8;
        event[offset_of!(RawEvent, context)] = number;
        event[offset_of!(RawEvent, took)] = took;
        event[offset_of!(RawEvent, code)] = what;
        event
    };
    let events = [
        event(Kind::Spent, 7, 2, Spending::Waiting as u8),
        event(Kind::Stretch, 7, 9, 0),
        event(Kind::Spent, 7, 5, u8::MAX),
        event(Kind::Spent, 8, 3, 0),
    ];
    for (index, event) in events.iter().enumerate() {
        let at = size_of::<Layout>() + index * size_of::<RawEvent>();
        bytes[at..at + event.len()].copy_from_slice(event);
    }
    let report = read(&bytes).expect("a record");
    assert!(report.events.is_empty() && report.preloaded.is_empty());
    let [stretch] = &report.stretches[..] else { panic!("{report:?}") };
    let spent: Vec<_> = stretch.spent.iter().map(|spent| (spent.took, spent.what)).collect();
    assert_eq!((stretch.took, spent), (9, vec![(5, Spending::Code), (2, Spending::Waiting)]));
}

#[test]
fn devices_are_read_and_damaged_lines_left_out() {
    let mut bytes = empty_record();
    let text = b"0 9.0 NVIDIA H200\nx 9.0 no number\n1 9.0\n\n7 12.0 ";
    let strings = offset_of!(Layout, strings) + 1;
    bytes[offset_of!(Header, devices)] = 1;
    bytes[strings] = text.len() as u8;
    bytes[strings + 4..][..text.len()].copy_from_slice(text);
    let devices = read(&bytes).expect("a record").devices;
    let found: Vec<_> =
        devices.iter().map(|its| (its.ordinal, &*its.compute_capability, &*its.name)).collect();
    assert_eq!(found, [(0, "9.0", "NVIDIA H200"), (7, "12.0", "")]);
}

#[test]
fn a_call_in_progress_has_a_name_and_the_time_that_is_its_own() {
    let mut bytes = empty_record();
    let mut set = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
    let (slot, long) = (offset_of!(Layout, slots), offset_of!(Layout, long_calls));
    let (call, sequence) = (slot + offset_of!(Slot, call), long + offset_of!(LongCall, sequence));
    let strings = offset_of!(Layout, strings) + 1;
    set(offset_of!(Header, functions), &1_u32.to_le_bytes());
    set(strings, &7_u32.to_le_bytes());
    set(strings + 4, b"cuA\ncuB");
    set(call, &2_u32.to_le_bytes());
    for of_thread in [slot + offset_of!(Slot, thread), long + offset_of!(LongCall, thread)] {
        set(of_thread, &4711_u32.to_le_bytes());
    }
    for of_call in [slot + offset_of!(Slot, sequence), sequence] {
        set(of_call, &5_u64.to_le_bytes());
    }
    set(long + offset_of!(LongCall, took), &9_u64.to_le_bytes());
    let last = |bytes: &[u8]| {
        let calls = read(bytes).expect("a record").in_progress;
        calls.iter().map(|last| (last.call.to_string(), last.thread, last.took)).collect::<Vec<_>>()
    };
    assert_eq!(last(&bytes), [("cuB".to_owned(), 4711, 9)]);
    // The time is that of an earlier call, and no function has this number.
    bytes[sequence] = 4;
    bytes[call] = 3;
    assert_eq!(last(&bytes), [(String::new(), 4711, 0)]);
}
