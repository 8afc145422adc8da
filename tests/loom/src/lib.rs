//! Tests the launch table under loom: readers never see a torn entry, and no entry is lost. `calls` tests the audit's slots.
#![cfg(test)]

mod calls;

#[path = "../../../kernel-registry/src/table/entries.rs"]
mod entries;
#[path = "../../../kernel-registry/src/table/seqlock.rs"]
mod seqlock;
#[path = "../../../kernel-audit-record/src/record/slot.rs"]
mod slot;

/// The module from which these files import atomics.
mod sync {
    pub(crate) use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
    pub(crate) use loom::sync::{RwLock, RwLockWriteGuard};
}

use std::collections::BTreeMap;

use entries::{Entries, Others, Slots, WORDS};
use loom::sync::Arc;
use loom::thread;
use seqlock::Seqlock;

#[test]
fn words_are_read_whole() {
    loom::model(|| {
        let shared = Arc::new(Seqlock::<2>::zero());
        let writer = {
            let shared = shared.clone();
            thread::spawn(move || (1..=2).for_each(|number| shared.write([number; 2])))
        };
        if let Some([first, second]) = shared.read() {
            assert_eq!(first, second);
        }
        writer.join().unwrap();
        assert_eq!(shared.read(), Some([2; 2]));
    });
}

struct Table {
    slots: Slots,
    others: Others,
}

impl Table {
    fn new() -> Arc<Self> {
        let slots = std::array::from_fn(|_| Seqlock::zero());
        Arc::new(Table { slots, others: Others::new(BTreeMap::new()) })
    }

    fn entries(&self) -> Entries<'_> {
        Entries { slots: &self.slots, others: &self.others, key: 0 }
    }

    /// Adds an entry for a context whose address is the id plus 100.
    fn set(&self, id: u64) {
        let mut entry = [id; WORDS];
        entry[0] = id + 100;
        self.entries().set(0, id, entry);
    }

    fn has(&self, id: u64) -> bool {
        let found = self.entries().find(0, id);
        assert!(found.is_none_or(|entry| entry[0] == id + 100 && entry[2..] == [id; WORDS - 2]), "{found:?}");
        found.is_some()
    }
}

#[test]
fn two_contexts_of_a_device_are_entered_at_once() {
    loom::model(|| {
        let table = Table::new();
        let other = {
            let table = table.clone();
            thread::spawn(move || {
                table.set(1);
                assert!(table.has(1));
            })
        };
        table.set(2);
        assert!(table.has(2));
        other.join().unwrap();
        assert!(table.has(1) && table.has(2));
    });
}

#[test]
fn a_context_is_found_while_it_moves_into_the_slot_of_another() {
    loom::model(|| {
        let table = Table::new();
        table.set(1);
        table.set(2);
        let other = {
            let table = table.clone();
            thread::spawn(move || table.entries().forget(0, 1))
        };
        assert!(table.has(2));
        other.join().unwrap();
        assert!(table.has(2) && !table.has(1));
        assert!(table.entries().get(0, 102).is_some(), "it has the slot");
    });
}

/// When the first context ends, the second takes its slot. A launch in the second context must never get the first context's handle.
#[test]
fn a_launch_finds_its_own_context_or_nothing() {
    let mut model = loom::model::Builder::new();
    // The number of preemptions is limited, because exploring all orders would take hours.
    model.preemption_bound = Some(3);
    model.check(|| {
        let table = Table::new();
        table.set(1);
        let other = {
            let table = table.clone();
            thread::spawn(move || {
                table.entries().forget(0, 1);
                table.set(2);
            })
        };
        let found = table.entries().get(0, 102);
        assert!(found.is_none_or(|entry| entry[0] == 102 && entry[2..] == [2; WORDS - 2]), "{found:?}");
        other.join().unwrap();
    });
}
