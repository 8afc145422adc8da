//! Kinds of accesses.

use std::fmt;

/// A kind of access.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum What {
    /// A load.
    #[default]
    Read,
    /// A store.
    Write,
    /// An atomic update.
    Update,
}

impl What {
    pub(crate) fn reads(self) -> bool {
        self != What::Write
    }

    pub(crate) fn writes(self) -> bool {
        self != What::Read
    }
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            What::Read => "reads",
            What::Write => "writes",
            What::Update => "updates",
        })
    }
}
