//! Defines what a grid needs to run in an order that someone else chooses.

use std::collections::BTreeSet;

/// Whether threads stop before an instruction.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Visible {
    No,
    Yes,
    /// If it ends threads that have written what others see: these may take it for the end of the kernel.
    AtTheEnd,
}

/// What a grid needs to run in a chosen order.
pub(crate) struct Explored {
    pub(crate) visible: Box<[Visible]>,
    /// The clusters that haven't started.
    pub(crate) unstarted: BTreeSet<u64>,
}
