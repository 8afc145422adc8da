//! Virtual memory: addresses that are reserved, memory that has none, and the one mapped to the other.
//!
//! Memory is a file without a name, so that it can be at several addresses.

use std::collections::BTreeMap;
use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::os::fd::FromRawFd;

use super::handles::{Handle, Handles};
use super::result::{Answer, Code};

/// What sizes and addresses are multiples of.
pub(super) const GRANULARITY: usize = 2 << 20;

/// Ranges of addresses, and the memory that can be mapped to them.
#[derive(Debug)]
pub(super) struct Ranges {
    /// Sizes, by address.
    pub(super) reserved: BTreeMap<usize, usize>,
    pub(super) physical: Handles<Physical>,
    /// By address; a block of [`Memory`] is there once a device may use it.
    pub(super) mappings: BTreeMap<usize, Mapping>,
    /// What was unmapped, and may be in a kernel's hands until its turn is over.
    pub(super) unmapped: Vec<(usize, usize)>,
}

#[derive(Debug)]
pub(super) struct Physical {
    pub(super) file: File,
    pub(super) bytes: usize,
    pub(super) device: usize,
    /// The caller has given it back: it goes when no mapping is left.
    is_released: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Mapping {
    pub(super) bytes: usize,
    pub(super) physical: Handle,
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

    pub(super) fn forget_unused(&mut self, handle: Handle) {
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
    pub(super) fn is_reserved(&self, address: usize, bytes: usize) -> bool {
        let range = self.reservation(address);
        range.is_some_and(|(start, size)| bytes <= size - (address - start))
    }

    /// The start and size of the reservation that has this address.
    pub(super) fn reservation(&self, address: usize) -> Option<(usize, usize)> {
        let (start, bytes) = self.reserved.range(..=address).next_back()?;
        (address - start < *bytes).then_some((*start, *bytes))
    }

    /// The mappings among these reserved addresses, none of which goes beyond them.
    pub(super) fn mapped_within(&self, address: usize, bytes: usize) -> Answer<Vec<usize>> {
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
    pub(super) fn exactly(&self, address: usize, bytes: usize) -> Answer<Vec<usize>> {
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

pub(super) fn is_whole(bytes: usize) -> bool {
    bytes != 0 && bytes.is_multiple_of(GRANULARITY)
}
