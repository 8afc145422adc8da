//! The cache of NVRTC's results on disk, so that processes don't compile the same program twice.
//!
//! Code from the cache runs on the GPU with the process's data. So a file is trusted only if no other user
//! could have written it, and used only if its key and its digest are the expected ones.

mod digest;
mod files;
mod result;

pub use digest::{Digest, Hasher};
#[doc(hidden)]
pub use files::{file_name, read, store};
#[doc(hidden)]
pub use result::{Cached, Dependency, Part, PathState};
