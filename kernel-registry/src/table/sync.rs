//! The types of the standard library that `seqlock` and `entries` use. tests/loom replaces this file by one with loom's types.

pub(super) use std::sync::atomic::{AtomicU64, Ordering, fence};
pub(super) use std::sync::{RwLock, RwLockWriteGuard};
