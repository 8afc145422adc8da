//! A concurrent set of numbers. Lookups cost a few reads and no lock, and the set grows as needed.

use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

/// The number of slots in the first table. Most programs have fewer kernels.
const FIRST: usize = 1 << 16;

/// Replaces a number that was removed, so that probing continues with the next slot.
const TOMBSTONE: u64 = u64::MAX;

/// The number of slots to probe.
const PROBES: usize = 64;

/// A set of numbers other than 0 and the largest.
pub(crate) struct Table {
    first: [AtomicU64; FIRST],
    /// A list of further tables, each twice as large as the one before it, for when no slot is free.
    overflow: AtomicPtr<Overflow>,
}

struct Overflow {
    slots: Box<[AtomicU64]>,
    next: AtomicPtr<Overflow>,
}

impl Table {
    pub(crate) const fn new() -> Self {
        Table { first: [const { AtomicU64::new(0) }; FIRST], overflow: AtomicPtr::new(ptr::null_mut()) }
    }

    #[inline]
    pub(crate) fn has(&self, number: u64) -> bool {
        match contains(&self.first, number) {
            Some(found) => found,
            None => self.overflow().any(|table| contains(&table.slots, number) == Some(true)),
        }
    }

    pub(crate) fn add(&self, number: u64) {
        if self.has(number) || insert(&self.first, number) {
            return;
        }
        let mut last = &self.overflow;
        let mut size = FIRST;
        loop {
            // SAFETY: tables are never freed.
            let table = unsafe { &*next(last, size * 2) };
            if insert(&table.slots, number) {
                return;
            }
            (last, size) = (&table.next, table.slots.len());
        }
    }

    pub(crate) fn remove(&self, number: u64) {
        for slots in self.tables() {
            for slot in slots_for(slots, number) {
                let _ = slot.compare_exchange(number, TOMBSTONE, Ordering::Relaxed, Ordering::Relaxed);
            }
        }
    }

    pub(crate) fn clear(&self) {
        self.tables().flatten().for_each(|slot| slot.store(0, Ordering::Relaxed));
    }

    fn tables(&self) -> impl Iterator<Item = &[AtomicU64]> {
        [&self.first[..]].into_iter().chain(self.overflow().map(|table| &*table.slots))
    }

    fn overflow(&self) -> impl Iterator<Item = &Overflow> {
        let at = |link: &AtomicPtr<Overflow>| {
            // SAFETY: a link is null or points to a table, which is never freed.
            unsafe { link.load(Ordering::Acquire).as_ref() }
        };
        std::iter::successors(at(&self.overflow), move |table| at(&table.next))
    }
}

/// Returns the slots where a number may be.
fn slots_for(slots: &[AtomicU64], number: u64) -> impl Iterator<Item = &AtomicU64> {
    // The golden ratio spreads handles, which are multiples of a power of two.
    let hash = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - slots.len().trailing_zeros());
    (0..PROBES).map(move |step| &slots[(hash as usize + step) % slots.len()])
}

/// Returns whether a number is in this table, or `None` if it may be in the next, because all slots are taken.
#[inline]
fn contains(slots: &[AtomicU64], number: u64) -> Option<bool> {
    for slot in slots_for(slots, number) {
        match slot.load(Ordering::Relaxed) {
            0 => return Some(false),
            other if other == number => return Some(true),
            _ => {}
        }
    }
    None
}

/// Inserts a number, and returns whether there was a free slot.
fn insert(slots: &[AtomicU64], number: u64) -> bool {
    slots_for(slots, number).any(|slot| {
        let free = slot.load(Ordering::Relaxed);
        matches!(free, 0 | TOMBSTONE)
            && slot.compare_exchange(free, number, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    })
}

/// Returns the table that a link points to, which is created if necessary.
#[cold]
fn next(link: &AtomicPtr<Overflow>, size: usize) -> *const Overflow {
    let there = link.load(Ordering::Acquire);
    if !there.is_null() {
        return there;
    }
    let slots = (0..size).map(|_| AtomicU64::new(0)).collect();
    let new = Box::into_raw(Box::new(Overflow { slots, next: AtomicPtr::new(ptr::null_mut()) }));
    match link.compare_exchange(ptr::null_mut(), new, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => new,
        Err(theirs) => {
            // SAFETY: the table was created above, and was never shared.
            drop(unsafe { Box::from_raw(new) });
            theirs
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Programs on 8 GPUs have been seen with 21,504 kernels in each context.
    #[test]
    fn nothing_is_forgotten_however_many_there_are() {
        static TABLE: Table = Table::new();
        let numbers = (1..200_000).map(|number| number << 4);
        numbers.clone().for_each(|number| TABLE.add(number));
        assert!(numbers.clone().all(|number| TABLE.has(number)));
        assert!(!TABLE.has(8));
        numbers.clone().for_each(|number| TABLE.remove(number));
        assert!(!numbers.clone().any(|number| TABLE.has(number)));
        numbers.clone().for_each(|number| TABLE.add(number));
        assert!(numbers.clone().all(|number| TABLE.has(number)), "slots are used again");
        TABLE.clear();
        assert!(!numbers.clone().any(|number| TABLE.has(number)));
    }

    #[test]
    fn numbers_with_one_hash_find_room() {
        static TABLE: Table = Table::new();
        let numbers = (1..2_000).map(|number| number << 20);
        numbers.clone().for_each(|number| TABLE.add(number));
        assert!(numbers.clone().all(|number| TABLE.has(number)));
    }
}
