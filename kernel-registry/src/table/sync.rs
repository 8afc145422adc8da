//! What `seqlock` and `entries` use of the standard library. tests/loom has loom's in its place.

pub(super) use std::sync::atomic::{AtomicU64, Ordering, fence};
pub(super) use std::sync::{RwLock, RwLockWriteGuard};
