//! Memory that kernels may touch: that of the devices, which is memory of this process, and what the host shares with them.

use std::cell::Cell;
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::caller::{self, Access};
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
    /// The same, which kernels may only read.
    RegisteredToRead,
    /// Part of a range of addresses that was reserved: the devices that may read and write there, a bit for each.
    Mapped { readers: u64, writers: u64 },
}

impl Kind {
    pub(super) fn is_registered(self) -> bool {
        matches!(self, Kind::Registered | Kind::RegisteredToRead)
    }

    /// Whether it is the host's memory, and no device's.
    pub(super) fn is_host(self) -> bool {
        self == Kind::Host || self.is_registered()
    }

    /// Whether the driver gives it back. What is not its own may be gone at any time.
    fn is_ours(self) -> bool {
        !self.is_registered()
    }
}

/// All memory that kernels may touch, by address.
#[derive(Debug, Default)]
pub(super) struct Memory {
    pub(super) blocks: BTreeMap<usize, Block>,
    /// Pages that are free, but not given back yet.
    pub(super) freed: Vec<(usize, usize)>,
    /// Addresses that were given back, and are kept so that nothing else comes there, with all their bytes.
    kept: VecDeque<(usize, usize)>,
    kept_bytes: usize,
    pub(super) ranges: Ranges,
    /// By address.
    pub(super) of_graphs: BTreeMap<usize, Known>,
}

/// What the driver and the kernels share.
#[derive(Clone, Debug, Default)]
pub(super) struct Shared(Arc<Mutex<Memory>>);

