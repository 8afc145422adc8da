//! Why baked code was not used.

use std::fmt;
use std::path::Path;

use kernel_registry_files::{NotUsed, Untrusted};
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
    /// The file or a folder that leads to it belongs to another user, and not to root.
    OtherUser {
        /// The path of that.
        path: String,
        /// The user's number.
        user: u32,
    },
    /// Others can write to the file or to a folder that leads to it.
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

impl NotBaked {
    /// Returns the reason why this file could not be opened.
    pub(super) fn new(file: &Path, why: NotUsed) -> Self {
        let words = |path: &Path| path.display().to_string();
        let error = match why {
            NotUsed::Unreadable(error) => error,
            NotUsed::Damaged(damage) => {
                return NotBaked::Damaged { file: words(file), reason: damage.to_string() };
            }
        };
        match Untrusted::in_error(&error) {
            Some(Untrusted::OtherUser { path, user } | Untrusted::Planted { path, user }) => {
                NotBaked::OtherUser { path: words(path), user: *user }
            }
            Some(Untrusted::Writable { path }) => NotBaked::Writable { path: words(path) },
            None => NotBaked::Unreadable { file: words(file), reason: error.to_string() },
        }
    }
}

impl fmt::Display for NotBaked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const AGAIN: &str = "make it again with `cargo kernels bake`";
        match self {
            NotBaked::Unreadable { file, reason } => {
                write!(f, "`{}` cannot be read: {}; {AGAIN}", Printable(file), Printable(reason))
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
                write!(
                    f,
                    "the driver refused the code of `{image}`, {}; {AGAIN}, unless the driver is simulated, which runs PTX only",
                    error.in_short()
                )
            }
        }
    }
}
