//! The kernels that were registered, as a list that only grows. Code that runs before `main` adds to it, so it takes no lock, and
//! no memory of the program's allocator.

use std::alloc::{GlobalAlloc, Layout, System};
use std::ffi::{CStr, c_char};
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use super::runtime::Addresses;
use super::{Linked, shim};

/// The beginning of the list. Copies of this library in one program share it, so its layout and that of a node belong to
/// the names that end in `_v1`.
#[repr(C)]
pub(super) struct Head {
    first: AtomicPtr<Node>,
    count: AtomicUsize,
}

#[repr(C)]
struct Node {
    next: *const Node,
    fatbin: usize,
    host: usize,
    symbol: *const c_char,
    runtime: *const Addresses,
}

/// Adds a kernel. Without memory it is left out: the program goes on, and the kernel is loaded at its first launch.
pub(super) fn add(fatbin: usize, host: usize, symbol: *const c_char, runtime: *const Addresses) {
    // SAFETY: the layout has a size.
    let node = unsafe { System.alloc(Layout::new::<Node>()) }.cast::<Node>();
    if node.is_null() || symbol.is_null() {
        return;
    }
    let Head { first, count } = shim::head();
    let mut next = first.load(Ordering::Relaxed);
    loop {
        // SAFETY: it is new memory for a node, and nobody else has it before it is in the list.
        unsafe { node.write(Node { next, fatbin, host, symbol, runtime }) };
        match first.compare_exchange_weak(next, node, Ordering::Release, Ordering::Relaxed) {
            Ok(_) => break,
            Err(now) => next = now,
        }
    }
    count.fetch_add(1, Ordering::Release);
}

/// How many kernels were registered, some more than once. No kernel that it counts is missing in the list.
pub(super) fn count() -> usize {
    shim::head().count.load(Ordering::Acquire)
}

/// The registered kernels, the latest first.
pub(super) fn all() -> impl Iterator<Item = Linked> {
    let first: *const Node = shim::head().first.load(Ordering::Acquire);
    // SAFETY: nodes are complete when they are in the list, and stay.
    let nodes = std::iter::successors(unsafe { first.as_ref() }, |node| unsafe { node.next.as_ref() });
    nodes.map(|node| Linked {
        host: node.host,
        // SAFETY: it is not null, and a text of nvcc's, in the file that also contains this list.
        symbol: unsafe { CStr::from_ptr(node.symbol) },
        // SAFETY: it is the table of a copy of this library in the same file.
        runtime: unsafe { &*node.runtime },
    })
}
