//! The kernels and fatbins that were registered, as lists that only grow. Code that runs before `main` adds to them, so they take no
//! lock, and no memory of the program's allocator.

use std::alloc::{GlobalAlloc, Layout, System};
use std::ffi::{CStr, c_char, c_void};
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use super::runtime::Addresses;
use super::{Fatbin, Linked, shim};

/// The beginnings of both lists. Copies of this library in one program share them, so their layout and that of nodes belong to the
/// names that end in `_v1`.
#[repr(C)]
pub(super) struct Heads {
    kernels: AtomicPtr<Node<Kernel>>,
    fatbins: AtomicPtr<Node<Fatbin>>,
    kernel_count: AtomicUsize,
}

#[repr(C)]
struct Node<T> {
    next: *const Node<T>,
    value: T,
}

/// What nvcc's code says of a kernel.
#[derive(Clone, Copy)]
#[repr(C)]
struct Kernel {
    fatbin: usize,
    host: usize,
    symbol: *const c_char,
    runtime: *const Addresses,
}

/// Adds a kernel. Without memory it is left out: the program goes on, and the kernel is loaded at its first launch.
pub(super) fn add(fatbin: usize, host: usize, symbol: *const c_char, runtime: *const Addresses) {
    let heads = shim::heads();
    if !symbol.is_null() && push(&heads.kernels, Kernel { fatbin, host, symbol, runtime }) {
        heads.kernel_count.fetch_add(1, Ordering::Release);
    }
}

/// Adds a fatbin, whose handle kernels have.
pub(super) fn add_fatbin(handle: usize, wrapper: *const c_void) {
    push(&shim::heads().fatbins, Fatbin { handle, wrapper });
}

/// Puts a value in front of a list, if there is memory.
fn push<T: Copy>(first: &AtomicPtr<Node<T>>, value: T) -> bool {
    // SAFETY: the layout has a size.
    let node = unsafe { System.alloc(Layout::new::<Node<T>>()) }.cast::<Node<T>>();
    if node.is_null() {
        return false;
    }
    let mut next = first.load(Ordering::Relaxed);
    loop {
        // SAFETY: it is new memory for a node, and nobody else has it before it is in the list.
        unsafe { node.write(Node { next, value }) };
        match first.compare_exchange_weak(next, node, Ordering::Release, Ordering::Relaxed) {
            Ok(_) => return true,
            Err(now) => next = now,
        }
    }
}

/// How many kernels were registered, some more than once. No kernel that it counts is missing in the list.
pub(super) fn count() -> usize {
    shim::heads().kernel_count.load(Ordering::Acquire)
}

/// The registered kernels, the latest first.
pub(super) fn all() -> impl Iterator<Item = Linked> {
    values(&shim::heads().kernels).map(|kernel| Linked {
        fatbin: kernel.fatbin,
        host: kernel.host,
        // SAFETY: it is not null, and a text of nvcc's, in the file that also contains this list.
        symbol: unsafe { CStr::from_ptr(kernel.symbol) },
        // SAFETY: it is the table of a copy of this library in the same file.
        runtime: unsafe { &*kernel.runtime },
        is_read: false,
    })
}

/// The registered fatbins, the latest first.
#[cfg(feature = "linked")]
pub(super) fn fatbins() -> impl Iterator<Item = Fatbin> {
    values(&shim::heads().fatbins)
}

fn values<T: Copy>(first: &AtomicPtr<Node<T>>) -> impl Iterator<Item = T> + use<T> {
    let mut next: *const Node<T> = first.load(Ordering::Acquire);
    std::iter::from_fn(move || {
        // SAFETY: a node is complete when it is in the list, and stays.
        let node = unsafe { next.as_ref() }?;
        next = node.next;
        Some(node.value)
    })
}
