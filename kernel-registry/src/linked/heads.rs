//! The two linked lists of registered kernels and fatbins. They only grow. Code that runs before `main` adds to them, so adding takes
//! no lock and doesn't use the program's global allocator.

use std::alloc::{GlobalAlloc, Layout, System};
use std::ffi::{CStr, c_char, c_void};
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use super::runtime::Addresses;
use super::{Fatbin, Linked};

/// The heads of both lists, and the number of kernels. All copies of this library in one program share them, so the layout of this
/// struct and of `Node` must stay the same as long as the symbols end in `_v1`.
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

/// A registered kernel, with the values that nvcc's code passes to `__cudaRegisterFunction`.
#[derive(Clone, Copy)]
#[repr(C)]
struct Kernel {
    fatbin: usize,
    host: usize,
    symbol: *const c_char,
    runtime: *const Addresses,
}

impl Heads {
    /// Adds a kernel. If memory is exhausted, the kernel is left out, so the program loads it at its first launch.
    pub(super) fn add(&self, fatbin: usize, host: usize, symbol: *const c_char, runtime: *const Addresses) {
        if !symbol.is_null() && push(&self.kernels, Kernel { fatbin, host, symbol, runtime }) {
            self.kernel_count.fetch_add(1, Ordering::Release);
        }
    }

    /// Adds a fatbin. Its kernels refer to it by `handle`.
    pub(super) fn add_fatbin(&self, handle: usize, wrapper: *const c_void) {
        push(&self.fatbins, Fatbin { handle, wrapper });
    }

    /// Returns the number of registrations; a kernel can be registered more than once. The list can be longer for a moment, because a
    /// kernel is counted after it was added.
    pub(super) fn count(&self) -> usize {
        self.kernel_count.load(Ordering::Acquire)
    }

    /// Returns the registered kernels, the latest first.
    pub(super) fn kernels(&self) -> impl Iterator<Item = Linked> + use<> {
        values(&self.kernels).map(|kernel| Linked {
            fatbin: kernel.fatbin,
            host: kernel.host,
            // SAFETY: `add` has checked that the pointer is not null. It points to a string of nvcc's code, in the same program or
            // shared library as this list.
            symbol: unsafe { CStr::from_ptr(kernel.symbol) },
            // SAFETY: `add` gets the address of a static table, which is in the same program or shared library as this list.
            runtime: unsafe { &*kernel.runtime },
            is_read: false,
        })
    }

    /// Returns the registered fatbins, the latest first.
    #[cfg(feature = "linked")]
    pub(super) fn fatbins(&self) -> impl Iterator<Item = Fatbin> + use<> {
        values(&self.fatbins)
    }
}

/// Adds a value at the front of a list. Returns false if memory is exhausted.
fn push<T: Copy>(head: &AtomicPtr<Node<T>>, value: T) -> bool {
    // SAFETY: the size of the layout is not zero.
    let node = unsafe { System.alloc(Layout::new::<Node<T>>()) }.cast::<Node<T>>();
    if node.is_null() {
        return false;
    }
    let mut next = head.load(Ordering::Relaxed);
    loop {
        // SAFETY: `node` is new memory for a node, and no other thread has its address until it's in the list.
        unsafe { node.write(Node { next, value }) };
        match head.compare_exchange_weak(next, node, Ordering::Release, Ordering::Relaxed) {
            Ok(_) => return true,
            Err(now) => next = now,
        }
    }
}

fn values<T: Copy>(head: &AtomicPtr<Node<T>>) -> impl Iterator<Item = T> + use<T> {
    let mut next: *const Node<T> = head.load(Ordering::Acquire);
    std::iter::from_fn(move || {
        // SAFETY: a node in the list is complete, and is never freed.
        let node = unsafe { next.as_ref() }?;
        next = node.next;
        Some(node.value)
    })
}
