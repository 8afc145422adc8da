//! Stores all allocations that kernels may access. Device memory is memory of this process, at its own address.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::graph::{Allocation, Known};
use crate::driver::caller::{self, Access};
use crate::driver::handles::Handle;
use crate::driver::result::{Answer, Code};

/// An allocation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Block {
    pub(crate) bytes: usize,
    pub(crate) kind: Kind,
    /// The context whose destruction frees the allocation.
    pub(crate) context: Handle,
    pub(crate) device: usize,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Kind {
    /// Device memory.
    Device,
    /// Device memory of a pool.
    Pooled(Handle),
    /// Device memory that nodes of graphs allocate and free. Kernels may access it only while `is_there`.
    Graph { is_there: bool },
    /// Managed memory, for the host and all devices.
    Managed,
    /// A variable of a module.
    Variable,
    /// Memory that a kernel allocated by `malloc`.
    Heap,
    /// Pinned host memory.
    Host,
    /// Host memory that was registered.
    Registered,
}

impl Kind {
    /// Returns whether this is host memory.
    pub(crate) fn is_host(self) -> bool {
        matches!(self, Kind::Host | Kind::Registered)
    }

    /// Returns whether the driver allocated the memory. Other memory may be unmapped by its owner at any time.
    fn is_ours(self) -> bool {
        self != Kind::Registered
    }
}

/// All allocations, by address.
#[derive(Default)]
pub(crate) struct Memory {
    pub(crate) blocks: BTreeMap<usize, Block>,
    used: Used,
    /// The ranges of freed pages that are still mapped.
    pub(crate) freed: Vec<(usize, usize)>,
    /// Freed ranges whose addresses are not reused, so that a stale address is an error and not other memory.
    kept: VecDeque<(usize, usize)>,
    kept_bytes: usize,
    /// Memory of graphs, by address.
    pub(crate) of_graphs: BTreeMap<usize, Known>,
}

/// Bytes of all allocations. They are counted continuously, because each new allocation needs the sums.
#[derive(Default)]
struct Used {
    of_devices: BTreeMap<usize, u64>,
    /// Host and managed memory.
    of_host: u64,
}

impl Used {
    /// Adds the bytes of an allocation to the sums, or subtracts them.
    fn count(&mut self, block: Block, change: impl Fn(&mut u64, u64)) {
        let Block { kind, device, bytes, .. } = block;
        if !kind.is_host() && kind != (Kind::Graph { is_there: false }) {
            change(self.of_devices.entry(device).or_default(), (bytes as u64).next_multiple_of(512));
        }
        if matches!(kind, Kind::Host | Kind::Managed) {
            change(&mut self.of_host, bytes as u64);
        }
    }
}

/// The memory, shared by the driver and the kernels that run.
#[derive(Clone, Default)]
pub(crate) struct Shared(Arc<Mutex<Memory>>);

impl Shared {
    pub(crate) fn lock(&self) -> MutexGuard<'_, Memory> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Maps anonymous pages at a free address, or in place of the mapping at a given address.
pub(crate) fn pages(at: Option<usize>, bytes: usize, access: libc::c_int) -> Answer<usize> {
    let fixed = if at.is_some() { libc::MAP_FIXED } else { 0 };
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | fixed;
    let start = std::ptr::with_exposed_provenance_mut(at.unwrap_or(0));
    // SAFETY: a mapping at a new address changes no other memory. Callers that pass an address own the mapping there, and
    // no kernel is accessing it.
    let address = unsafe { libc::mmap(start, bytes, access, flags, -1, 0) };
    if address == libc::MAP_FAILED { Err(Code::OUT_OF_MEMORY) } else { Ok(address.expose_provenance()) }
}

impl Memory {
    /// Allocates memory, filled with zeros.
    pub(crate) fn allocate(&mut self, block: Block) -> Answer<usize> {
        if block.bytes == 0 {
            return Err(Code::INVALID_VALUE);
        }
        let address = pages(None, block.bytes, libc::PROT_READ | libc::PROT_WRITE)?;
        self.insert(address, block);
        Ok(address)
    }

    /// Registers host memory.
    pub(crate) fn register(&mut self, address: usize, block: Block) -> Answer {
        let end = address.checked_add(block.bytes).ok_or(Code::INVALID_VALUE)?;
        let before = self.blocks.range(..end).next_back();
        if before.is_some_and(|(start, block)| start + block.bytes > address) {
            return Err(Code::HOST_MEMORY_ALREADY_REGISTERED);
        }
        if !caller::allows(address, block.bytes, Access::Write) {
            return Err(Code::INVALID_VALUE);
        }
        self.insert(address, block);
        Ok(())
    }

    fn insert(&mut self, address: usize, block: Block) {
        self.used.count(block, |used, bytes| *used += bytes);
        // The host may have freed memory that it had registered at this address.
        if let Some(gone) = self.blocks.insert(address, block) {
            self.used.count(gone, |used, bytes| *used -= bytes);
        }
    }

