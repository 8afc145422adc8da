//! The result of `diff`.

use super::comparison::Comparison;
use super::limits::Refusal;

/// The result that is written as text, JSON or Markdown: a comparison, with refusals and notes.
pub(super) struct Report<'a> {
    pub(super) comparison: Comparison<'a>,
    pub(super) refusals: Vec<Refusal<'a>>,
    /// Sentences that a reader of the figures should know.
    pub(super) notes: Vec<String>,
}
