//! Tests the stack that the driver doesn't report: that of recursive calls, and that of kernels which are
//! launched by kernels.

use crate::common::image;
use kernel_registry_image::{Image, StackFrames, read};

fn frames(image: &Image, kernel: &str) -> StackFrames {
    assert!(image.variants[0].entry(kernel).is_some(), "{kernel}");
    image.stack_frames(kernel)
}

/// Checks an image of stack.cu: one pass through recursive calls takes more stack than the variables, but at
/// most `saved` bytes more.
fn check(name: &str, saved: u32) {
    let image = read(&image(name)).unwrap();
    for kernel in ["plain", "calls_leaf", "calls_flat", "calls_pointer"] {
        assert_eq!(frames(&image, kernel), StackFrames::KNOWN, "{name}: {kernel}");
    }
    for (kernel, variables) in [
        ("recurses", 8192),
        ("recurses_little", 0),
        // A cubin that was compiled as a whole doesn't show that two functions call each other.
        ("recurses_mutually", 2048),
        ("recurses_and_more", 512 + 8192),
    ] {
        let bytes = frames(&image, kernel).recursive.unwrap_or_else(|| panic!("{name}: {kernel}"));
        let most = variables + saved + if kernel == "recurses_mutually" { 1024 } else { 0 };
        assert!(bytes > variables && bytes <= most, "{name}: {kernel}: {bytes}");
        let resources = image.variants[0].entry(kernel).unwrap().resources;
        assert_eq!(resources.and_then(|resources| resources.stack), None, "{name}: {kernel}");
    }
    assert!(image.variants[0].entries.iter().all(|entry| entry.frames.launched.is_none()));
}

#[test]
fn recursion_in_what_each_compiler_writes() {
    check("stack.sm_90.cubin", 64);
    check("stack.sm_90.cuda12.cubin", 64);
    check("stack.linked.cubin", 96);
    check("stack.nvrtc12.ptx", 256);
}

#[test]
fn no_other_image_is_recursive() {
    for (name, bytes) in crate::common::images().iter().filter(|(name, _)| !name.starts_with("stack")) {
        for variant in read(bytes).unwrap().variants {
            for entry in variant.entries {
                // For sm_100, the compiler turns this recursion into a loop.
                let is_recursive = entry.name().contains("circle") && !name.contains("sm_100");
                assert_eq!(entry.frames.recursive.is_some(), is_recursive, "{name}: {}", entry.symbol);
            }
        }
    }
}

#[test]
fn a_kernel_that_launches_others_needs_the_largest_frame() {
    let image = read(&image("launches.sm_90.cubin")).unwrap();
    assert_eq!(frames(&image, "child"), StackFrames::KNOWN);
    assert_eq!(frames(&image, "large"), StackFrames::KNOWN);
    assert_eq!(frames(&image, "parent"), StackFrames { recursive: None, launched: Some(12_288) });

    let text = "
        .version 8.0 .target sm_90
        .extern .func (.param .b32 r) cudaLaunchDeviceV2 (.param .b64 a, .param .b64 b);
        .entry child() { ret; }
        .entry large() { .local .align 16 .b8 __local_depot0[12288]; ret; }
        .entry parent() { call (r), cudaLaunchDeviceV2, (a, b); }";
    let launched = frames(&read(text.as_bytes()).unwrap(), "parent").launched.unwrap();
    assert!((12_288..13_000).contains(&launched), "{launched}");
}

/// Returns the least stack of the kernel `k`, if nothing bounds its stack.
fn recursive(body: &str) -> Option<u32> {
    let text = format!(".version 8.0 .target sm_90 {body}");
    frames(&read(text.as_bytes()).unwrap(), "k").recursive
}

#[test]
fn recursion_in_ptx() {
    assert_eq!(
        recursive(".func f { call g, (); } .func g; .func g { ret; } .entry k() { call f, (); }"),
        None
    );
    let function = ".func f { .local .align 16 .b8 depot[4096]; call f, (); }";
    let bytes = recursive(&format!("{function} .entry k() {{ .local .b32 own[2][16]; call f, (); }}"));
    assert_eq!(bytes, Some(64 + 4096 + 128 + 64));
    assert_eq!(recursive(&format!("{function} .entry k() {{ ret; }} .entry l() {{ call f, (); }}")), None);
    // Taking a function's address doesn't call it.
    assert_eq!(recursive(".func f { mov.u64 %rd1, f; } .entry k() { call f, (); }"), None);
}

#[test]
fn calls_through_pointers_are_recursive_if_they_lead_to_some() {
    let functions = |inner: &str| {
        format!(
            ".func f {{ ret; }} .func g {{ {inner} }} .global .u64 table[2] = {{f, g}};
             .entry k() {{ call (r), %rd1, (a), prototype; }}"
        )
    };
    assert_eq!(recursive(&functions("ret;")), None);
    assert_eq!(recursive(&functions("call f, ();")), None);
    // ptxas doesn't distinguish prototypes either.
    assert!(recursive(&functions("call %rd2, (a), prototype;")).is_some());
}
