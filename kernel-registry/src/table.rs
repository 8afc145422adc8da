//! Where a launch finds its kernel: each kernel has a table of the contexts in which it is warm.

use std::collections::BTreeMap;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock};

use cudarc::driver::CudaContext;

use crate::driver::Function;

/// Devices whose first warm context a launch finds without a lock.
const DEVICES: usize = 16;

/// The contexts in which a kernel is warm: the first of each device. All zeros to begin with, so that it
/// takes no room in the file.
pub struct Table {
    slots: [Slot; DEVICES],
}

/// Further contexts of these devices, and further devices, of all kernels: by the context's id and the address of
/// the kernel's table.
static OTHERS: RwLock<BTreeMap<(u64, usize), Ready>> = RwLock::new(BTreeMap::new());

/// A kernel that is warm in a context, or that will never be.
#[derive(Clone, Copy)]
pub(crate) struct Ready {
    pub(crate) function: Function,
    pub(crate) context: Owner,
    pub(crate) limits: Limits,
}

/// A context, and the `CudaContext` that it was warmed through.
///
/// Whoever enters a context into a table keeps a `Weak` of the `CudaContext` until the context is forgotten:
/// so no other can come to have this address. (The address of the driver's context proves nothing: after a
/// context is destroyed, the next one often has it.)
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Owner {
    pub(crate) address: *const CudaContext,
    /// See `driver::context_id`.
    pub(crate) id: u64,
}

// SAFETY: the address is only compared.
unsafe impl Send for Owner {}
// SAFETY: as above.
unsafe impl Sync for Owner {}

/// What a launch of a kernel must keep to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Limits {
    /// The least architecture, of a kernel that cannot run in this context, else 0.
    pub(crate) unavailable_below: u32,
    /// Threads in a block.
    pub(crate) threads: u32,
    /// Bytes of dynamic shared memory.
    pub(crate) shared: u32,
    /// Blocks in a cluster along each axis, or zeros if it needs none.
    pub(crate) cluster: [u8; 3],
    /// A cluster size has to be chosen at each launch.
    pub(crate) cluster_must_be_set: bool,
}

/// One `Ready` that many threads may read while one changes it.
///
/// What a reader finds is whole: a slot changes only after its context is gone, and nobody who still launches
/// there could have had a stream of it. (After a reset of the device somebody can; the driver refuses that.)
struct Slot {
    address: AtomicPtr<CudaContext>,
    /// The context's id, plus 1.
    id: AtomicU64,
    function: AtomicPtr<cudarc::driver::sys::CUfunc_st>,
    unavailable_below: AtomicU32,
    threads: AtomicU32,
    shared: AtomicU32,
    cluster: AtomicU32,
}

impl Table {
    /// A kernel that is warm nowhere. A constant, because copying one costs the compiler less than making one.
    #[expect(clippy::declare_interior_mutable_const, reason = "every kernel's table starts as a copy of it")]
    pub const COLD: Table = Table { slots: [const { Slot::EMPTY }; DEVICES] };

    /// The kernel in this context, if it was warmed through this very `CudaContext`, and that is the device's
    /// first. One load and one comparison.
    #[inline]
    pub(crate) fn get(&self, context: &CudaContext) -> Option<Ready> {
        let slot = self.slots.get(context.ordinal())?;
        let address = slot.address.load(Ordering::Acquire);
        ptr::eq(address, context).then(|| slot.read())
    }

    /// The kernel in the context with this id.
    pub(crate) fn find(&self, ordinal: usize, id: u64) -> Option<Ready> {
        let slot = self.slots.get(ordinal);
        let first = slot.filter(|slot| slot.id.load(Ordering::Acquire) == id.wrapping_add(1)).map(Slot::read);
        first.or_else(|| {
            let others = OTHERS.read().unwrap_or_else(PoisonError::into_inner);
            others.get(&(id, self.key())).copied()
        })
    }

    /// Enters the kernel for a context. One thread at a time.
    pub(crate) fn set(&self, ordinal: usize, ready: Ready) {
        match self.slots.get(ordinal) {
            Some(slot) if slot.is_for(&ready) => slot.write(&ready),
            _ => {
                let mut others = OTHERS.write().unwrap_or_else(PoisonError::into_inner);
                others.insert((ready.context.id, self.key()), ready);
            }
        }
    }

    /// Removes a context that is gone. One thread at a time.
    pub(crate) fn forget(&self, ordinal: usize, id: u64) {
        match self.slots.get(ordinal) {
            Some(slot) if slot.id.load(Ordering::Relaxed) == id.wrapping_add(1) => slot.clear(),
            _ => {
                OTHERS.write().unwrap_or_else(PoisonError::into_inner).remove(&(id, self.key()));
            }
        }
    }

