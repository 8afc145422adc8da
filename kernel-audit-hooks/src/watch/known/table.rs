//! A set of numbers that one thread reads while others add to it. Looking up a number costs a few reads and no lock;
//! the set grows as needed.

use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

/// The number of slots in the first table. Most programs have fewer kernels.
const FIRST: usize = 1 << 16;

/// The value of a slot whose number was removed. Other numbers may be in the slots after it.
const GONE: u64 = u64::MAX;

/// The most slots that a number may lie after the slot of its hash.
const REACH: usize = 64;

/// A set of numbers other than 0 and the largest.
pub(crate) struct Table {
    first: [AtomicU64; FIRST],
    /// Further tables, each twice as large as the one before, for numbers that found no room there.
    more: AtomicPtr<More>,
}

struct More {
    slots: Box<[AtomicU64]>,
    next: AtomicPtr<More>,
}

impl Table {
    pub(crate) const fn new() -> Self {
        Table { first: [const { AtomicU64::new(0) }; FIRST], more: AtomicPtr::new(ptr::null_mut()) }
    }

    #[inline]
    pub(crate) fn has(&self, number: u64) -> bool {
        match look(&self.first, number) {
            Some(found) => found,
            None => self.more().any(|more| look(&more.slots, number) == Some(true)),
        }
    }

    pub(crate) fn add(&self, number: u64) {
        if self.has(number) || take(&self.first, number) {
            return;
        }
        let mut last = &self.more;
        let mut size = FIRST;
        loop {
            // SAFETY: tables are never freed.
            let more = unsafe { &*next(last, size * 2) };
            if take(&more.slots, number) {
                return;
            }
            (last, size) = (&more.next, more.slots.len());
        }
    }

    pub(crate) fn remove(&self, number: u64) {
        for slots in self.tables() {
            for slot in slots_for(slots, number) {
                let _ = slot.compare_exchange(number, GONE, Ordering::Relaxed, Ordering::Relaxed);
            }
        }
    }

    pub(crate) fn clear(&self) {
        self.tables().flatten().for_each(|slot| slot.store(0, Ordering::Relaxed));
    }

    fn tables(&self) -> impl Iterator<Item = &[AtomicU64]> {
        [&self.first[..]].into_iter().chain(self.more().map(|more| &*more.slots))
    }

    fn more(&self) -> impl Iterator<Item = &More> {
        let at = |link: &AtomicPtr<More>| {
            // SAFETY: a link is null or leads to a table, which is never freed.
            unsafe { link.load(Ordering::Acquire).as_ref() }
        };
        std::iter::successors(at(&self.more), move |more| at(&more.next))
    }
}

/// Returns the slots where a number may be.
fn slots_for(slots: &[AtomicU64], number: u64) -> impl Iterator<Item = &AtomicU64> {
    // The golden ratio spreads handles, which are multiples of a power of two.
    let hash = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - slots.len().trailing_zeros());
    (0..REACH).map(move |step| &slots[(hash as usize + step) % slots.len()])
}

/// Returns whether a number is in the table. Returns `None` if all slots for the number are taken, so that it may be in
/// the next table.
#[inline]
fn look(slots: &[AtomicU64], number: u64) -> Option<bool> {
    for slot in slots_for(slots, number) {
        match slot.load(Ordering::Relaxed) {
            0 => return Some(false),
            other if other == number => return Some(true),
            _ => {}
        }
    }
    None
}

/// Puts a number into a free slot. Returns whether there was one.
fn take(slots: &[AtomicU64], number: u64) -> bool {
    slots_for(slots, number).any(|slot| {
        let free = slot.load(Ordering::Relaxed);
        matches!(free, 0 | GONE)
            && slot.compare_exchange(free, number, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    })
}

/// Returns the table that a link leads to, and creates it if there is none.
#[cold]
fn next(link: &AtomicPtr<More>, size: usize) -> *const More {
    let there = link.load(Ordering::Acquire);
    if !there.is_null() {
        return there;
    }
    let slots = (0..size).map(|_| AtomicU64::new(0)).collect();
    let new = Box::into_raw(Box::new(More { slots, next: AtomicPtr::new(ptr::null_mut()) }));
    match link.compare_exchange(ptr::null_mut(), new, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => new,
        Err(theirs) => {
            // SAFETY: the table was made above, and no other thread has it.
            drop(unsafe { Box::from_raw(new) });
            theirs
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Programs on 8 GPUs have 21,504 kernels in each context.
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
