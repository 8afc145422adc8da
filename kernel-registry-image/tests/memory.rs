//! Tests how much memory reading takes, relative to the size of the image.

mod common;
#[path = "common/cubin.rs"]
mod cubin;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use common::images;
use cubin::Cubin;
use kernel_registry_image::embedded::Search;
use kernel_registry_image::read;

/// The system's allocator, with counters for the bytes that are allocated now and at most.
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

/// Reads an image, and returns how many bytes were allocated at the peak, in addition to those before.
fn peak(bytes: &[u8]) -> usize {
    peak_of(|| drop(read(bytes)))
}

fn peak_of(action: impl FnOnce()) -> usize {
    let before = ALLOCATOR.now.load(Relaxed);
    ALLOCATOR.peak.store(before, Relaxed);
    action();
    ALLOCATOR.peak.load(Relaxed) - before
}

// A single test, because others would allocate at the same time.
#[test]
fn memory_is_in_proportion_to_the_image() {
    for (name, bytes) in images() {
        let peak = peak(&bytes);
        println!("{name}: {:.2} times its size", peak as f64 / bytes.len() as f64);
        // A packed image takes its unpacked size, and the decoder's window takes as much again.
        let packed = name.ends_with(".size.fatbin") || name.ends_with(".family.fatbin");
        let limit = if packed { 16 } else { 4 };
        assert!(peak <= limit * bytes.len(), "{name}: {peak} bytes for {}", bytes.len());
    }
    let head = ".version 8.0 .target sm_90 .func f; .func g; ";
    let kernel = |params: &str| format!(".entry k@({params}){{}} {}", " ".repeat(64));
    for part in [
        ".entry k@(){}".to_owned(),
        kernel(""),
        kernel(&[".b8 a"; 4096].join(",")),
        ".func h{}".to_owned(),
        ".func h{f g f g f g f g f g f g f g f g f g f g f g f g f g f g f g f g}".to_owned(),
        ".version 8.0 .target sm_90 ".to_owned(),
        ".version 8.0 .target sm_90 .entry k(){} ".to_owned(),
        ".entry _Z1fI1aEvS_IS_S_EIS_S_E@(){}                               ".to_owned(),
    ] {
        // Kernels need different names, or the second would be refused.
        let parts = (0..500_000 / part.len()).map(|number| part.replace('@', &number.to_string()));
        let text = format!("{head}{}", parts.collect::<String>());
        check(&part, text.as_bytes());
    }
    // A list of types grows the most: each letter becomes a type with a name.
    for (what, list) in [("parameters", ""), ("arguments", "I"), ("packs", "IJ")] {
        let closed = if list.is_empty() { String::new() } else { "E".repeat(list.len()) + "vv" };
        let name = |number: usize| format!("_Z4f{number:03}{list}{}{closed}", "i".repeat(5_000));
        let text = (0..100).map(|number| format!(".entry {}(){{}}\n", name(number))).collect::<String>();
        let peak = peak(format!("{head}{text}").as_bytes());
        println!("{what}: {:.2} times its size", peak as f64 / text.len() as f64);
        assert!(peak <= 64 * text.len(), "{what}: {peak} bytes for {}", text.len());
    }
    let unique = |form: fn(usize) -> String| (0..20_000).map(form).collect::<String>();
    check("functions", format!("{head}{}", unique(|i| format!(".func f{i};"))).as_bytes());
    check(
        "calls",
        format!("{head}{}", unique(|i| format!(".func f{i}{{call f{};}}", i.wrapping_sub(1)))).as_bytes(),
    );
    let needy = unique(|i| format!(".func f{i}{{vprintf free}}"));
    check("needs", format!("{head} .func vprintf; .func free; {needy}").as_bytes());
    for (what, bytes) in amplifying_cubins() {
        check(what, &bytes);
    }
    for part in [".version }", ".version 8.0 .target sm_90 .entry k(){} ", "} .version 8.0 // .version 8.0\n"]
    {
        let bytes = part.repeat(500_000 / part.len()).into_bytes();
        for length in [part.len(), bytes.len() / 2] {
            let peak = peak_of(|| drop(Search::new(&bytes, [length]).images(length)));
            proportional(&format!("images of {length} bytes in {part}"), peak, bytes.len());
        }
    }
}

/// Cubins in which many symbols or sections share bytes, so that each byte of the file counts many times.
fn amplifying_cubins() -> Vec<(&'static str, Vec<u8>)> {
    let mut cubins = Vec::new();
    let long = format!("_Z{}{}f", 30_000, "k".repeat(29_999)) + "v";

    let mut equal = Cubin::new(8);
    let name = equal.string(&long);
    (0..3_200).for_each(|_| equal.kernel(name));
    cubins.push(("kernels of one name", equal.write()));

    let mut endings = Cubin::new(8);
    let name = endings.string(&long);
    (0..3_200).for_each(|number| endings.kernel(name + number));
    cubins.push(("names that are endings of each other", endings.write()));

    let mut short = Cubin::new(8);
    for number in 0..10_000 {
        let name = short.string(&format!("k{number}"));
        short.kernel(name);
    }
    cubins.push(("kernels without code", short.write()));

    let mut overlapping = Cubin::new(8);
    let attributes = |number: u16| {
        let [low, high] = number.to_le_bytes();
        [4, 0x17, 12, 0, 0, 0, 0, 0, low, high, 0, 0, 0, 0, 0, 0]
    };
    let params = (0..1_000).flat_map(attributes).collect::<Vec<u8>>();
    let params = overlapping.data(&params);
    for number in 0..1_000 {
        let name = overlapping.string(&format!("k{number}"));
        overlapping.kernel(name);
        let name = overlapping.string(&format!(".nv.info.k{number}"));
        overlapping.section(name, params);
    }
    cubins.push(("sections that share their bytes", overlapping.write()));
    cubins
}

/// Checks that reading an unpacked image takes at most 16 times its size, and a little more.
fn check(what: &str, bytes: &[u8]) {
    proportional(&what[..what.len().min(60)], peak(bytes), bytes.len());
}

fn proportional(what: &str, peak: usize, size: usize) {
    println!("{what}: {:.2} times its size", peak as f64 / size as f64);
    assert!(peak <= 16 * size + (1 << 20), "{what}: {peak} bytes for {size}");
}
