//! Virtual memory: addresses that are reserved, memory that has none, and the one mapped to the other.
//!
//! Memory is a file without a name, so that it can be at several addresses.

use std::collections::BTreeMap;
use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd};

use super::handles::{Handle, Handles};
use super::memory::{Block, Kind, Memory, pages};
use super::result::{Answer, Code};

/// What sizes and addresses are multiples of.
pub(super) const GRANULARITY: usize = 2 << 20;

/// Ranges of addresses, and the memory that can be mapped to them.
#[derive(Debug)]
pub(super) struct Ranges {
    /// Sizes, by address.
    reserved: BTreeMap<usize, usize>,
    physical: Handles<Physical>,
    /// By address; a block of [`Memory`] is there once a device may use it.
    mappings: BTreeMap<usize, Mapping>,
    /// What was unmapped, and may be in a kernel's hands until its turn is over.
    unmapped: Vec<(usize, usize)>,
}

#[derive(Debug)]
struct Physical {
    file: File,
    bytes: usize,
    device: usize,
    /// The caller has given it back: it goes when no mapping is left.
    is_released: bool,
}

#[derive(Clone, Copy, Debug)]
struct Mapping {
    bytes: usize,
    physical: Handle,
}

impl Default for Ranges {
    fn default() -> Self {
        Ranges {
            reserved: BTreeMap::new(),
            physical: Handles::of_values(11),
            mappings: BTreeMap::new(),
            unmapped: Vec::new(),
        }
    }
}

impl Ranges {
    pub(super) fn used(&self, device: usize) -> u64 {
        let of_device = self.physical.iter().filter(|(_, physical)| physical.device == device);
        of_device.map(|(_, physical)| physical.bytes as u64).sum()
    }

    /// New memory, at no address.
    pub(super) fn create(&mut self, bytes: usize, device: usize) -> Answer<Handle> {
        let file = memory_file(c"device memory").and_then(|file| file.set_len(bytes as u64).map(|()| file));
        let file = file.map_err(|_| Code::OUT_OF_MEMORY)?;
        Ok(self.physical.insert(Physical { file, bytes, device, is_released: false }))
    }

    /// The caller gives memory back.
    pub(super) fn release(&mut self, handle: Handle) -> Answer {
        let physical = self.physical.get_mut(handle)?;
        if std::mem::replace(&mut physical.is_released, true) {
            return Err(Code::INVALID_VALUE);
        }
        self.forget_unused(handle);
        Ok(())
    }

    fn forget_unused(&mut self, handle: Handle) {
        let is_mapped = self.mappings.values().any(|mapping| mapping.physical == handle);
        if !is_mapped && self.physical.get(handle).is_ok_and(|physical| physical.is_released) {
            let _ = self.physical.remove(handle);
        }
    }

    fn mapping(&self, address: usize) -> Option<(usize, Mapping)> {
        let (start, mapping) = self.mappings.range(..=address).next_back()?;
        (address - start < mapping.bytes).then_some((*start, *mapping))
    }

    /// Whether one reservation has all of these addresses.
    fn is_reserved(&self, address: usize, bytes: usize) -> bool {
        let range = self.reservation(address);
        range.is_some_and(|(start, size)| bytes <= size - (address - start))
    }

    /// The start and size of the reservation that has this address.
    pub(super) fn reservation(&self, address: usize) -> Option<(usize, usize)> {
        let (start, bytes) = self.reserved.range(..=address).next_back()?;
        (address - start < *bytes).then_some((*start, *bytes))
    }

    /// The mappings among these reserved addresses, none of which goes beyond them.
    fn mapped_within(&self, address: usize, bytes: usize) -> Answer<Vec<usize>> {
        if !is_whole(bytes) || !self.is_reserved(address, bytes) {
            return Err(Code::INVALID_VALUE);
        }
        let end = address + bytes;
        let is_cut = |at: usize| self.mapping(at).is_some_and(|(start, _)| start < at);
        if is_cut(address) || is_cut(end) {
            return Err(Code::INVALID_VALUE);
        }
        Ok(self.mappings.range(address..end).map(|(start, _)| *start).collect())
    }

    /// The mappings that are these addresses, and no others.
    fn exactly(&self, address: usize, bytes: usize) -> Answer<Vec<usize>> {
        let end = address.checked_add(bytes).ok_or(Code::INVALID_VALUE)?;
        let (mut at, mut found) = (address, Vec::new());
        while at < end {
            found.push(at);
            at += self.mappings.get(&at).ok_or(Code::INVALID_VALUE)?.bytes;
        }
        if bytes != 0 && at == end { Ok(found) } else { Err(Code::INVALID_VALUE) }
    }
}

/// A file in memory; the name is for who looks at what this process has.
pub(super) fn memory_file(name: &CStr) -> io::Result<File> {
    // SAFETY: the name ends with a zero, and the descriptor is nobody else's.
    unsafe {
        let descriptor = libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC);
        if descriptor < 0 { Err(io::Error::last_os_error()) } else { Ok(File::from_raw_fd(descriptor)) }
    }
}

