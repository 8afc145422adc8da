//! Memory that kernels may touch: that of the devices, which is memory of this process, and what the host shares with them.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::graph_memory::Known;
use super::handles::Handle;
use super::ranges::{Ranges, bit};
use super::result::{Answer, Code};

/// A piece of memory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Block {
    pub(super) bytes: usize,
    pub(super) kind: Kind,
    /// The context that it is freed with.
    pub(super) context: Handle,
    pub(super) device: usize,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Kind {
    /// A device's.
    Device,
    /// A device's, from a pool.
    Pooled(Handle),
    /// A device's, which graphs allocate and free again and again.
    Graph { is_there: bool },
    /// Both may use it.
    Managed,
    /// A module's.
    Variable,
    /// What a kernel allocated.
    Heap,
    /// The host's, pinned.
    Host,
    /// The host's, which it had already.
    Registered,
    /// Part of a range of addresses that was reserved: the devices that may read and write there, a bit for each.
    Mapped { readers: u64, writers: u64 },
}

/// All memory that kernels may touch, by address.
#[derive(Debug, Default)]
pub(super) struct Memory {
    pub(super) blocks: BTreeMap<usize, Block>,
    /// Pages that are free, but not given back yet.
    pub(super) freed: Vec<(usize, usize)>,
    pub(super) ranges: Ranges,
    /// By address.
    pub(super) of_graphs: BTreeMap<usize, Known>,
    /// Contexts, and those whose memory they may use although it is another device's.
    pub(super) peers: BTreeSet<(Handle, Handle)>,
}

/// What the driver and the kernels share.
#[derive(Clone, Debug, Default)]
pub(super) struct Shared(Arc<Mutex<Memory>>);

impl Shared {
    pub(super) fn lock(&self) -> MutexGuard<'_, Memory> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Memory {
    /// New memory, filled with zeros.
    pub(super) fn allocate(&mut self, block: Block) -> Answer<usize> {
        if block.bytes == 0 {
            return Err(Code::INVALID_VALUE);
        }
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a mapping at a new address touches nothing that exists.
        let address = unsafe { libc::mmap(std::ptr::null_mut(), block.bytes, access, flags, -1, 0) };
        if address == libc::MAP_FAILED {
            return Err(Code::OUT_OF_MEMORY);
        }
        let address = address.expose_provenance();
        self.blocks.insert(address, block);
        Ok(address)
    }

    /// Lets kernels touch memory that the host has.
    pub(super) fn register(&mut self, address: usize, block: Block) -> Answer {
        let end = address.checked_add(block.bytes).ok_or(Code::INVALID_VALUE)?;
        let before = self.blocks.range(..end).next_back();
        if before.is_some_and(|(start, block)| start + block.bytes > address) {
            return Err(Code::HOST_MEMORY_ALREADY_REGISTERED);
        }
        self.blocks.insert(address, block);
        Ok(())
    }

    /// The block that begins there, if it is of one of these kinds.
    pub(super) fn starting_at(&self, address: usize, is_kind: impl Fn(Kind) -> bool) -> Answer<Block> {
        let block = self.blocks.get(&address).filter(|block| is_kind(block.kind));
        block.copied().ok_or(Code::INVALID_VALUE)
    }

    /// From now on kernels do not find it. One whose turn it is may have found it already, so the pages stay a while.
    pub(super) fn free(&mut self, address: usize) {
        if self.of_graphs.contains_key(&address) {
            return self.appear(address, false);
        }
        let Some(block) = self.blocks.remove(&address) else { return };
        if block.kind != Kind::Registered {
            self.freed.push((address, block.bytes));
        }
    }

    /// Gives pages back that are free, between the turns of kernels.
    pub(super) fn give_back(&mut self) {
        self.clear_unmapped();
        self.forget_graphs();
        for (address, bytes) in self.freed.drain(..) {
            // SAFETY: this is a mapping of `allocate`; no kernel is in the middle of using it, and nobody else may use what
            // is free.
            unsafe { libc::munmap(std::ptr::with_exposed_provenance_mut(address), bytes) };
        }
    }

