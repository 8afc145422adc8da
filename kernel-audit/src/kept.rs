//! A cache of NVRTC's results in files, so that what one process has compiled no other process compiles again.
//!
//! Code from the cache runs on the GPU with the process's data. So a file is trusted only if no other user could have
//! written it, and used only if it has the digest that the preload names and the key that was looked up.

mod digest;
#[cfg(any(feature = "watch", feature = "command"))]
mod files;
#[cfg(any(feature = "watch", feature = "command"))]
mod result;

pub use digest::Digest;
#[cfg(feature = "watch")]
pub use digest::Hasher;
#[cfg(any(feature = "watch", feature = "command"))]
pub(crate) use files::{file_name, keep, read};
#[cfg(any(feature = "watch", feature = "command"))]
pub(crate) use result::Kept;
#[cfg(feature = "watch")]
pub(crate) use result::{Dependency, Part, Was};
