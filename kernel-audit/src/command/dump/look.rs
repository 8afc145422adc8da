//! What was seen of a process.

use kernel_registry_image::dump::Dump;

use super::host::Thread;
use super::target::Target;

/// A process and its GPUs, as they were seen.
pub(super) struct Look {
    /// The process, unless a file is read.
    pub(super) process: Option<Target>,
    pub(super) gpus: Dump,
    /// The threads of the process, in the order of their numbers.
    pub(super) threads: Vec<Thread>,
    /// Why Python's frames are missing, in words.
    pub(super) lacks_python: Option<String>,
}
