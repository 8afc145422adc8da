//! Formats numbers with nouns.

/// Returns a number and its noun: `1 kernel`, `2 kernels`.
pub fn many(count: usize, one: &str) -> String {
    format!("{count} {one}{}", if count == 1 { "" } else { "s" })
}
