//! What was seen of a process.

use kernel_registry_image::dump::Dump;

use super::target::Target;

/// The GPUs of a process, as they were seen.
pub(super) struct Look {
    /// The process, unless a file is read.
    pub(super) process: Option<Target>,
    pub(super) gpus: Dump,
}
