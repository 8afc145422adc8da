//! What all outputs show.

use super::comparison::Comparison;
use super::limits::Refusal;

/// A comparison, and what is to be said of it.
pub(super) struct Report<'a> {
    pub(super) comparison: Comparison<'a>,
    pub(super) refusals: Vec<Refusal<'a>>,
    /// What a reader of the figures should know, a sentence each.
    pub(super) notes: Vec<String>,
}
