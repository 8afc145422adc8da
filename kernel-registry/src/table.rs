//! The launch table of a kernel: a launch finds the kernel's handle for its context in it.

mod entries;
mod seqlock;
mod sync;

use std::collections::BTreeMap;
use std::ptr;
use std::sync::RwLock;
use std::sync::atomic::{AtomicU64, Ordering};

use cudarc::driver::CudaContext;

use crate::driver::{ContextId, Function};
use entries::{DEVICES, Entries, Entry, Others, Slots};
use seqlock::Seqlock;

/// The launch table of a kernel: an entry for each context in which the kernel is warm. A new table is all zeros, so that it
/// takes no room in the binary.
pub struct Table {
    slots: Slots,
}

static OTHERS: Others = RwLock::new(BTreeMap::new());

/// How often entries were removed.
static EPOCH: AtomicU64 = AtomicU64::new(0);

/// Returns a number that changes when entries are removed. While the number stays the same, entries found earlier are valid.
#[inline]
pub(crate) fn epoch() -> u64 {
    EPOCH.load(Ordering::Acquire)
}

/// Changes the epoch. Must be called after entries were removed, so that users of a removed entry look it up again.
pub(crate) fn next_epoch() {
    EPOCH.fetch_add(1, Ordering::AcqRel);
}

/// A kernel that is warm or unavailable in a context.
#[derive(Clone, Copy)]
pub(crate) struct Ready {
    pub(crate) function: Function,
    pub(crate) context: Owner,
    pub(crate) limits: Limits,
}

/// A context, and the `CudaContext` through which it was warmed.
///
/// The address of the `CudaContext` identifies it: `KnownContext` keeps a `Weak` of it until the entry is replaced or removed, so
/// no other `CudaContext` can get the same address. The address of the driver's context identifies nothing: after a context is
/// destroyed, the next context often gets the same address.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Owner {
    pub(crate) address: *const CudaContext,
    pub(crate) id: ContextId,
}

// SAFETY: the address is only compared.
unsafe impl Send for Owner {}
// SAFETY: as above.
unsafe impl Sync for Owner {}

/// The limits of a kernel's launches in a context.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// The least architecture that the kernel needs, if the kernel is unavailable in this context; otherwise 0.
    pub unavailable_below: u32,
    /// The most threads in a block.
    pub threads: u32,
    /// The most bytes of dynamic shared memory.
    pub shared: u32,
    /// The blocks that a cluster must have in x, y and z, or zeros if the kernel does not fix them.
    pub cluster: [u8; 3],
    /// Whether each launch must set a cluster size.
    pub cluster_must_be_set: bool,
}

impl Table {
    /// The table of a kernel that is warm in no context. The table is a constant because the compiler copies a constant faster
    /// than it evaluates a `const fn` for each kernel.
    #[expect(clippy::declare_interior_mutable_const, reason = "every kernel's table starts as a copy of it")]
    pub const COLD: Table = Table { slots: [const { Seqlock::ZERO }; DEVICES] };

    /// Returns the kernel in this context. Takes no lock. Finds the kernel only if it was warmed through this very `CudaContext`,
    /// and the device's slot belongs to this context. [`find`](Self::find) finds other kernels.
    #[inline]
    pub(crate) fn get(&self, context: &CudaContext) -> Option<Ready> {
        self.entries().get(context.ordinal(), ptr::from_ref(context).addr() as u64).map(Ready::from_words)
    }

    /// Returns the kernel in the context with this id.
    pub(crate) fn find(&self, ordinal: usize, id: ContextId) -> Option<Ready> {
        self.entries().find(ordinal, id.0).map(Ready::from_words)
    }

    /// Adds the entry for a context, or replaces it.
    pub(crate) fn set(&self, ordinal: usize, ready: Ready) {
        self.entries().set(ordinal, ready.context.id.0, ready.to_words());
    }

    /// Removes the entry for a context.
    pub(crate) fn forget(&self, ordinal: usize, id: ContextId) {
        self.entries().forget(ordinal, id.0);
    }

    #[inline]
    fn entries(&self) -> Entries<'_> {
        Entries { slots: &self.slots, others: &OTHERS, key: ptr::from_ref(self).addr() }
    }
}

impl Ready {
    fn to_words(self) -> Entry {
        let Ready { function, context, limits } = self;
        let [x, y, z] = limits.cluster;
        let cluster = u32::from_le_bytes([x, y, z, limits.cluster_must_be_set.into()]);
        let pair = |high: u32, low: u32| u64::from(high) << 32 | u64::from(low);
        [
            context.address.addr() as u64,
            context.id.0.wrapping_add(1),
            function.0.expose_provenance() as u64,
            pair(limits.unavailable_below, limits.threads),
            pair(limits.shared, cluster),
        ]
    }

