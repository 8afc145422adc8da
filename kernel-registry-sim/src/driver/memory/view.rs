//! Gives a running kernel access to memory, and decides which accesses are allowed.

use std::cell::Cell;

use kernel_registry_ptx::{Memory, MemoryFault};

use super::blocks::{Block, Kind, Shared};
use crate::driver::caller;
use crate::driver::clock;
use crate::driver::handles::Handle;
use crate::driver::report::texts::{self, Launcher};

/// The memory that a kernel may access during a turn. It caches the allocations of the last accesses, because a lookup
/// for each access would take longer than everything else that the interpreter does.
pub(crate) struct View<'m> {
    memory: &'m Shared,
    /// Start and end of cached allocations, in slots chosen by address.
    cache: [Cell<(usize, usize)>; 8],
    owner: (Handle, usize),
    /// The device's clock in MHz.
    pub(crate) clock: u32,
    pub(crate) launcher: Launcher,
}

impl<'m> View<'m> {
    /// Makes the view of a kernel in a context, on a device.
    pub(crate) fn new(memory: &'m Shared, context: Handle, device: usize) -> Self {
        let (cache, launcher) = (Default::default(), Launcher::default());
        View { memory, cache, owner: (context, device), clock: 1000, launcher }
    }

    /// Checks that the kernel may read and write these bytes.
    fn access(&self, address: usize, bytes: usize) -> Result<(), MemoryFault> {
        let slot = &self.cache[(address >> 21) % self.cache.len()];
        let (start, end) = slot.get();
        if address >= start && address.checked_add(bytes).is_some_and(|behind| behind <= end) {
            return Ok(());
        }
        let memory = self.memory.lock();
        let (start, block) = memory.find(address, bytes).ok_or(MemoryFault::Unallocated)?;
        let device = self.owner.1;
        let refused = match block.device {
            owner if owner == device => MemoryFault::Unallocated,
            owner => MemoryFault::Peer { owner: owner as u32, device: device as u32 },
        };
        match block.kind {
            Kind::Graph { is_there: false } => return Err(MemoryFault::Unallocated),
            Kind::Device | Kind::Pooled(_) | Kind::Graph { .. } | Kind::Variable | Kind::Heap
                if block.device != device =>
            {
                return Err(refused);
            }
            Kind::Registered => {
                drop(memory);
                let (first, end) = pages(address, bytes).ok_or(MemoryFault::Unallocated)?;
                slot.set((start.max(first), (start + block.bytes).min(end)));
            }
            _ => slot.set((start, start + block.bytes)),
        }
        Ok(())
    }
}

// SAFETY: allowed addresses are in memory of this process that kernels may write. The memory stays valid until the
// driver frees it, which happens only between the turns of kernels. The pointer has the same numerical address, so its
// alignment is the same.
unsafe impl Memory for View<'_> {
    fn check(&self, address: u64, size: u64) -> Result<*mut u8, MemoryFault> {
        let address = address as usize;
        self.access(address, size as usize)?;
        Ok(std::ptr::with_exposed_provenance_mut(address))
    }

    fn malloc(&self, size: u64) -> u64 {
        let (context, device) = self.owner;
        let block = Block { bytes: size as usize, kind: Kind::Heap, context, device };
        self.memory.lock().allocate(block).map_or(0, |address| address as u64)
    }

    fn free(&self, address: u64) -> Result<(), MemoryFault> {
        let address = address as usize;
        self.cache.iter().for_each(|slot| slot.set((0, 0)));
        let mut memory = self.memory.lock();
        let found = memory.starting_at(address, |kind| kind == Kind::Heap);
        found.map_err(|_| MemoryFault::Unallocated)?;
        memory.free(address);
        Ok(())
    }

    fn print(&self, text: &str) {
        texts::add(&self.launcher, text);
    }

    fn now(&self) -> u64 {
        clock::now().as_nanos() as u64
    }

    fn cycles(&self) -> u64 {
        (u128::from(self.now()) * u128::from(self.clock) / 1000) as u64
    }
}

/// Returns start and end of the pages that contain these bytes of registered host memory, if the host has not unmapped
/// them since.
fn pages(address: usize, bytes: usize) -> Option<(usize, usize)> {
    const SIZE: usize = 4096;
    let (start, end) = (address - address % SIZE, (address + bytes).next_multiple_of(SIZE));
    (start..end).step_by(SIZE).all(|page| caller::read(page, 1).is_ok()).then_some((start, end))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::memory::blocks::Gone;

    const BLOCK: Block = Block { bytes: 100, kind: Kind::Device, context: 1, device: 0 };

    #[test]
    fn a_kernel_can_access_only_allocated_memory() {
        let memory = Shared::default();
        let address = memory.lock().allocate(BLOCK).unwrap();
        let view = View::new(&memory, 1, 0);
        let allows = |address, bytes| view.access(address, bytes).is_ok();
        assert!(allows(address, 100) && allows(address + 96, 4));
        assert!(!allows(address + 97, 4) && !allows(address - 1, 1) && !allows(0, 4));
        assert_eq!(memory.lock().fill(address, 0x0403_0201, 4, 25), Ok(()));
        assert_eq!(memory.lock().load_word(address + 96), Ok(0x0403_0201));
        memory.lock().free_all_of(1);
        memory.lock().give_back();
        assert!(View::new(&memory, 1, 0).access(address, 1).is_err());
        assert_eq!(memory.lock().used(0), 0);
        let memory = memory.lock();
        assert_eq!(memory.load_word(address), Err(Gone(address)));
        assert_eq!(memory.store_word(address, 1), Err(Gone(address)));
        let mut here = [1_u8, 2];
        let here = here.as_mut_ptr().expose_provenance();
        assert_eq!(memory.copy(address, here, 2), Err(Gone(address)));
        assert_eq!(memory.copy(here, address, 2), Err(Gone(address)));
        assert_eq!(memory.fill(address, 0, 1, 1), Err(Gone(address)));
    }

    #[test]
    fn registered_memory_that_the_host_unmapped_is_an_error() {
        let memory = Shared::default();
        let block = Block { bytes: 8192, ..BLOCK };
        let address = memory.lock().allocate(block).unwrap();
        // Removes the allocation from the driver's list, as if the memory were the host's.
        memory.lock().blocks.clear();
        assert_eq!(memory.lock().register(address, Block { kind: Kind::Registered, ..block }), Ok(()));
        assert!(View::new(&memory, 1, 0).access(address + 4090, 8).is_ok());
        memory.lock().freed.push((address + 4096, 4096));
        memory.lock().give_back();
        let view = View::new(&memory, 1, 0);
        assert!(view.access(address, 8).is_ok() && view.access(address + 4096, 8).is_err());
        assert!(view.access(address + 4090, 8).is_err());
        assert_eq!(memory.lock().fill(address, 7, 1, 8192), Err(Gone(address + 4096)));
    }

    #[test]
    fn memory_of_another_device_is_out_of_reach() {
        let memory = Shared::default();
        let first = |kind| {
            let address = memory.lock().allocate(Block { kind, device: 1, ..BLOCK }).unwrap();
            View::new(&memory, 1, 0).access(address, 4)
        };
        for kind in
            [Kind::Device, Kind::Pooled(10), Kind::Graph { is_there: true }, Kind::Variable, Kind::Heap]
        {
            assert_eq!(first(kind), Err(MemoryFault::Peer { owner: 1, device: 0 }), "{kind:?}");
        }
        for kind in [Kind::Managed, Kind::Host] {
            assert_eq!(first(kind), Ok(()), "{kind:?}");
        }
    }
}
