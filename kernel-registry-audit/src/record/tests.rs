use std::mem::offset_of;

use super::layout::*;
use super::texts::LONGEST;
use super::*;

const ROOM: usize = 100;

fn empty() -> Vec<u8> {
    with_room(ROOM)
}

fn with_room(events: usize) -> Vec<u8> {
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
        assert!(read(&empty()[..len]).is_err());
    }
    let mut newer = empty();
    newer[8] += 1;
    assert_eq!(read(&newer), Err(NotRead::Version(VERSION + 1)));
    assert!(read(&empty()).expect("a record").events.is_empty());
}

#[test]
fn numbers_that_lead_outside_are_read() {
    let mut bytes = empty();
    let room = offset_of!(Header, room) + 8;
    bytes[16..room - 8].fill(0xff);
    bytes[room..offset_of!(Layout, strings)].fill(0xff);
    for event in bytes[size_of::<Layout>()..].chunks_mut(size_of::<RawEvent>()) {
        event.fill(0xff);
        event[..4].copy_from_slice(&(Kind::Load as u32).to_le_bytes());
    }
    let report = read(&bytes).expect("a record");
    assert_eq!(report.events.len(), ROOM);
    assert!(report.events.iter().all(|event| event.subject.is_empty()));
}

#[test]
fn a_million_events_are_less_than_110_megabytes() {
    assert!(size(1_000_000) < 110_000_000, "{}", size(1_000_000));
}

/// A record whose events each refer to ten texts, and its samples to one, that are as long as can be. Texts are so many bytes apart.
fn of_long_texts(events: usize, apart: usize) -> Vec<u8> {
    let mut bytes = with_room(events);
    for counter in [offset_of!(Header, events), offset_of!(Header, samples)] {
        bytes[counter..counter + 8].copy_from_slice(&(events as u64).to_le_bytes());
    }
    let (samples, strings) = (offset_of!(Layout, samples), offset_of!(Layout, strings));
    // Each length is that of a long text, wherever it is read.
    bytes[strings..size_of::<Layout>()].fill(0x7f);
    let mut place = (1..STRINGS - 2 * LONGEST).step_by(apart).cycle();
    let mut next = || (place.next().unwrap_or(1) as u32).to_le_bytes();
    for sample in bytes[samples..strings].chunks_mut(size_of::<Sample>()) {
        sample[0] = 1;
        sample[offset_of!(Sample, kernel)..][..4].copy_from_slice(&next());
    }
    for event in bytes[size_of::<Layout>()..].chunks_mut(size_of::<RawEvent>()) {
        event[..4].copy_from_slice(&(Kind::Load as u32).to_le_bytes());
        event[offset_of!(RawEvent, call)..].chunks_mut(4).for_each(|text| text.copy_from_slice(&next()));
    }
    bytes
}

#[test]
fn texts_are_bounded_in_total() {
    // One text for all, and one that overlaps the next for each.
    for apart in [STRINGS, 1] {
        let bytes = of_long_texts(65_536, apart);
        let report = read(&bytes).expect("a record");
        let texts = report.events.iter().flat_map(|event| {
            [
                &event.call,
                &event.subject,
                &event.image,
                &event.origin,
                &event.resident,
                &event.rule,
                &event.remedy,
                &event.library,
                &event.caller,
                &event.text,
            ]
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
