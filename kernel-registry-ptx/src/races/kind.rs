//! Kinds of accesses.

use std::fmt;

/// A kind of access.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AccessKind {
    /// A load.
    #[default]
    Read,
    /// A store.
    Write,
    /// An atomic update.
    Update,
}

impl AccessKind {
    pub(crate) fn reads(self) -> bool {
        self != AccessKind::Write
    }

    pub(crate) fn writes(self) -> bool {
        self != AccessKind::Read
    }
}

impl fmt::Display for AccessKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            AccessKind::Read => "reads",
            AccessKind::Write => "writes",
            AccessKind::Update => "updates",
        })
    }
}
