//! The cache of NVRTC's results on disk, so that processes don't compile the same program twice.
//!
//! Code from the cache runs on the GPU with the process's data. So a file is trusted only if no other user
//! could have written it, and used only if its key and its digest are the expected ones.

mod digest;
#[cfg(any(feature = "watch", feature = "command"))]
mod files;
#[cfg(any(feature = "watch", feature = "command"))]
mod result;

pub use digest::Digest;
#[cfg(feature = "watch")]
pub use digest::Hasher;
#[cfg(any(feature = "watch", feature = "command"))]
pub(crate) use files::{file_name, read, store};
#[cfg(any(feature = "watch", feature = "command"))]
pub(crate) use result::Cached;
#[cfg(feature = "watch")]
pub(crate) use result::{Dependency, Part, PathState};
