//! Writes files atomically, and decides which files to trust. An internal crate of kernel-registry: use
//! `cargo kernels` or `kernel-audit`.
//!
//! A file with code that a later process loads must be out of reach of other users. So it's trusted only if
//! each part of its path is:
//!
//! - The file and each folder belong to this user or to root.
//! - No other user may write to them. Group write access is fine for the user's private group, whose number is the
//!   user's, unless an access control list (ACL) grants more.
//! - A folder on the way may be open to all if it's sticky, as `/tmp` is, and if the next part of the path belongs
//!   to this user or to root.
//!
//! A file is written under a random name first, and then replaces the one at the path: readers never see a
//! part of it, and it's never written through a link that another user planted. [`Folder`] is an open folder,
//! so exchanging a part of its path doesn't redirect the write.
//!
//! On Windows every file is trusted.
//!
//! [`Baked`] reads the machine code in such a file.

#[cfg(target_os = "linux")]
mod folder;
#[cfg(target_os = "linux")]
mod owner;
#[cfg(target_os = "linux")]
mod system;
#[cfg(target_os = "linux")]
mod walk;

mod baked;
#[cfg_attr(not(target_os = "linux"), path = "other.rs")]
mod paths;
mod untrusted;

pub use baked::{Baked, NotUsed, sha256};
#[cfg(target_os = "linux")]
pub use folder::{Folder, NewFile};
pub use paths::{check, open, write, write_trusted};
pub use untrusted::Untrusted;
