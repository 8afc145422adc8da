//! What was seen of a process.

use kernel_registry_image::dump::Dump;

use super::target::Target;

/// What was seen of the GPUs of a process.
pub(super) struct Look {
    /// The process, unless a file is read.
    pub(super) process: Option<Target>,
    pub(super) gpus: Dump,
}
