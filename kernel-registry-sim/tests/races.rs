//! Tests which work of streams is ordered, and which races.

mod device;

use std::sync::{Mutex, PoisonError};

use device::{context, event, get, kernel, launch, memory, ok, place, stream, words};
use kernel_registry_ptx::{AccessKind, Remedy};
use kernel_registry_sim::{Config, Race, races};

/// The detector knows one host, and returns the races of all tests.
static ONE: Mutex<()> = Mutex::new(());

/// Two streams, a word, and the kernels that write and read it.
struct Case {
    streams: [usize; 2],
    word: usize,
    store: usize,
    load: usize,
}

impl Case {
    fn new() -> Self {
        Config::default().races(true).install().unwrap();
        context(0);
        let case = Case {
            streams: [stream(), stream()],
            word: memory(256),
            store: kernel("store"),
            load: kernel("load"),
        };
        ok("cuCtxSynchronize", &[]);
        assert_eq!(races(), []);
        case
    }

    /// The first stream writes the word, and the second one reads it. In between, something may order both.
    fn write_and_read(between: impl FnOnce([usize; 2], usize)) -> Vec<Race> {
        let case = Case::new();
        let [first, second] = case.streams;
        launch(case.store, first, &[case.word as u64, 7]);
        between(case.streams, case.word);
        launch(case.load, second, &[case.word as u64 + 64, case.word as u64]);
        ok("cuCtxSynchronize", &[]);
        races()
    }
}

#[track_caller]
fn one(found: Vec<Race>) -> Race {
    assert_eq!(found.len(), 1, "{found:?}");
    found.into_iter().next().unwrap()
}

#[test]
fn streams_race_unless_one_waits_for_the_other() {
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let race = one(Case::write_and_read(|_, _| {}));
    assert_eq!((race.first.what, race.second.what), (AccessKind::Write, AccessKind::Read));
    assert_eq!((race.remedy, race.is_shared), (Remedy::Streams, false));
    assert!(race.to_string().ends_with("let one stream wait for an event of the other"), "{race}");

    let waits = |is_done: bool| {
        move |[first, second]: [usize; 2], _: usize| {
            let event = event();
            ok("cuEventRecord", &[event, first]);
            if is_done {
                ok("cuCtxSynchronize", &[]);
            }
            ok("cuStreamWaitEvent", &[second, event, 0]);
        }
    };
    assert_eq!(Case::write_and_read(waits(false)), []);
    assert_eq!(Case::write_and_read(waits(true)), []);
    // An event that was recorded before orders nothing.
    let early = Case::new();
    let event = event();
    ok("cuEventRecord", &[event, early.streams[0]]);
    launch(early.store, early.streams[0], &[early.word as u64, 7]);
    ok("cuStreamWaitEvent", &[early.streams[1], event, 0]);
    launch(early.load, early.streams[1], &[early.word as u64 + 64, early.word as u64]);
    ok("cuCtxSynchronize", &[]);
    one(races());
}

#[test]
fn the_host_orders_what_it_waits_for() {
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    assert_eq!(Case::write_and_read(|[first, _], _| ok("cuStreamSynchronize", &[first])), []);
    let by_event = |[first, _]: [usize; 2], _: usize| {
        let event = event();
        ok("cuEventRecord", &[event, first]);
        ok("cuEventSynchronize", &[event]);
    };
    assert_eq!(Case::write_and_read(by_event), []);
    let by_time = |[first, _]: [usize; 2], _: usize| {
        let events = [event(), event()];
        events.iter().for_each(|event| ok("cuEventRecord", &[*event, first]));
        let mut time = 0_f32;
        while device::call("cuEventElapsedTime", &[place(&mut time), events[0], events[1]]) != 0 {}
    };
    assert_eq!(Case::write_and_read(by_time), []);
    one(Case::write_and_read(|[_, second], _| ok("cuStreamSynchronize", &[second])));
}

#[test]
fn a_word_that_streams_write_and_wait_for_orders_them() {
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let by_word = |[first, second]: [usize; 2], word: usize| {
        ok("cuStreamWriteValue32_v2", &[first, word + 128, 1, 0]);
        ok("cuStreamWaitValue32_v2", &[second, word + 128, 1, 1]);
    };
    assert_eq!(Case::write_and_read(by_word), []);
}