/// The bit of a device among those that may use something.
pub(super) fn bit(device: usize) -> u64 {
    1_u64.wrapping_shl(device as u32)
}

fn is_whole(bytes: usize) -> bool {
    bytes != 0 && bytes.is_multiple_of(GRANULARITY)
}

impl Memory {
    /// Reserves addresses. The alignment is a power of two.
    pub(super) fn reserve(&mut self, bytes: usize, alignment: usize) -> Answer<usize> {
        let alignment = alignment.max(GRANULARITY);
        if !is_whole(bytes) || !alignment.is_power_of_two() {
            return Err(Code::INVALID_VALUE);
        }
        let more = bytes.checked_add(alignment).ok_or(Code::OUT_OF_MEMORY)?;
        let found = pages(None, more, libc::PROT_NONE)?;
        let address = found.next_multiple_of(alignment);
        let before = address - found;
        self.freed.extend(
            [(found, before), (address + bytes, alignment - before)].iter().filter(|part| part.1 > 0),
        );
        self.ranges.reserved.insert(address, bytes);
        Ok(address)
    }

    /// Gives addresses back, to which nothing is mapped any more.
    pub(super) fn unreserve(&mut self, address: usize, bytes: usize) -> Answer {
        let is_mapped = self.ranges.mappings.range(address..address.saturating_add(bytes)).next().is_some();
        if self.ranges.reserved.get(&address) != Some(&bytes) || is_mapped {
            return Err(Code::INVALID_VALUE);
        }
        self.ranges.reserved.remove(&address);
        self.ranges.unmapped.retain(|(start, _)| !(address..address + bytes).contains(start));
        self.freed.push((address, bytes));
        Ok(())
    }

    /// Maps memory to reserved addresses, for no device yet.
    pub(super) fn map(&mut self, address: usize, bytes: usize, physical: Handle) -> Answer {
        let found = self.ranges.physical.get(physical)?;
        let in_the_way = self.ranges.mappings.range(..address.saturating_add(bytes)).next_back();
        let is_taken = in_the_way.is_some_and(|(start, mapping)| start + mapping.bytes > address);
        if bytes > found.bytes {
            return Err(Code::NOT_SUPPORTED);
        }
        let is_aligned = is_whole(bytes) && address.is_multiple_of(GRANULARITY);
        if !is_aligned || is_taken || !self.ranges.is_reserved(address, bytes) {
            return Err(Code::INVALID_VALUE);
        }
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_SHARED | libc::MAP_FIXED | libc::MAP_NORESERVE;
        let place = std::ptr::with_exposed_provenance_mut(address);
        // SAFETY: the addresses are reserved, and nothing is mapped there that anybody may use.
        let mapped = unsafe { libc::mmap(place, bytes, access, flags, found.file.as_raw_fd(), 0) };
        if mapped == libc::MAP_FAILED {
            return Err(Code::OUT_OF_MEMORY);
        }
        mapped.expose_provenance();
        self.ranges.mappings.insert(address, Mapping { bytes, physical });
        Ok(())
    }

    /// From now on kernels do not find what is mapped there, if anything is. The addresses remain reserved.
    pub(super) fn unmap(&mut self, address: usize, bytes: usize) -> Answer {
        for start in self.ranges.mapped_within(address, bytes)? {
            let Some(mapping) = self.ranges.mappings.remove(&start) else { continue };
            self.blocks.remove(&start);
            self.ranges.unmapped.push((start, mapping.bytes));
            self.ranges.forget_unused(mapping.physical);
        }
        Ok(())
    }

    /// Between the turns of kernels.
    pub(super) fn clear_unmapped(&mut self) {
        for (address, bytes) in std::mem::take(&mut self.ranges.unmapped) {
            let after = self.ranges.mappings.range(..address + bytes).next_back();
            if after.is_none_or(|(start, mapping)| start + mapping.bytes <= address) {
                // What cannot be cleared is found by nobody, and replaced by what is mapped there next.
                let _ = pages(Some(address), bytes, libc::PROT_NONE);
            }
        }
    }

    /// Says whether a device may use what is mapped there.
    pub(super) fn set_access(
        &mut self,
        address: usize,
        bytes: usize,
        device: usize,
        read: bool,
        write: bool,
    ) -> Answer {
        for start in self.ranges.exactly(address, bytes)? {
            let mapping = self.ranges.mappings[&start];
            let owner = self.ranges.physical.get(mapping.physical)?.device;
            let (mut readers, mut writers) = match self.blocks.get(&start).map(|block| block.kind) {
                Some(Kind::Mapped { readers, writers }) => (readers, writers),
                _ => (0, 0),
            };
            let bit = bit(device);
            readers = if read { readers | bit } else { readers & !bit };
            writers = if write { writers | bit } else { writers & !bit };
            let kind = Kind::Mapped { readers, writers };
            if readers | writers == 0 {
                self.blocks.remove(&start);
            } else {
                self.blocks.insert(start, Block { bytes: mapping.bytes, kind, context: 0, device: owner });
            }
        }
        Ok(())
    }
}