    /// Returns the allocation that begins at this address, if it is of one of these kinds.
    pub(crate) fn starting_at(&self, address: usize, is_kind: impl Fn(Kind) -> bool) -> Answer<Block> {
        let block = self.blocks.get(&address).filter(|block| is_kind(block.kind));
        block.copied().ok_or(Code::INVALID_VALUE)
    }

    /// Frees an allocation. A kernel may still be using the memory in its current turn, so the pages stay mapped until
    /// the turn is over.
    pub(crate) fn free(&mut self, address: usize) {
        if self.of_graphs.contains_key(&address) {
            return self.appear(address, false);
        }
        let Some(block) = self.blocks.remove(&address) else { return };
        self.used.count(block, |used, bytes| *used -= bytes);
        if block.kind.is_ours() {
            self.freed.push((address, block.bytes));
        }
    }

    /// Unmaps freed pages, between the turns of kernels. Their addresses are not reused until much more memory was
    /// freed.
    pub(crate) fn give_back(&mut self) {
        const MOST_KEPT: usize = 1 << 40;
        self.forget_graphs();
        for (address, bytes) in self.freed.drain(..) {
            // A failure does no harm, because the addresses aren't allocated again while they are in `kept`.
            let _ = pages(Some(address), bytes, libc::PROT_NONE);
            self.kept.push_back((address, bytes));
            self.kept_bytes += bytes;
        }
        while self.kept_bytes > MOST_KEPT {
            let Some((address, bytes)) = self.kept.pop_front() else { break };
            // SAFETY: nothing else uses the range, which only this list has.
            unsafe { libc::munmap(std::ptr::with_exposed_provenance_mut(address), bytes) };
            self.kept_bytes -= bytes;
        }
    }

    /// Frees all memory of a context.
    pub(crate) fn free_all_of(&mut self, context: Handle) {
        let addresses: Vec<_> =
            self.blocks.iter().filter(|(_, block)| block.context == context).map(|(at, _)| *at).collect();
        for address in addresses {
            self.of_graphs.remove(&address);
            self.free(address);
        }
    }

    /// Returns whether all of these bytes are allocated.
    pub(crate) fn has(&self, address: usize, bytes: usize) -> bool {
        self.find(address, bytes).is_some()
    }

    /// Returns the allocation that contains all of these bytes, with its address.
    pub(crate) fn find(&self, address: usize, bytes: usize) -> Option<(usize, Block)> {
        let (start, block) = self.blocks.range(..=address).next_back()?;
        (address.checked_add(bytes)? <= start + block.bytes).then_some((*start, *block))
    }

    /// Returns the number of allocations, and the sum of their bytes.
    pub(crate) fn count(&self) -> (usize, u64) {
        (self.blocks.len(), self.blocks.values().map(|block| block.bytes as u64).sum())
    }

    /// Returns the allocated bytes of a device.
    pub(crate) fn used(&self, device: usize) -> u64 {
        self.used.of_devices.get(&device).copied().unwrap_or(0)
    }

    /// Returns the allocated bytes of host and managed memory.
    pub(crate) fn used_of_host(&self) -> u64 {
        self.used.of_host
    }

    /// Allocates memory for nodes of graphs.
    pub(crate) fn allocate_for_graph(
        &mut self,
        bytes: usize,
        context: Handle,
        device: usize,
    ) -> Answer<Allocation> {
        let address =
            self.allocate(Block { bytes, kind: Kind::Graph { is_there: false }, context, device })?;
        let allocation = Allocation(Arc::new(address));
        self.of_graphs
            .insert(address, Known { allocation: allocation.clone(), allocated_after_pending_work: false });
        Ok(allocation)
    }

    /// Returns the graph allocation at this address.
    pub(crate) fn of_graph(&self, address: usize) -> Answer<Allocation> {
        self.of_graphs.get(&address).map(|known| known.allocation.clone()).ok_or(Code::INVALID_VALUE)
    }

    /// Makes memory of a graph accessible to kernels, or inaccessible.
    pub(crate) fn appear(&mut self, address: usize, is_there: bool) {
        if let Some(block) = self.blocks.remove(&address) {
            self.used.count(block, |used, bytes| *used -= bytes);
            self.insert(address, Block { kind: Kind::Graph { is_there }, ..block });
        }
    }

    /// Refuses to free graph memory that no launch has allocated.
    pub(crate) fn may_free(&self, address: usize) -> Answer {
        let known = self.of_graphs.get(&address);
        if known.is_none_or(|known| known.allocated_after_pending_work) {
            Ok(())
        } else {
            Err(Code::INVALID_VALUE)
        }
    }

    /// Records that submitted work allocates or frees graph memory.
    pub(crate) fn set_allocated_after_pending_work(&mut self, address: usize, allocated: bool) {
        if let Some(known) = self.of_graphs.get_mut(&address) {
            known.allocated_after_pending_work = allocated;
        }
    }

