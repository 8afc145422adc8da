//! Why baked code was not used.

use std::fmt;

use kernel_registry_format::Printable;

use crate::driver::DriverCallError;

/// Why a file of baked code was not used, or not for one image: the driver compiled instead.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub enum NotBaked {
    /// The file is missing, or cannot be read.
    Unreadable {
        /// Its path.
        file: String,
        /// The system's reason.
        reason: String,
    },
    /// The file is damaged, or of another version.
    Damaged {
        /// Its path.
        file: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The file or its folder belongs to another user, and not to root.
    OtherUser {
        /// The path of that.
        path: String,
        /// The user's number.
        user: u32,
    },
    /// All users can write to the file or its folder, or those of another group.
    Writable {
        /// The path of that.
        path: String,
    },
    /// The driver refused the code of an image.
    Refused {
        /// The image.
        image: &'static str,
        /// The driver's error.
        error: DriverCallError,
    },
}

impl fmt::Display for NotBaked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const AGAIN: &str = "make it again with `cargo kernels bake`";
        match self {
            NotBaked::Unreadable { file, reason } => {
                write!(f, "`{}` cannot be read: {}", Printable(file), Printable(reason))
            }
            NotBaked::Damaged { file, reason } => {
                write!(f, "`{}` is not used: {reason}; {AGAIN}", Printable(file))
            }
            NotBaked::OtherUser { path, user } => write!(
                f,
                "`{}` belongs to another user (number {user}); copy the file as the user of the program",
                Printable(path)
            ),
            NotBaked::Writable { path } => {
                write!(f, "others can write to `{}`; forbid that with `chmod go-w`", Printable(path))
            }
            NotBaked::Refused { image, error } => {
                write!(f, "the driver refused the code of `{image}`, {}; {AGAIN}", error.in_short())
            }
        }
    }
}
