//! The record of a kernel that nvcc linked.

use kernel_registry_format::{KernelRecord, Needs, write_kernel};

use crate::records::COPY;

/// Stands for the source of these kernels, which nothing in the program tells.
pub(super) const SOURCE: &str = "code that nvcc linked";

/// The record of a kernel.
pub(super) struct Described {
    pub(super) record: Vec<u8>,
    /// Whether its image was read.
    pub(super) is_read: bool,
}

impl Described {
    /// A kernel of which only the name is known.
    pub(super) fn unread(path: &str, symbol: &str) -> Self {
        let needs = Needs::UNKNOWN;
        let kernel = KernelRecord { path, symbol, file: SOURCE, needs, copy: COPY, ..KernelRecord::EMPTY };
        let mut record = Vec::new();
        write_kernel(&kernel, &mut record);
        Described { record, is_read: false }
    }
}