#[test]
fn the_default_stream_orders_blocking_streams() {
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    for (flags, count) in [(0, 0), (1, 1)] {
        let case = Case::new();
        let other = get("cuStreamCreate", &[flags]);
        launch(case.store, 0, &[case.word as u64, 7]);
        launch(case.load, other, &[case.word as u64 + 64, case.word as u64]);
        ok("cuCtxSynchronize", &[]);
        assert_eq!(races().len(), count, "{flags}");
    }
}

#[test]
fn the_default_stream_waits_for_a_stream_that_was_destroyed() {
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let case = Case::new();
    let blocking = get("cuStreamCreate", &[0]);
    launch(case.store, blocking, &[case.word as u64, 7]);
    ok("cuStreamDestroy_v2", &[blocking]);
    launch(case.load, 0, &[case.word as u64 + 64, case.word as u64]);
    ok("cuCtxSynchronize", &[]);
    assert_eq!(races(), []);
}

#[test]
fn copies_race_with_copies_and_large_fills_with_kernels() {
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let case = Case::new();
    let [first, second] = case.streams;
    ok("cuMemcpyDtoDAsync_v2", &[case.word, case.word + 64, 4, first]);
    ok("cuMemcpyDtoDAsync_v2", &[case.word, case.word + 128, 4, second]);
    ok("cuCtxSynchronize", &[]);
    one(races());

    // The detector remembers a range of a fill, and not each word.
    const BYTES: usize = 64 << 20;
    let large = memory(BYTES);
    let begun = std::time::Instant::now();
    ok("cuMemsetD32Async", &[large, 1, BYTES / 4, first]);
    launch(case.store, first, &[large as u64 + 40_000, 7]);
    launch(case.load, second, &[case.word as u64 + 64, large as u64 + 80_000]);
    ok("cuCtxSynchronize", &[]);
    let race = one(races());
    assert!(race.to_string().contains(&format!("a fill in stream {first:#x} writes it")), "{race}");
    assert!(begun.elapsed() < std::time::Duration::from_secs(5), "{:?}", begun.elapsed());
}

#[test]
fn copies_and_fills_race_with_kernels() {
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let case = Case::new();
    let [first, second] = case.streams;
    let host = get("cuMemHostAlloc", &[4, 0]);
    launch(case.store, first, &[case.word as u64, 7]);
    ok("cuMemcpyDtoHAsync_v2", &[host, case.word, 4, second]);
    ok("cuCtxSynchronize", &[]);
    let race = one(races());
    assert!(race.to_string().contains(&format!("a copy in stream {second:#x} reads it")), "{race}");

    launch(case.store, first, &[case.word as u64, 7]);
    ok("cuMemsetD32Async", &[case.word, 1, 4, second]);
    ok("cuCtxSynchronize", &[]);
    one(races());

    // In the same stream, and by calls that wait, they don't.
    launch(case.store, first, &[case.word as u64, 7]);
    ok("cuMemcpyDtoHAsync_v2", &[host, case.word, 4, first]);
    ok("cuStreamSynchronize", &[first]);
    assert_eq!(words(case.word, 1), [7]);
    assert_eq!(races(), []);
}

#[test]
fn memory_that_a_stream_frees_is_not_used_by_another() {
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let case = Case::new();
    let [first, second] = case.streams;
    let mut word = 0_usize;
    ok("cuMemAllocAsync", &[place(&mut word), 64, first]);
    ok("cuStreamSynchronize", &[first]);
    launch(case.store, second, &[word as u64, 7]);
    ok("cuStreamQuery", &[first]);
    // The kernel is done, which nothing in the program makes sure of.
    while device::call("cuEventQuery", &[recorded(second)]) != 0 {}
    let _ = races();
    launch(case.store, second, &[word as u64, 8]);
    std::thread::sleep(std::time::Duration::from_millis(50));
    ok("cuMemFreeAsync", &[word, first]);
    ok("cuCtxSynchronize", &[]);
    let race = one(races());
    assert!(race.to_string().contains("freeing the memory in stream"), "{race}");
}

fn recorded(stream: usize) -> usize {
    let event = event();
    ok("cuEventRecord", &[event, stream]);
    event
}