    pub(super) fn free_all_of(&mut self, context: Handle) {
        let addresses: Vec<_> =
            self.blocks.iter().filter(|(_, block)| block.context == context).map(|(at, _)| *at).collect();
        for address in addresses {
            self.of_graphs.remove(&address);
            self.free(address);
        }
    }

    /// Whether all of these bytes are there: ranges that were reserved may have several blocks, one behind the other.
    pub(super) fn has(&self, address: usize, bytes: usize) -> bool {
        let Some(end) = address.checked_add(bytes) else { return false };
        let mut at = address;
        loop {
            let Some((start, block)) = self.find(at, 1) else { return false };
            at = start + block.bytes;
            if at >= end {
                return true;
            }
            if !matches!(block.kind, Kind::Mapped { .. }) {
                return false;
            }
        }
    }

    /// The block that has these bytes.
    pub(super) fn find(&self, address: usize, bytes: usize) -> Option<(usize, Block)> {
        let (start, block) = self.blocks.range(..=address).next_back()?;
        (address.checked_add(bytes)? <= start + block.bytes).then_some((*start, *block))
    }

    /// Bytes of a device that are taken.
    pub(super) fn used(&self, device: usize) -> u64 {
        let blocks = self.blocks.values();
        let is_taken = |kind| !matches!(kind, Kind::Host | Kind::Registered | Kind::Mapped { .. });
        let of_device = blocks.filter(|block| block.device == device && is_taken(block.kind));
        let blocks: u64 = of_device.map(|block| (block.bytes as u64).next_multiple_of(512)).sum();
        blocks + self.ranges.used(device)
    }
}

/// What a kernel sees of the memory while it runs for a while. It remembers where it looked last, because asking for every
/// access would take longer than all the rest.
pub(super) struct View<'m> {
    memory: &'m Shared,
    /// Start and end, by the last bits of the pages.
    known: [Cell<(usize, usize)>; 8],
    owner: (Handle, usize),
}

impl<'m> View<'m> {
    /// For a kernel of that context, on that device.
    pub(super) fn new(memory: &'m Shared, context: Handle, device: usize) -> Self {
        View { memory, known: Default::default(), owner: (context, device) }
    }

    /// Whether a kernel may read, or write, that many bytes there.
    pub(super) fn allows(&self, address: usize, bytes: usize, write: bool) -> bool {
        let place = &self.known[(address >> 21) % self.known.len()];
        let (start, end) = place.get();
        if address >= start && address.checked_add(bytes).is_some_and(|behind| behind <= end) {
            return true;
        }
        let memory = self.memory.lock();
        let Some((start, block)) = memory.find(address, bytes) else { return false };
        let (context, device) = self.owner;
        let device_bit = bit(device);
        match block.kind {
            Kind::Graph { is_there: false } => false,
            Kind::Device | Kind::Variable
                if block.device != device && !memory.peers.contains(&(context, block.context)) =>
            {
                false
            }
            // What may be done there is asked again each time if it is not everything.
            Kind::Mapped { readers, writers } if readers & writers & device_bit == 0 => {
                (if write { writers } else { readers }) & device_bit != 0
            }
            _ => {
                place.set((start, start + block.bytes));
                true
            }
        }
    }

    /// `malloc` of a kernel: 0 if there is none.
    pub(super) fn malloc(&self, bytes: usize) -> usize {
        let (context, device) = self.owner;
        let block = Block { bytes, kind: Kind::Heap, context, device };
        self.memory.lock().allocate(block).unwrap_or(0)
    }

    /// `free` of a kernel. Says whether that was there.
    pub(super) fn free(&self, address: usize) -> bool {
        self.known.iter().for_each(|place| place.set((0, 0)));
        let mut memory = self.memory.lock();
        let is_there = memory.starting_at(address, |kind| kind == Kind::Heap).is_ok();
        if is_there {
            memory.free(address);
        }
        is_there
    }
}

