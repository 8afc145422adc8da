//! Writes the record of a kernel that nvcc linked.

use kernel_registry_format::{KernelRecord, Needs, write_kernel};

use crate::records::COPY;

/// The source file in records of linked kernels. The program does not contain the real name.
pub(super) const SOURCE: &str = "code that nvcc linked";

/// The record of a linked kernel.
pub(super) struct Described {
    pub(super) record: Vec<u8>,
    /// Whether the kernel's image was read.
    pub(super) is_read: bool,
}

impl Described {
    /// Describes a kernel that is known by name only, because its image was not read.
    pub(super) fn unread(path: &str, symbol: &str) -> Self {
        let needs = Needs::UNKNOWN;
        let kernel = KernelRecord { path, symbol, file: SOURCE, needs, copy: COPY, ..KernelRecord::EMPTY };
        let mut record = Vec::new();
        write_kernel(&kernel, &mut record);
        Described { record, is_read: false }
    }
}