    /// Frees graph memory that no graph refers to any more. Called between the turns of kernels.
    pub(crate) fn forget_graphs(&mut self) {
        let is_over = |known: &Known| {
            !known.allocated_after_pending_work && Arc::strong_count(&known.allocation.0) == 1
        };
        let over: Vec<usize> =
            self.of_graphs.iter().filter(|(_, known)| is_over(known)).map(|(at, _)| *at).collect();
        for address in over {
            // Work that frees the memory may be submitted but not done yet.
            if self.blocks.get(&address).is_none_or(|block| block.kind == Kind::Graph { is_there: false }) {
                self.of_graphs.remove(&address);
                self.free(address);
            }
        }
    }

    /// Returns a pointer to these bytes, if the driver allocated them.
    fn ours(&self, address: usize, bytes: usize) -> Option<*mut u8> {
        let is_ours = self.find(address, bytes)?.1.kind.is_ours();
        is_ours.then(|| std::ptr::with_exposed_provenance_mut(address))
    }

    /// Copies bytes. Memory that the driver did not allocate may be unmapped by now, which is an error.
    pub(crate) fn copy(&self, to: usize, from: usize, bytes: usize) -> Result<(), Gone> {
        let (gone_to, gone_from) = (|_| Gone(to), |_| Gone(from));
        // SAFETY: only the driver unmaps its memory, and not while the lock is held. The host and kernels use the
        // memory as shared memory.
        unsafe {
            match (self.ours(to, bytes), self.ours(from, bytes)) {
                (Some(to), Some(from)) => {
                    std::ptr::copy(from, to, bytes);
                    Ok(())
                }
                (Some(to), None) => caller::copy_from(from, to, bytes).map_err(gone_from),
                (None, Some(from)) => caller::copy_to(to, from, bytes).map_err(gone_to),
                (None, None) => {
                    caller::read(from, bytes).map_err(gone_from).and_then(|read| self.write(to, &read))
                }
            }
        }
    }

    /// Writes bytes.
    pub(crate) fn write(&self, to: usize, bytes: &[u8]) -> Result<(), Gone> {
        match self.ours(to, bytes.len()) {
            // SAFETY: as for `copy`.
            Some(to) => unsafe { std::ptr::copy(bytes.as_ptr(), to, bytes.len()) },
            None => caller::write(to, bytes).map_err(|_| Gone(to))?,
        }
        Ok(())
    }

    /// Fills memory with a pattern of 1, 2 or 4 bytes.
    pub(crate) fn fill(&self, to: usize, pattern: u32, width: usize, count: usize) -> Result<(), Gone> {
        let pattern = &pattern.to_le_bytes()[..width];
        let bytes = pattern.repeat(count.min(4096));
        let mut done = 0;
        while done < count * width {
            let part = bytes.len().min(count * width - done);
            self.write(to + done, &bytes[..part])?;
            done += part;
        }
        Ok(())
    }

    /// Reads an aligned word that kernels and the host may be writing at this moment.
    pub(crate) fn load_word(&self, address: usize) -> Result<u32, Gone> {
        let Some(word) = self.ours(address, 4) else {
            let read = caller::read(address, 4).map_err(|_| Gone(address))?;
            return Ok(read.iter().rev().fold(0, |word, byte| word << 8 | u32::from(*byte)));
        };
        // SAFETY: the word is aligned, and mapped as long as the lock is held. All other accesses to it are atomic.
        Ok(unsafe { AtomicU32::from_ptr(word.cast()) }.load(Ordering::Acquire))
    }

    /// Writes an aligned word that kernels and the host may be reading at this moment.
    pub(crate) fn store_word(&self, address: usize, value: u32) -> Result<(), Gone> {
        let Some(word) = self.ours(address, 4) else {
            return caller::write(address, &value.to_le_bytes()).map_err(|_| Gone(address));
        };
        // SAFETY: as for `load_word`.
        unsafe { AtomicU32::from_ptr(word.cast()) }.store(value, Ordering::Release);
        Ok(())
    }
}

/// An error: this address was valid when work was submitted, but is not valid any more.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Gone(pub(crate) usize);

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCK: Block = Block { bytes: 100, kind: Kind::Device, context: 1, device: 0 };

    #[test]
    fn memory_is_registered_once() {
        let mut memory = Memory::default();
        let block = Block { kind: Kind::Registered, ..BLOCK };
        let bytes = [0_u8; 1000];
        let start = (&raw const bytes).expose_provenance() + 200;
        assert_eq!(memory.register(start, block), Ok(()));
        for address in [start - 99, start, start + 99] {
            assert_eq!(memory.register(address, block), Err(Code::HOST_MEMORY_ALREADY_REGISTERED));
        }
        assert_eq!(memory.register(start + 100, block), Ok(()));
        assert_eq!(memory.starting_at(start, |kind| kind == Kind::Device), Err(Code::INVALID_VALUE));
    }
}
