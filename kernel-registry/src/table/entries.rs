//! The entries of one kernel's table. The first context of each device has a slot, which is read without a lock. All other
//! contexts are in a map. tests/loom runs this file under loom.

use std::collections::BTreeMap;

use super::seqlock::Seqlock;
use super::sync::{RwLock, RwLockWriteGuard};

/// How many devices have a slot. Under loom it is one, because loom explores each word of each slot.
pub(super) const DEVICES: usize = if cfg!(loom) { 1 } else { 16 };

/// An entry as words. The first word is the address of the `CudaContext`, the second the context's id plus one. Both are zero
/// in an empty slot.
pub(super) type Entry = [u64; WORDS];
pub(super) const WORDS: usize = 5;
const ADDRESS: usize = 0;
const ID: usize = 1;

/// A slot for the first context of each device.
pub(super) type Slots = [Seqlock<WORDS>; DEVICES];

/// The entries of all kernels that are not in a slot, by kernel, device and context. Every change holds this lock, including a
/// change of a slot.
pub(super) type Others = RwLock<BTreeMap<(usize, usize, u64), Entry>>;

/// The entries of one kernel, which `key` identifies in `others`.
pub(super) struct Entries<'t> {
    pub(super) slots: &'t Slots,
    pub(super) others: &'t Others,
    pub(super) key: usize,
}

impl Entries<'_> {
    /// Returns the entry that was made through the `CudaContext` of this address, if that entry is in the device's slot.
    #[inline]
    pub(super) fn get(&self, device: usize, address: u64) -> Option<Entry> {
        let slot = self.slots.get(device)?;
        // Most failing lookups end here, before all words are read.
        if slot.peek(ADDRESS) != address {
            return None;
        }
        slot.read().filter(|entry| entry[ADDRESS] == address)
    }

    /// Returns the entry of the context with this id.
    pub(super) fn find(&self, device: usize, id: u64) -> Option<Entry> {
        let is_its = |entry: &Entry| entry[ID] == id.wrapping_add(1);
        let slot = self.slots.get(device);
        slot.and_then(Seqlock::read).filter(is_its).or_else(|| {
            let others = self.others.read().unwrap_or_else(|poisoned| poisoned.into_inner());
            // While this lock is held, nothing is written. So a slot that was being changed above can be read now.
            let slot = slot.and_then(Seqlock::read).filter(is_its);
            slot.or_else(|| others.get(&(self.key, device, id)).copied())
        })
    }

    /// Adds the entry of a context, or replaces it.
    pub(super) fn set(&self, device: usize, id: u64, mut entry: Entry) {
        entry[ID] = id.wrapping_add(1);
        let mut others = self.lock();
        match self.slots.get(device) {
            Some(slot) if [0, entry[ID]].contains(&slot.peek(ID)) => slot.write(entry),
            _ => {
                others.insert((self.key, device, id), entry);
            }
        }
    }

    /// Removes the entry of a context. Another context of the device moves into the slot that becomes free.
    pub(super) fn forget(&self, device: usize, id: u64) {
        let mut others = self.lock();
        match self.slots.get(device) {
            Some(slot) if slot.peek(ID) == id.wrapping_add(1) => {
                let next = others.range((self.key, device, 0)..=(self.key, device, u64::MAX)).next();
                let next = next.map(|(key, entry)| (*key, *entry));
                slot.write(next.map_or([0; WORDS], |(_, entry)| entry));
                if let Some((key, _)) = next {
                    others.remove(&key);
                }
            }
            _ => {
                others.remove(&(self.key, device, id));
            }
        }
    }

    fn lock(&self) -> RwLockWriteGuard<'_, BTreeMap<(usize, usize, u64), Entry>> {
        // Every change of the map is a single call, so a thread that panicked has left no half-made change.
        self.others.write().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}
