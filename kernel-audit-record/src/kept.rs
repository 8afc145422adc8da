//! A cache of NVRTC's results in files, so that what one process has compiled no other process compiles again.
//!
//! Code from the cache runs on the GPU with the process's data. So a file is trusted only if no other user could have
//! written it, and used only if it has the digest that the preload names and the key that was looked up.

mod digest;
mod files;
mod result;

pub use digest::{Digest, Hasher};
#[doc(hidden)]
pub use files::{file_name, keep, read};
#[doc(hidden)]
pub use result::{Dependency, Kept, Part, Was};
