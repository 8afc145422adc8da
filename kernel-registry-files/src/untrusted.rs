//! The reasons why a file isn't trusted.

use std::error::Error;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use kernel_registry_format::Printable;

/// How another user could have written a file, or could replace it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Untrusted {
    /// The file or a folder on its path belongs to neither this user nor root.
    OtherUser {
        /// The file or folder.
        path: PathBuf,
        /// The owner's id.
        user: u32,
    },
    /// Other users may write to the file or a folder on its path.
    Writable {
        /// The file or folder.
        path: PathBuf,
    },
    /// Another user has put a link or a file into a folder that others may write to.
    Planted {
        /// The link or file.
        path: PathBuf,
        /// The owner's id.
        user: u32,
    },
}

impl Untrusted {
    /// Returns the reason in an error of this crate, if it failed because of one.
    pub fn in_error(error: &io::Error) -> Option<&Self> {
        error.get_ref()?.downcast_ref()
    }

    /// Returns the path that others could change.
    pub fn path(&self) -> &Path {
        match self {
            Untrusted::OtherUser { path, .. }
            | Untrusted::Writable { path }
            | Untrusted::Planted { path, .. } => path,
        }
    }
}

impl fmt::Display for Untrusted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`: ", Printable(&self.path().to_string_lossy()))?;
        match self {
            Untrusted::OtherUser { user, .. } => {
                write!(f, "it belongs to another user (number {user}); use a folder that only you can change")
            }
            Untrusted::Writable { .. } => f.write_str(
                "others may write it; take that right from them (`chmod go-w`), or use a folder that only you can change",
            ),
            Untrusted::Planted { user, .. } => write!(
                f,
                "another user made it (number {user}), in a folder where others may write; name another folder"
            ),
        }
    }
}

impl Error for Untrusted {}

impl From<Untrusted> for io::Error {
    fn from(why: Untrusted) -> Self {
        io::Error::new(io::ErrorKind::PermissionDenied, why)
    }
}
