//! Virtual memory: reserved address ranges, physical memory, and mappings.
//!
//! Physical memory is an anonymous file, so that it can be mapped at several addresses.

use std::collections::BTreeMap;
use std::ffi::{CStr, c_int};
use std::fs::File;
use std::io;
use std::os::fd::FromRawFd;

use crate::driver::handles::{Handle, Handles};
use crate::driver::result::{Answer, Code};

/// Sizes and addresses are multiples of this.
pub(crate) const GRANULARITY: usize = 2 << 20;

/// Address ranges, and the memory that can be mapped to them.
pub(crate) struct Ranges {
    /// Reserved ranges: sizes by address.
    pub(crate) reserved: BTreeMap<usize, usize>,
    pub(crate) physical: Handles<Physical>,
    /// By address. The memory has a block there once a device has access.
    pub(crate) mappings: BTreeMap<usize, Mapping>,
    /// Unmapped ranges, which a kernel may access until its turn is over.
    pub(crate) unmapped: Vec<(usize, usize)>,
}

pub(crate) struct Physical {
    pub(crate) file: File,
    pub(crate) bytes: usize,
    pub(crate) device: usize,
    /// The caller has released it: it is freed when no mapping is left.
    is_released: bool,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Mapping {
    pub(crate) bytes: usize,
    pub(crate) physical: Handle,
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
    pub(crate) fn used(&self, device: usize) -> u64 {
        let of_device = self.physical.iter().filter(|(_, physical)| physical.device == device);
        of_device.map(|(_, physical)| physical.bytes as u64).sum()
    }

    /// Allocates physical memory.
    pub(crate) fn create(&mut self, bytes: usize, device: usize) -> Answer<Handle> {
        let file = memory_file(c"device memory").and_then(|file| file.set_len(bytes as u64).map(|()| file));
        let file = file.map_err(|_| Code::OUT_OF_MEMORY)?;
        Ok(self.physical.insert(Physical { file, bytes, device, is_released: false }))
    }

    /// Releases memory on behalf of the caller.
    pub(crate) fn release(&mut self, handle: Handle) -> Answer {
        let physical = self.physical.get_mut(handle)?;
        if std::mem::replace(&mut physical.is_released, true) {
            return Err(Code::INVALID_VALUE);
        }
        self.forget_unused(handle);
        Ok(())
    }

    pub(crate) fn forget_unused(&mut self, handle: Handle) {
        let is_mapped = self.mappings.values().any(|mapping| mapping.physical == handle);
        if !is_mapped && self.physical.get(handle).is_ok_and(|physical| physical.is_released) {
            let _ = self.physical.remove(handle);
        }
    }

    fn mapping(&self, address: usize) -> Option<(usize, Mapping)> {
        let (start, mapping) = self.mappings.range(..=address).next_back()?;
        (address - start < mapping.bytes).then_some((*start, *mapping))
    }

    /// Whether one reserved range has all of these addresses.
    pub(crate) fn is_reserved(&self, address: usize, bytes: usize) -> bool {
        let range = self.reservation(address);
        range.is_some_and(|(start, size)| bytes <= size - (address - start))
    }

    /// The start and size of the reserved range with this address.
    pub(crate) fn reservation(&self, address: usize) -> Option<(usize, usize)> {
        let (start, bytes) = self.reserved.range(..=address).next_back()?;
        (address - start < *bytes).then_some((*start, *bytes))
    }

    /// The mappings in a reserved range. It is an error if one extends beyond the range.
    pub(crate) fn mapped_within(&self, address: usize, bytes: usize) -> Answer<Vec<usize>> {
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

    /// The mappings that make up exactly this range.
    pub(crate) fn exactly(&self, address: usize, bytes: usize) -> Answer<Vec<usize>> {
        let end = address.checked_add(bytes).ok_or(Code::INVALID_VALUE)?;
        let (mut at, mut found) = (address, Vec::new());
        while at < end {
            found.push(at);
            at += self.mappings.get(&at).ok_or(Code::INVALID_VALUE)?.bytes;
        }
        if bytes != 0 && at == end { Ok(found) } else { Err(Code::INVALID_VALUE) }
    }
}

/// A file in memory, whose name shows in `/proc/self/maps`.
pub(crate) fn memory_file(name: &CStr) -> io::Result<File> {
    // SAFETY: the name ends with a zero, and only this function has the descriptor.
    unsafe {
        // glibc has a function for it only since 2.27.
        let descriptor = libc::syscall(libc::SYS_memfd_create, name.as_ptr(), libc::MFD_CLOEXEC);
        if descriptor < 0 {
            Err(io::Error::last_os_error())
        } else {
            Ok(File::from_raw_fd(descriptor as c_int))
        }
    }
}

/// The bit of a device in a set of devices.
pub(crate) fn bit(device: usize) -> u64 {
    1_u64.wrapping_shl(device as u32)
}

pub(crate) fn is_whole(bytes: usize) -> bool {
    bytes != 0 && bytes.is_multiple_of(GRANULARITY)
}
