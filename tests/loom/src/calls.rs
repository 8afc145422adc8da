//! Tests a thread's slot in the audit's record under loom: a reader never sees words of two calls as one.

use loom::sync::Arc;
use loom::sync::atomic::Ordering;
use loom::thread;

use super::slot::{Entry, InProgress, Slot};
use super::sync::{AtomicU32, AtomicU64};

fn slot(thread: u32) -> Arc<Slot> {
    Arc::new(Slot {
        thread: AtomicU32::new(thread),
        call: AtomicU32::new(0),
        sequence: AtomicU64::new(0),
        subject: AtomicU64::new(0),
        stream: AtomicU64::new(0),
        launches: AtomicU64::new(0),
        loads: AtomicU32::new(0),
        pc: AtomicU32::new(0),
        sp: AtomicU64::new(0),
        fp: AtomicU32::new(0),
    })
}

/// A call of this hook, about this number.
fn entry(call: u32, number: u64) -> Entry {
    let half = number as u32;
    Entry { call, subject: number, stream: number, loads: number > 1, pc: half, sp: number, fp: half }
}

/// The same call, as another thread may see it.
fn seen(thread: u32, sequence: u64, call: u32, number: u64) -> InProgress {
    InProgress { thread, call, sequence, subject: number, stream: number, loads: number > 1 }
}

/// Explores how a reader may see what a thread does with its slot. It must see one of `possible` or nothing, and `last` at the end.
fn explore<const N: usize>(writer: fn(&Slot), possible: [InProgress; N], last: Option<InProgress>) {
    let mut model = loom::model::Builder::new();
    // The number of preemptions is limited, because exploring all orders would take hours.
    model.preemption_bound = Some(2);
    model.check(move || {
        let shared = slot(1);
        // With the reader in the thread that starts the writer, loom does not find all mixtures.
        let (of_writer, of_reader) = (shared.clone(), shared.clone());
        let writer = thread::spawn(move || writer(&of_writer));
        let reader = thread::spawn(move || {
            if let Some(call) = of_reader.in_progress() {
                assert!(possible.contains(&call), "{call:?}");
            }
        });
        writer.join().unwrap();
        reader.join().unwrap();
        assert_eq!(shared.in_progress(), last);
    });
}

#[test]
fn two_calls_of_a_hook_are_not_mixed() {
    let last = seen(1, 1, 1, 2);
    explore(
        |slot| {
            let outer = slot.begin(entry(1, 1));
            slot.end(outer);
            slot.begin(entry(1, 2));
        },
        [seen(1, 0, 1, 1), last],
        Some(last),
    );
}

#[test]
fn a_call_is_not_mixed_with_the_call_around_it() {
    let last = seen(1, 1, 1, 1);
    explore(
        |slot| {
            slot.begin(entry(1, 1));
            let outer = slot.begin(entry(2, 2));
            slot.end(outer);
        },
        [seen(1, 0, 1, 1), seen(1, 0, 2, 2), last],
        Some(last),
    );
}

#[test]
fn a_call_that_makes_progress_is_not_mixed_with_the_call_before() {
    explore(
        |slot| {
            let outer = slot.begin(entry(1, 1));
            slot.end(outer);
            slot.mark_progress(2);
        },
        [seen(1, 0, 1, 1)],
        None,
    );
}

/// A thread that ends leaves its slot to the next one, whose calls are numbered from 0 again.
#[test]
fn calls_of_two_threads_are_not_mixed() {
    let last = seen(2, 0, 1, 2);
    explore(
        |slot| {
            let outer = slot.begin(entry(1, 1));
            slot.end(outer);
            slot.sequence.swap(0, Ordering::Relaxed);
            slot.thread.store(0, Ordering::Release);
            let free = slot.thread.compare_exchange(0, 2, Ordering::AcqRel, Ordering::Relaxed);
            assert_eq!(free, Ok(0));
            slot.begin(entry(1, 2));
        },
        [seen(1, 0, 1, 1), last],
        Some(last),
    );
}
