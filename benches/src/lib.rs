//! What the comparisons share: crates made for one measurement, times with their noise, and verdicts.

pub mod child;
pub mod registration;
pub mod sample;
pub mod verdict;
pub mod warming;
pub mod workshop;

/// A comparison that cannot be made says why, and ends.
pub type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;