/// Copies bytes between places that were looked at when the copy was asked for.
pub(super) fn copy(to: usize, from: usize, bytes: usize) {
    // SAFETY: whoever asks the driver for a copy promises that both places are there until it is done, and the driver has
    // looked whether it knows those that are its own. They may overlap.
    unsafe {
        std::ptr::copy(
            std::ptr::with_exposed_provenance::<u8>(from),
            std::ptr::with_exposed_provenance_mut(to),
            bytes,
        );
    }
}

/// A copy of bytes of the caller's.
pub(super) fn read(from: usize, bytes: usize) -> Vec<u8> {
    let mut read = vec![0; bytes];
    copy(read.as_mut_ptr().expose_provenance(), from, bytes);
    read
}

/// Fills memory with a pattern of 1, 2 or 4 bytes.
pub(super) fn fill(to: usize, pattern: u32, width: usize, count: usize) {
    let pattern = &pattern.to_le_bytes()[..width];
    let bytes = pattern.repeat(count.min(4096));
    let mut done = 0;
    while done < count * width {
        let part = bytes.len().min(count * width - done);
        copy(to + done, bytes.as_ptr().expose_provenance(), part);
        done += part;
    }
}

/// The word there, which kernels and the host may be writing at this moment.
pub(super) fn load_word(address: usize, wide: bool) -> u64 {
    use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
    // SAFETY: the driver has looked whether there is memory of its own, aligned, which a stream may use until its work is
    // done; whoever else writes there while it is read does so atomically.
    unsafe {
        if wide {
            (*std::ptr::with_exposed_provenance::<AtomicU64>(address)).load(Ordering::Acquire)
        } else {
            (*std::ptr::with_exposed_provenance::<AtomicU32>(address)).load(Ordering::Acquire).into()
        }
    }
}

/// Writes a word that others may be reading.
pub(super) fn store_word(address: usize, wide: bool, value: u64) {
    use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
    // SAFETY: as for `load_word`.
    unsafe {
        if wide {
            (*std::ptr::with_exposed_provenance::<AtomicU64>(address)).store(value, Ordering::Release);
        } else {
            (*std::ptr::with_exposed_provenance::<AtomicU32>(address)).store(value as u32, Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCK: Block = Block { bytes: 100, kind: Kind::Device, context: 1, device: 0 };

    #[test]
    fn a_kernel_sees_what_is_allocated_and_no_more() {
        let memory = Shared::default();
        let address = memory.lock().allocate(BLOCK).unwrap();
        let view = View::new(&memory, 1, 0);
        assert!(view.allows(address, 100, true) && view.allows(address + 96, 4, true));
        assert!(
            !view.allows(address + 97, 4, false)
                && !view.allows(address - 1, 1, false)
                && !view.allows(0, 4, false)
        );
        fill(address, 0x0403_0201, 4, 25);
        assert_eq!(load_word(address + 96, false), 0x0403_0201);
        memory.lock().free_all_of(1);
        memory.lock().give_back();
        assert!(!View::new(&memory, 1, 0).allows(address, 1, false));
        assert_eq!(memory.lock().used(0), 0);
    }

    #[test]
    fn memory_is_registered_once() {
        let mut memory = Memory::default();
        let block = Block { kind: Kind::Registered, ..BLOCK };
        assert_eq!(memory.register(1000, block), Ok(()));
        for address in [901, 1000, 1099] {
            assert_eq!(memory.register(address, block), Err(Code::HOST_MEMORY_ALREADY_REGISTERED));
        }
        assert_eq!(memory.register(1100, block), Ok(()));
        assert_eq!(memory.starting_at(1000, |kind| kind == Kind::Device), Err(Code::INVALID_VALUE));
    }
}
