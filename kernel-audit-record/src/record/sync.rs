//! The types of the standard library that `slot` uses. tests/loom replaces this file by one with loom's types.

pub(super) use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
