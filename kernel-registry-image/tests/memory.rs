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
        let limit = if packed { 16 } else { 4 };
        assert!(peak <= limit * bytes.len(), "{name}: {peak} bytes for {}", bytes.len());
    }
    let head = ".version 8.0 .target sm_90 .func f; .func g; ";
    let kernel = |params: &str| format!(".entry k({params}){{}} {}", " ".repeat(64));
    for part in [
        ".entry k(){}".to_owned(),
        kernel(""),
        kernel(&[".b8 a"; 4096].join(",")),
        ".func h{}".to_owned(),
        ".func h{f g f g f g f g f g f g f g f g f g f g f g f g f g f g f g f g}".to_owned(),
        ".version 8.0 .target sm_90 ".to_owned(),
        ".entry _Z1fI1aEvS_IS_S_EIS_S_E(){}                               ".to_owned(),
    ] {
        let text = format!("{head}{}", part.repeat(500_000 / part.len()));
        check(&part, text.as_bytes());
    }
    let unique = |form: fn(usize) -> String| (0..20_000).map(form).collect::<String>();
    check("functions", format!("{head}{}", unique(|i| format!(".func f{i};"))).as_bytes());
    check(
        "calls",
        format!("{head}{}", unique(|i| format!(".func f{i}{{call f{};}}", i.wrapping_sub(1)))).as_bytes(),
    );
    let needy = unique(|i| format!(".func f{i}{{vprintf free}}"));
    check("needs", format!("{head} .func vprintf; .func free; {needy}").as_bytes());
}

/// What is not packed takes at most 16 times its size, and a little more.
fn check(what: &str, bytes: &[u8]) {
    let peak = peak(bytes);
    let what = &what[..what.len().min(60)];
    println!("{what}: {:.2} times its size", peak as f64 / bytes.len() as f64);
    assert!(peak <= 16 * bytes.len() + (1 << 20), "{what}: {peak} bytes for {}", bytes.len());
}