    #[inline]
    fn from_words([address, id, function, threads, shared]: Entry) -> Self {
        let [x, y, z, must_be_set] = (shared as u32).to_le_bytes();
        Ready {
            // The handle came from the driver, and is only passed back to the driver.
            function: Function(ptr::with_exposed_provenance_mut(function as usize)),
            context: Owner {
                address: ptr::without_provenance(address as usize),
                id: ContextId(id.wrapping_sub(1)),
            },
            limits: Limits {
                unavailable_below: (threads >> 32) as u32,
                threads: threads as u32,
                shared: (shared >> 32) as u32,
                cluster: [x, y, z],
                cluster_must_be_set: must_be_set != 0,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ready(id: u64, threads: u32) -> Ready {
        let limits = Limits { threads, shared: 49_152, cluster: [2, 1, 1], ..Limits::default() };
        let context = Owner { address: ptr::without_provenance(id as usize * 64), id: ContextId(id) };
        Ready { function: Function(ptr::without_provenance_mut(threads as usize)), context, limits }
    }

    fn threads(table: &Table, ordinal: usize, id: u64) -> Option<u32> {
        table.find(ordinal, ContextId(id)).map(|ready| ready.limits.threads)
    }

    #[test]
    fn each_kernel_has_its_own_entries() {
        let (one, other) = (Table::COLD, Table::COLD);
        one.set(DEVICES, ready(0, 10));
        other.set(DEVICES, ready(0, 20));
        assert_eq!([threads(&one, DEVICES, 0), threads(&other, DEVICES, 0)], [Some(10), Some(20)]);
    }

    #[test]
    fn a_new_table_is_cold() {
        let table = Table::COLD;
        for (ordinal, id) in [(0, 0), (0, u64::MAX - 1), (DEVICES, 0)] {
            assert_eq!(threads(&table, ordinal, id), None);
        }
    }

    #[test]
    fn each_context_has_its_own_entry() {
        let table = Table::COLD;
        // Two contexts are on device 0, one on device 3, and one on a device that has no slot.
        for (ordinal, id, threads) in [(0, 0, 10), (0, 1, 11), (3, 2, 12), (DEVICES, 3, 13)] {
            table.set(ordinal, ready(id, threads));
        }
        assert_eq!(threads(&table, 0, 0), Some(10));
        assert_eq!(threads(&table, 0, 1), Some(11));
        assert_eq!(threads(&table, 3, 2), Some(12));
        assert_eq!(threads(&table, DEVICES, 3), Some(13));
        assert_eq!(threads(&table, 3, 0), None);
    }

    #[test]
    fn entries_are_found_as_they_were_set() {
        let table = Table::COLD;
        let limits = Limits {
            unavailable_below: 1,
            threads: 2,
            shared: 3,
            cluster: [4, 5, 6],
            cluster_must_be_set: true,
        };
        table.set(0, Ready { limits, ..ready(7, 0) });
        let found = table.find(0, ContextId(7)).expect("it was set");
        assert_eq!(found.limits, limits);
        assert_eq!(found.context.id.0, 7);
        assert_eq!(found.context.address.addr(), 7 * 64);
    }

    #[test]
    fn warming_again_replaces_the_entry() {
        let table = Table::COLD;
        for threads in [10, 20] {
            table.set(0, ready(0, threads));
            table.set(0, ready(1, threads + 1));
        }
        assert_eq!(threads(&table, 0, 0), Some(20));
        assert_eq!(threads(&table, 0, 1), Some(21));
        table.forget(0, ContextId(1));
        assert_eq!(threads(&table, 0, 1), None);
    }

    #[test]
    fn a_forgotten_context_frees_its_slot() {
        let table = Table::COLD;
        table.set(0, ready(5, 10));
        table.set(0, ready(6, 11));
        table.forget(0, ContextId(5));
        table.forget(0, ContextId(6));
        assert_eq!(threads(&table, 0, 5), None);
        assert_eq!(threads(&table, 0, 6), None);
        table.set(0, ready(7, 12));
        assert_eq!(threads(&table, 0, 7), Some(12));
        assert_eq!(threads(&table, 0, 6), None);
    }

    #[test]
    fn the_next_context_of_the_device_takes_a_free_slot() {
        let table = Table::COLD;
        for (ordinal, id) in [(1, 4), (0, 5), (0, 6), (0, 7)] {
            table.set(ordinal, ready(id, id as u32));
        }
        table.forget(0, ContextId(5));
        let first = table.slots[0].read().map(Ready::from_words).expect("no write is in progress");
        assert_eq!((first.context.id.0, first.limits.threads), (6, 6));
        assert_eq!(
            [4, 6, 7].map(|id| threads(&table, usize::from(id == 4), id)),
            [Some(4), Some(6), Some(7)]
        );
        table.forget(0, ContextId(7));
        assert_eq!(threads(&table, 0, 7), None);
        assert_eq!(threads(&table, 0, 6), Some(6));
    }

    /// Each thread has its own context on one device. It finds the entry that it has set, while other threads set their entries.
    #[test]
    fn contexts_of_one_device_do_not_lose_entries() {
        const ROUNDS: u64 = if cfg!(miri) { 20 } else { 20_000 };
        let table = Table::COLD;
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let table = &table;
                scope.spawn(move || {
                    for round in 0..ROUNDS {
                        let id = 4 * round + thread;
                        table.set(0, ready(id, id as u32));
                        assert_eq!(threads(table, 0, id), Some(id as u32));
                        table.forget(0, ContextId(id));
                        assert_eq!(threads(table, 0, id), None);
                    }
                });
            }
        });
    }
}
