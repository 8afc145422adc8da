//! The shared parts of the benchmarks: generated crates, repeated measurements, a driver that does nothing,
//! and verdicts.

pub mod child;
pub mod sample;
pub mod stub;
pub mod verdict;
pub mod warming;
pub mod workshop;

/// The result of a step of a benchmark, or why it can't run.
pub type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;