impl Shared {
    pub(super) fn lock(&self) -> MutexGuard<'_, Memory> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Pages of zeros, or of nothing: somewhere, or in the place of what is there.
pub(super) fn pages(at: Option<usize>, bytes: usize, access: libc::c_int) -> Answer<usize> {
    let fixed = if at.is_some() { libc::MAP_FIXED } else { 0 };
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | fixed;
    let place = std::ptr::with_exposed_provenance_mut(at.unwrap_or(0));
    // SAFETY: a mapping at a new address touches nothing that exists. Whoever names an address has a mapping there, which no
    // kernel is in the middle of using, and nobody else may use.
    let address = unsafe { libc::mmap(place, bytes, access, flags, -1, 0) };
    if address == libc::MAP_FAILED { Err(Code::OUT_OF_MEMORY) } else { Ok(address.expose_provenance()) }
}

impl Memory {
    /// New memory, filled with zeros.
    pub(super) fn allocate(&mut self, block: Block) -> Answer<usize> {
        if block.bytes == 0 {
            return Err(Code::INVALID_VALUE);
        }
        let address = pages(None, block.bytes, libc::PROT_READ | libc::PROT_WRITE)?;
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
        let access = if block.kind == Kind::RegisteredToRead { Access::Read } else { Access::Write };
        if !caller::allows(address, block.bytes, access) {
            return Err(Code::INVALID_VALUE);
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
        if block.kind.is_ours() {
            self.freed.push((address, block.bytes));
        }
    }

    /// Gives pages back that are free, between the turns of kernels. Whoever still has their addresses finds nothing there, and not
    /// the memory of somebody else, until much more was given back.
    pub(super) fn give_back(&mut self) {
        const MOST_KEPT: usize = 1 << 40;
        self.clear_unmapped();
        self.forget_graphs();
        for (address, bytes) in self.freed.drain(..) {
            // What cannot be given back is found by nobody.
            let _ = pages(Some(address), bytes, libc::PROT_NONE);
            self.kept.push_back((address, bytes));
            self.kept_bytes += bytes;
        }
        while self.kept_bytes > MOST_KEPT {
            let Some((address, bytes)) = self.kept.pop_front() else { break };
            // SAFETY: nothing is there, and nobody is told of it any more.
            unsafe { libc::munmap(std::ptr::with_exposed_provenance_mut(address), bytes) };
            self.kept_bytes -= bytes;
        }
    }

    /// Frees what a context has.
    pub(super) fn free_all_of(&mut self, context: Handle) {
        let addresses: Vec<_> =
            self.blocks.iter().filter(|(_, block)| block.context == context).map(|(at, _)| *at).collect();
        for address in addresses {
            self.of_graphs.remove(&address);
            self.free(address);
        }
    }

    /// Whether all of these bytes are there.
    pub(super) fn has(&self, address: usize, bytes: usize) -> bool {
        self.first_of(address, bytes).is_some()
    }

    /// The block with the first of these bytes, if all are there: ranges that were reserved may have several blocks, one behind
    /// the other.
    fn first_of(&self, address: usize, bytes: usize) -> Option<Block> {
        let end = address.checked_add(bytes)?;
        let is_mapped = |block: &Block| matches!(block.kind, Kind::Mapped { .. });
        let (start, first) = self.find(address, 1)?;
        let mut behind = start + first.bytes;
        while behind < end {
            let (_, next) = self.find(behind, 1).filter(|(_, next)| is_mapped(&first) && is_mapped(next))?;
            behind += next.bytes;
        }
        Some(first)
    }

    /// The block that has these bytes.
    pub(super) fn find(&self, address: usize, bytes: usize) -> Option<(usize, Block)> {
        let (start, block) = self.blocks.range(..=address).next_back()?;
        (address.checked_add(bytes)? <= start + block.bytes).then_some((*start, *block))
    }

    /// How many pieces there are, and their bytes.
    pub(super) fn count(&self) -> (usize, u64) {
        (self.blocks.len(), self.blocks.values().map(|block| block.bytes as u64).sum())
    }

    /// Bytes of a device that are taken.
    pub(super) fn used(&self, device: usize) -> u64 {
        let blocks = self.blocks.values();
        let is_taken = |kind: Kind| {
            !kind.is_host() && !matches!(kind, Kind::Mapped { .. } | Kind::Graph { is_there: false })
        };
        let of_device = blocks.filter(|block| block.device == device && is_taken(block.kind));
        let blocks: u64 = of_device.map(|block| (block.bytes as u64).next_multiple_of(512)).sum();
        blocks + self.ranges.used(device)
    }

    /// Bytes of this machine that are taken, or may be.
    pub(super) fn used_of_host(&self) -> u64 {
        let of_host = self.blocks.values().filter(|block| matches!(block.kind, Kind::Host | Kind::Managed));
        of_host.map(|block| block.bytes as u64).sum()
    }

    /// Where the driver's own memory is, of so many bytes.
    fn ours(&self, address: usize, bytes: usize) -> Option<*mut u8> {
        let is_ours = self.first_of(address, bytes)?.kind.is_ours();
        is_ours.then(|| std::ptr::with_exposed_provenance_mut(address))
    }

    /// Copies bytes. Those that are not the driver's may be gone by now: then it says where.
    pub(super) fn copy(&self, to: usize, from: usize, bytes: usize) -> Result<(), Gone> {
        let (gone_to, gone_from) = (|_| Gone(to), |_| Gone(from));
        // SAFETY: what is the driver's is there as long as its lock is held, and is given back by nobody else; the host and kernels
        // use it as shared memory.
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

    /// Copies bytes that the driver has taken already.
    pub(super) fn write(&self, to: usize, bytes: &[u8]) -> Result<(), Gone> {
        match self.ours(to, bytes.len()) {
            // SAFETY: as for `copy`.
            Some(to) => unsafe { std::ptr::copy(bytes.as_ptr(), to, bytes.len()) },
            None => caller::write(to, bytes).map_err(|_| Gone(to))?,
        }
        Ok(())
    }

    /// Fills memory with a pattern of 1, 2 or 4 bytes.
    pub(super) fn fill(&self, to: usize, pattern: u32, width: usize, count: usize) -> Result<(), Gone> {
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

    /// The word there, which kernels and the host may be writing at this moment. Its address is a multiple of its size.
    pub(super) fn load_word(&self, address: usize, wide: bool) -> Result<u64, Gone> {
        let bytes = if wide { 8 } else { 4 };
        let Some(word) = self.ours(address, bytes) else {
            let read = caller::read(address, bytes).map_err(|_| Gone(address))?;
            return Ok(read.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte)));
        };
        // SAFETY: it is there as long as the lock is held, and aligned; whoever else writes there does so atomically.
        Ok(unsafe {
            if wide {
                AtomicU64::from_ptr(word.cast()).load(Ordering::Acquire)
            } else {
                AtomicU32::from_ptr(word.cast()).load(Ordering::Acquire).into()
            }
        })
    }

    /// Writes a word that others may be reading.
    pub(super) fn store_word(&self, address: usize, wide: bool, value: u64) -> Result<(), Gone> {
        let bytes = if wide { 8 } else { 4 };
        let Some(word) = self.ours(address, bytes) else {
            return caller::write(address, &value.to_le_bytes()[..bytes]).map_err(|_| Gone(address));
        };
        // SAFETY: as for `load_word`.
        unsafe {
            if wide {
                AtomicU64::from_ptr(word.cast()).store(value, Ordering::Release);
            } else {
                AtomicU32::from_ptr(word.cast()).store(value as u32, Ordering::Release);
            }
        }
        Ok(())
    }
}

/// Memory was there when something was asked for, and is not any more.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Gone(pub(super) usize);

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
        let device = self.owner.1;
        let device_bit = bit(device);
        match block.kind {
            Kind::Graph { is_there: false } => false,
            Kind::Device | Kind::Variable if block.device != device => false,
            // What may be done there is asked again each time if it is not everything.
            Kind::Mapped { readers, writers } if readers & writers & device_bit == 0 => {
                (if write { writers } else { readers }) & device_bit != 0
            }
            Kind::Registered | Kind::RegisteredToRead => {
                drop(memory);
                let pages = Pages::of(address, bytes);
                let are_there = pages.are_there();
                if are_there && block.kind == Kind::Registered {
                    place.set((start.max(pages.start), (start + block.bytes).min(pages.end)));
                }
                are_there && !(write && block.kind == Kind::RegisteredToRead)
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

/// Memory of the host's, of which the driver knows only that it was there when it was registered.
struct Pages {
    start: usize,
    end: usize,
}

impl Pages {
    const SIZE: usize = 4096;

    fn of(address: usize, bytes: usize) -> Self {
        let start = address - address % Self::SIZE;
        Pages { start, end: (address + bytes).next_multiple_of(Self::SIZE) }
    }

    fn are_there(&self) -> bool {
        (self.start..self.end).step_by(Self::SIZE).all(|page| caller::read(page, 1).is_ok())
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
        let allows = |address, bytes| view.allows(address, bytes, true);
        assert!(allows(address, 100) && allows(address + 96, 4));
        assert!(!allows(address + 97, 4) && !allows(address - 1, 1) && !allows(0, 4));
        assert_eq!(memory.lock().fill(address, 0x0403_0201, 4, 25), Ok(()));
        assert_eq!(memory.lock().load_word(address + 96, false), Ok(0x0403_0201));
        memory.lock().free_all_of(1);
        memory.lock().give_back();
        assert!(!View::new(&memory, 1, 0).allows(address, 1, false));
        assert_eq!(memory.lock().used(0), 0);
        let memory = memory.lock();
        assert_eq!(memory.load_word(address, true), Err(Gone(address)));
        assert_eq!(memory.store_word(address, true, 1), Err(Gone(address)));
        let mut here = [1_u8, 2];
        let here = here.as_mut_ptr().expose_provenance();
        assert_eq!(memory.copy(address, here, 2), Err(Gone(address)));
        assert_eq!(memory.copy(here, address, 2), Err(Gone(address)));
        assert_eq!(memory.fill(address, 0, 1, 1), Err(Gone(address)));
    }

    #[test]
    fn only_what_is_mapped_goes_on_in_the_next_block() {
        let kinds = [Kind::Device, Kind::Mapped { readers: 0, writers: 0 }];
        for (kind, next) in kinds.into_iter().flat_map(|kind| kinds.map(|next| (kind, next))) {
            let blocks = [(1000, Block { kind, ..BLOCK }), (1100, Block { kind: next, ..BLOCK })];
            let memory = Memory { blocks: blocks.into(), ..Memory::default() };
            assert!(memory.has(1000, 100) && memory.has(1050, 50) && !memory.has(1000, 201));
            assert_eq!(memory.has(1050, 51), kind == kinds[1] && next == kinds[1], "{kind:?}, {next:?}");
        }
    }

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

    #[test]
    fn what_may_only_be_read_is_registered_for_that() {
        let memory = Shared::default();
        let constant = "so many bytes of a text that nobody may write".as_ptr().expose_provenance();
        let block = Block { bytes: 40, kind: Kind::Registered, ..BLOCK };
        assert_eq!(memory.lock().register(constant, block), Err(Code::INVALID_VALUE));
        let block = Block { kind: Kind::RegisteredToRead, ..block };
        assert_eq!(memory.lock().register(constant, block), Ok(()));
        let view = View::new(&memory, 1, 0);
        assert!(view.allows(constant, 4, false) && !view.allows(constant, 4, true));
    }

    #[test]
    fn what_the_host_took_away_is_not_there() {
        let memory = Shared::default();
        let block = Block { bytes: 8192, ..BLOCK };
        let address = memory.lock().allocate(block).unwrap();
        // As if it were the host's.
        memory.lock().blocks.clear();
        assert_eq!(memory.lock().register(address, Block { kind: Kind::Registered, ..block }), Ok(()));
        assert!(View::new(&memory, 1, 0).allows(address + 4090, 8, true));
        memory.lock().freed.push((address + 4096, 4096));
        memory.lock().give_back();
        let view = View::new(&memory, 1, 0);
        assert!(view.allows(address, 8, true) && !view.allows(address + 4096, 8, true));
        assert!(!view.allows(address + 4090, 8, false));
        assert_eq!(memory.lock().fill(address, 7, 1, 8192), Err(Gone(address + 4096)));
    }
}
