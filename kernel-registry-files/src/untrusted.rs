//! Why a file isn't trusted.

use std::error::Error;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use kernel_registry_format::Printable;

/// The reason why another user could have written a file, or could exchange it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Untrusted {
    /// The file, or a folder that leads to it, belongs to neither this user nor root.
    OtherUser {
        /// The path of that.
        path: PathBuf,
        /// The user's number.
        user: u32,
    },
    /// Others may write to the file, or to a folder that leads to it.
    Writable {
        /// The path of that.
        path: PathBuf,
    },
    /// Another user put a link or a file into a folder where others may write.
    Planted {
        /// The path of the link or file.
        path: PathBuf,
        /// The user's number.
        user: u32,
    },
}

impl Untrusted {
    /// Returns the reason in an error of this crate, if there is one.
    pub fn in_error(error: &io::Error) -> Option<&Self> {
        error.get_ref()?.downcast_ref()
    }

    /// Returns what others could change.
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
