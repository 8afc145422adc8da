//! Virtual memory: reserving addresses, and mapping memory to them.

use std::os::fd::AsRawFd;

use super::blocks::{Block, Kind, Memory, pages};
use super::ranges::{GRANULARITY, Mapping, bit, is_whole};
use crate::driver::handles::Handle;
use crate::driver::result::{Answer, Code};

impl Memory {
    /// Reserves an address range. The alignment is a power of two.
    pub(crate) fn reserve(&mut self, bytes: usize, alignment: usize) -> Answer<usize> {
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

    /// Frees an address range, to which nothing may be mapped any more.
    pub(crate) fn unreserve(&mut self, address: usize, bytes: usize) -> Answer {
        let is_mapped = self.ranges.mappings.range(address..address.saturating_add(bytes)).next().is_some();
        if self.ranges.reserved.get(&address) != Some(&bytes) || is_mapped {
            return Err(Code::INVALID_VALUE);
        }
        self.ranges.reserved.remove(&address);
        self.ranges.unmapped.retain(|(start, _)| !(address..address + bytes).contains(start));
        self.freed.push((address, bytes));
        Ok(())
    }

    /// Maps memory to a reserved range. No device has access yet.
    pub(crate) fn map(&mut self, address: usize, bytes: usize, physical: Handle) -> Answer {
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
        // SAFETY: the range is reserved, and nothing is mapped there that anybody may use.
        let mapped = unsafe { libc::mmap(place, bytes, access, flags, found.file.as_raw_fd(), 0) };
        if mapped == libc::MAP_FAILED {
            return Err(Code::OUT_OF_MEMORY);
        }
        mapped.expose_provenance();
        self.ranges.mappings.insert(address, Mapping { bytes, physical });
        Ok(())
    }

    /// Unmaps all mappings in a range. The range remains reserved.
    pub(crate) fn unmap(&mut self, address: usize, bytes: usize) -> Answer {
        for start in self.ranges.mapped_within(address, bytes)? {
            let Some(mapping) = self.ranges.mappings.remove(&start) else { continue };
            self.blocks.remove(&start);
            self.ranges.unmapped.push((start, mapping.bytes));
            self.ranges.forget_unused(mapping.physical);
        }
        Ok(())
    }

    /// Clears the pages of unmapped memory, between the turns of kernels.
    pub(crate) fn clear_unmapped(&mut self) {
        for (address, bytes) in std::mem::take(&mut self.ranges.unmapped) {
            let after = self.ranges.mappings.range(..address + bytes).next_back();
            if after.is_none_or(|(start, mapping)| start + mapping.bytes <= address) {
                // A failure is harmless: no program uses these pages, and the next mapping replaces them.
                let _ = pages(Some(address), bytes, libc::PROT_NONE);
            }
        }
    }

    /// Sets the access of a device to the mappings in a range.
    pub(crate) fn set_access(
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
