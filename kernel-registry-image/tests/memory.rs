//! How much memory reading takes, compared with the size of the image.

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use common::images;
use kernel_registry_image::read;

/// The system's allocator, which notes how much is allocated now and at most.
struct Counting {
    now: AtomicUsize,
    peak: AtomicUsize,
}

#[global_allocator]
static ALLOCATOR: Counting = Counting { now: AtomicUsize::new(0), peak: AtomicUsize::new(0) };

// SAFETY: both functions hand over to the system's allocator, with what the caller has promised to it.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let now = self.now.fetch_add(layout.size(), Relaxed) + layout.size();
        self.peak.fetch_max(now, Relaxed);
        // SAFETY: the caller keeps the contract of `alloc`, which is that of this function.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        self.now.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the pointer is from `alloc` above, hence from the system's allocator.
        unsafe { System.dealloc(pointer, layout) }
    }
}

/// Bytes that were allocated at most while this was read, on top of what was before.
fn peak(bytes: &[u8]) -> usize {
    let before = ALLOCATOR.now.load(Relaxed);
    ALLOCATOR.peak.store(before, Relaxed);
    let _ = read(bytes);
    ALLOCATOR.peak.load(Relaxed) - before
}

// One test, because others would allocate at the same time.
#[test]
fn memory_is_in_proportion_to_the_image() {
    for (name, bytes) in images() {
        let peak = peak(&bytes);
        println!("{name}: {:.2} times its size", peak as f64 / bytes.len() as f64);
        // What is packed takes its plain size, and the window of the decoder as much again.
        let packed = name.ends_with(".size.fatbin") || name.ends_with(".family.fatbin");
        let limit = if packed { 24 } else { 4 };
        assert!(peak <= limit * bytes.len(), "{name}: {peak} bytes for {}", bytes.len());
    }
    let head = ".version 8.0 .target sm_90 ";
    for part in [
        ".entry k(){}",
        ".entry k{}",
        ".entry _Z1kv{}",
        ".func f{}",
        ".entry k{f}",
        ".version 8.0 .target sm_90 ",
        ".entry k(.b8 a,.b8 a,.b8 a,.b8 a,.b8 a,.b8 a,.b8 a,.b8 a,.b8 a,.b8 a,.b8 a,.b8 a){}",
        ".entry _Z1fI1aEvS_IS_S_EIS_S_E(){}",
    ] {
        // Nothing takes more room than the smallest kernels, of eleven bytes.
        let text = format!("{head}.func f; {}", part.repeat(10_000));
        let peak = peak(text.as_bytes());
        println!("{part}: {:.2} times its size", peak as f64 / text.len() as f64);
        assert!(peak <= 64 * text.len(), "{part}: {peak} bytes for {}", text.len());
    }
}
