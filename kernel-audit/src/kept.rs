//! Results of NVRTC in files: what one process compiled, no other process compiles again.
//!
//! Code from such a file runs on the GPU with the process's data. So a file is read only if nobody but its owner can have written it, and used only if
//! its bytes have the digest that the preload names, and it names the key that was looked for.

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
#[cfg(feature = "watch")]
pub(crate) use files::{nobody_else_writes, nobody_else_writes_in};
#[cfg(any(feature = "watch", feature = "command"))]
pub(crate) use result::Kept;
#[cfg(feature = "watch")]
pub(crate) use result::{Looked, Part, Was};
