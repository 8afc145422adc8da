//! Lists that only grow: the kernels and fatbins that were registered. Code that runs before `main` adds to them, so they take no
//! lock, and no memory of the program's allocator.

use std::alloc::{GlobalAlloc, Layout, System};
use std::ffi::{CStr, c_char, c_void};
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use super::runtime::Addresses;
use super::{Fatbin, Linked};

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

impl Heads {
    /// Adds a kernel. Without memory it is left out: the program goes on, and the kernel is loaded at its first launch.
    pub(super) fn add(&self, fatbin: usize, host: usize, symbol: *const c_char, runtime: *const Addresses) {
        if !symbol.is_null() && push(&self.kernels, Kernel { fatbin, host, symbol, runtime }) {
            self.kernel_count.fetch_add(1, Ordering::Release);
        }
    }

    /// Adds a fatbin, whose handle kernels have.
    pub(super) fn add_fatbin(&self, handle: usize, wrapper: *const c_void) {
        push(&self.fatbins, Fatbin { handle, wrapper });
    }

    /// How many kernels were registered, some more than once. No kernel that it counts is missing in the list.
    pub(super) fn count(&self) -> usize {
        self.kernel_count.load(Ordering::Acquire)
    }

    /// The registered kernels, the latest first.
    pub(super) fn kernels(&self) -> impl Iterator<Item = Linked> + use<> {
        values(&self.kernels).map(|kernel| Linked {
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
    pub(super) fn fatbins(&self) -> impl Iterator<Item = Fatbin> + use<> {
        values(&self.fatbins)
    }
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

fn values<T: Copy>(first: &AtomicPtr<Node<T>>) -> impl Iterator<Item = T> + use<T> {
    let mut next: *const Node<T> = first.load(Ordering::Acquire);
    std::iter::from_fn(move || {
        // SAFETY: a node is complete when it is in the list, and stays.
        let node = unsafe { next.as_ref() }?;
        next = node.next;
        Some(node.value)
    })
}
