//! What `diff` has found.

use super::comparison::Comparison;
use super::limits::Refusal;

/// What is written as text, JSON or Markdown: a comparison, with refusals and notes.
pub(super) struct Report<'a> {
    pub(super) comparison: Comparison<'a>,
    pub(super) refusals: Vec<Refusal<'a>>,
    /// What a reader of the figures should know, a sentence each.
    pub(super) notes: Vec<String>,
}