    fn key(&self) -> usize {
        ptr::from_ref(self).addr()
    }
}

impl Slot {
    #[expect(clippy::declare_interior_mutable_const, reason = "see `Table::COLD`")]
    const EMPTY: Slot = Slot {
        address: AtomicPtr::new(ptr::null_mut()),
        id: AtomicU64::new(0),
        function: AtomicPtr::new(ptr::null_mut()),
        unavailable_below: AtomicU32::new(0),
        threads: AtomicU32::new(0),
        shared: AtomicU32::new(0),
        cluster: AtomicU32::new(0),
    };

    /// Whether it is empty or has the same context.
    fn is_for(&self, ready: &Ready) -> bool {
        let id = self.id.load(Ordering::Relaxed);
        id == 0 || id == ready.context.id.wrapping_add(1)
    }

    #[inline]
    fn read(&self) -> Ready {
        let [x, y, z, must_be_set] = self.cluster.load(Ordering::Relaxed).to_le_bytes();
        Ready {
            function: Function(self.function.load(Ordering::Relaxed)),
            context: Owner {
                address: self.address.load(Ordering::Relaxed),
                id: self.id.load(Ordering::Relaxed).wrapping_sub(1),
            },
            limits: Limits {
                unavailable_below: self.unavailable_below.load(Ordering::Relaxed),
                threads: self.threads.load(Ordering::Relaxed),
                shared: self.shared.load(Ordering::Relaxed),
                cluster: [x, y, z],
                cluster_must_be_set: must_be_set != 0,
            },
        }
    }

    /// The keys come last, so that who finds one of them finds everything.
    fn write(&self, ready: &Ready) {
        let Ready { function, context, limits } = *ready;
        let [x, y, z] = limits.cluster;
        let cluster = u32::from_le_bytes([x, y, z, limits.cluster_must_be_set.into()]);
        self.function.store(function.0, Ordering::Relaxed);
        self.unavailable_below.store(limits.unavailable_below, Ordering::Relaxed);
        self.threads.store(limits.threads, Ordering::Relaxed);
        self.shared.store(limits.shared, Ordering::Relaxed);
        self.cluster.store(cluster, Ordering::Relaxed);
        self.id.store(context.id.wrapping_add(1), Ordering::Release);
        self.address.store(context.address.cast_mut(), Ordering::Release);
    }

    fn clear(&self) {
        self.address.store(ptr::null_mut(), Ordering::Release);
        self.id.store(0, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ready(id: u64, threads: u32) -> Ready {
        let limits = Limits { threads, shared: 49_152, cluster: [2, 1, 1], ..Limits::default() };
        let context = Owner { address: ptr::without_provenance(id as usize * 64), id };
        Ready { function: Function(ptr::without_provenance_mut(threads as usize)), context, limits }
    }

    fn threads(table: &Table, ordinal: usize, id: u64) -> Option<u32> {
        table.find(ordinal, id).map(|ready| ready.limits.threads)
    }

    #[test]
    fn tables_are_told_apart() {
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
    fn every_context_has_its_own() {
        let table = Table::COLD;
        // The first two on one device, one on another, one beyond the slots.
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
    fn what_is_set_is_found_whole() {
        let table = Table::COLD;
        let limits = Limits {
            unavailable_below: 1,
            threads: 2,
            shared: 3,
            cluster: [4, 5, 6],
            cluster_must_be_set: true,
        };
        table.set(0, Ready { limits, ..ready(7, 0) });
        let found = table.find(0, 7).expect("it was set");
        assert_eq!(found.limits, limits);
        assert_eq!(found.context.id, 7);
        assert_eq!(found.context.address.addr(), 7 * 64);
    }

    #[test]
    fn warming_again_replaces() {
        let table = Table::COLD;
        for threads in [10, 20] {
            table.set(0, ready(0, threads));
            table.set(0, ready(1, threads + 1));
        }
        assert_eq!(threads(&table, 0, 0), Some(20));
        assert_eq!(threads(&table, 0, 1), Some(21));
        table.forget(0, 1);
        assert_eq!(threads(&table, 0, 1), None);
    }

    #[test]
    fn a_context_that_is_gone_leaves_its_slot() {
        let table = Table::COLD;
        table.set(0, ready(5, 10));
        table.set(0, ready(6, 11));
        table.forget(0, 5);
        table.forget(0, 6);
        assert_eq!(threads(&table, 0, 5), None);
        assert_eq!(threads(&table, 0, 6), None);
        table.set(0, ready(7, 12));
        assert_eq!(threads(&table, 0, 7), Some(12));
        assert_eq!(threads(&table, 0, 6), None);
    }
}
