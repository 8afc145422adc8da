//! Tests of stack, printf and heap limits: how the first launch of a kernel changes them, and which limits it freezes.
//! With `KERNEL_REGISTRY_SIM=0` they call NVIDIA's driver.

mod device;
mod resident;
mod serial;

use std::ffi::CString;

use device::*;
use resident::{waits, waits_for_word};
use serial::Turn;

const STACK: usize = 0;
const PRINTF_FIFO: usize = 1;
const HEAP: usize = 2;
const LOCAL_SIZE: usize = 3;

/// Waits for the test's turn, and creates a new context.
fn new_context() -> Turn {
    let turn = serial::take();
    context(0);
    turn
}

/// Loads an image, and returns a kernel of that image.
fn kernel_of(image: &[u8], name: &str) -> usize {
    let mut image = [image, &[0]].concat();
    let mut name = CString::new(name).unwrap().into_bytes_with_nul();
    let module = get("cuModuleLoadData", &[place(&mut *image)]);
    let function = get("cuModuleGetFunction", &[module, place(&mut *name)]);
    ok("cuFuncLoad", &[function]);
    function
}

fn limit(which: usize) -> usize {
    get("cuCtxGetLimit", &[which])
}

/// Returns the size of a thread's stack frame that the driver reports for a kernel.
fn reported_frame(function: usize) -> usize {
    get("cuFuncGetAttribute", &[LOCAL_SIZE, function])
}

/// Returns whether the first launch waits for a resident kernel.
fn first_launch_waits(expected: bool, function: usize, arguments: &[u64]) -> bool {
    waits(expected, || {
        let stream = stream();
        launch(function, stream, arguments);
        ok("cuStreamSynchronize", &[stream]);
    })
}

/// Returns the PTX of a kernel with a frame of that many bytes. The kernel calls a function that calls itself unless
/// its argument is 0, and such calls need more stack than the driver reports.
fn recursive(frame: usize) -> String {
    format!(
        ".version 8.0 .target sm_80 .address_size 64
.func (.param .b32 out) descend(.param .b32 depth) {{
    .reg .pred %p; .reg .b32 %r<4>;
    ld.param.u32 %r1, [depth];
    setp.eq.u32 %p, %r1, 0;
    @%p bra END;
    sub.u32 %r2, %r1, 1;
    {{ .param .b32 a; .param .b32 b; st.param.b32 [a], %r2; call.uni (b), descend, (a); ld.param.b32 %r3, [b]; }}
END:
    st.param.b32 [out], %r1;
    ret;
}}
.visible .entry recurses(.param .u32 depth) {{
    .local .align 16 .b8 depot[{frame}];
    .reg .pred %p; .reg .b32 %r<2>; .reg .b64 %rd<3>;
    ld.param.u32 %r1, [depth];
    mov.u64 %rd1, depot; cvta.local.u64 %rd2, %rd1;
    st.u32 [%rd2+{last}], %r1;
    setp.eq.u32 %p, %r1, 0;
    @%p ret;
    {{ .param .b32 a; .param .b32 b; st.param.b32 [a], %r1; call.uni (b), descend, (a); ld.param.b32 %r0, [b]; }}
    ret;
}}",
        last = frame - 4
    )
}

/// For a kernel with recursive calls, the driver reports only the kernel's own frame. The launch grows the stack to
/// that size.
#[test]
fn recursive_calls_need_more_than_the_driver_reports() {
    let _turn = new_context();
    for (frame, waited, after) in [(800, false, 1024), (1600, true, 1600), (8192, true, 8192)] {
        let function = kernel_of(recursive(frame).as_bytes(), "recurses");
        expect_eq!(reported_frame(function), frame, "{frame}");
        expect_eq!(first_launch_waits(waited, function, &[0]), waited, "{frame}");
        expect_eq!(limit(STACK), after, "{frame}");
        expect_eq!(first_launch_waits(false, function, &[0]), false, "{frame}, again");
    }
}

/// A kernel that can launch others needs a stack for the kernels that it launches, and not for all others of its image.
#[test]
fn launching_kernels_need_the_frames_of_those_that_they_launch() {
    let _turn = new_context();
    macro_rules! image {
        ($name:literal) => {
            include_bytes!(concat!("../../tests/census/device-launch/", $name, ".fatbin"))
        };
    }
    let images: [(&[u8], _, _, _); 3] = [
        (image!("small"), "_Z14launches_smallPVjj", false, 1024),
        (image!("child_frame"), "_Z17launches_frame_8kPVjj", true, 8192),
        (image!("other_frame"), "_Z21launches_beside_framePVjj", false, 8192),
    ];
    let done = memory(4) as u64;
    for (image, name, waited, after) in images {
        let function = kernel_of(image, name);
        assert!(reported_frame(function) < 800, "{name}: {}", reported_frame(function));
        expect_eq!(first_launch_waits(waited, function, &[done, 100]), waited, "{name}");
        expect_eq!(limit(STACK), after, "{name}");
    }
}

/// Launches by kernels are not simulated. Each of them is an error.
#[test]
fn a_launch_by_a_kernel_is_an_error_in_the_simulator() {
    if on_a_gpu() {
        return;
    }
    let _turn = new_context();
    let image = include_bytes!("../../tests/census/device-launch/small.fatbin");
    let (function, stream, done) = (kernel_of(image, "_Z14launches_smallPVjj"), stream(), memory(4));
    launch(function, stream, &[done as u64, 2000]);
    const LAUNCH_FAILED: u32 = 719;
    assert_eq!(call("cuStreamSynchronize", &[stream]), LAUNCH_FAILED);
}

/// Returns the PTX of a kernel that calls one function of the device runtime, which prints or allocates.
fn calling(function: &str, declaration: &str, arguments: &str) -> String {
    format!(
        ".version 8.0 .target sm_80 .address_size 64
.extern .func {declaration};
.visible .entry uses(.param .u32 really) {{
    .reg .pred %p; .reg .b32 %r; .reg .b64 %rd;
    ld.param.u32 %r, [really]; setp.eq.u32 %p, %r, 0; @%p ret; mov.u64 %rd, 0;
    {{ {arguments}; call.uni {function}; }}
    ret;
}}"
    )
}

fn prints() -> String {
    calling(
        "(r), vprintf, (a, b)",
        "(.param .b32 r) vprintf (.param .b64 a, .param .b64 b)",
        ".param .b64 a; .param .b64 b; .param .b32 r; st.param.b64 [a], %rd; st.param.b64 [b], %rd",
    )
}

fn allocates() -> String {
    calling(
        "(r), malloc, (a)",
        "(.param .b64 r) malloc (.param .b64 a)",
        ".param .b64 a; .param .b64 r; st.param.b64 [a], %rd",
    )
}

/// The printf buffer and the heap are allocated by the first launch of a kernel that may use them.
#[test]
fn limits_are_frozen_by_the_first_launch_that_depends_on_them() {
    let _turn = new_context();
    const MIB: usize = 1 << 20;
    let set = |which, bytes| call("cuCtxSetLimit", &[which, bytes]);
    let stream = stream();
    launch(kernel("store"), stream, &[memory(4) as u64, 1]);
    expect_eq!((set(PRINTF_FIFO, 2 * MIB), set(HEAP, 16 * MIB)), (0, 0), "before");
    launch(kernel_of(prints().as_bytes(), "uses"), stream, &[0]);
    expect_eq!((set(PRINTF_FIFO, 4 * MIB), set(HEAP, 32 * MIB)), (INVALID_VALUE, 0), "after printf");
    launch(kernel_of(allocates().as_bytes(), "uses"), stream, &[0]);
    expect_eq!(
        (set(PRINTF_FIFO, 4 * MIB), set(HEAP, 64 * MIB)),
        (INVALID_VALUE, INVALID_VALUE),
        "after malloc"
    );
    expect_eq!((limit(PRINTF_FIFO), limit(HEAP)), (2 * MIB, 32 * MIB));
}

/// Returns whether the next launch of a kernel waits for another stream, which waits for a word in memory.
fn next_waits(expected: bool, function: usize) -> bool {
    // `cuMemAlloc_v2` does not zero the memory; zeroing would be a launch itself.
    let (stream, to) = (stream(), get("cuMemAlloc_v2", &[4]) as u64);
    waits_for_word(expected, || {
        launch(function, stream, &[to, 1]);
        ok("cuStreamSynchronize", &[stream]);
    })
}

/// A changed limit makes only the next launch wait, even if the limit is changed back before it.
#[test]
fn only_the_next_launch_waits_after_a_limit_was_changed() {
    let _turn = new_context();
    const KIB: usize = 1024;
    let function = kernel("store");
    launch(function, stream(), &[memory(4) as u64, 1]);
    for (limits, waited) in [
        (&[8 * KIB][..], true),
        (&[16 * KIB, 8 * KIB], true),
        (&[8 * KIB], false),
        (&[4 * KIB, 8 * KIB], true),
        (&[4 * KIB, 4 * KIB], true),
        (&[4 * KIB, 4 * KIB], false),
    ] {
        limits.iter().for_each(|bytes| ok("cuCtxSetLimit", &[STACK, *bytes]));
        expect_eq!(next_waits(waited, function), waited, "{limits:?}");
    }
}

/// Returns the PTX of a kernel with a frame of that many bytes, which no compiler can remove.
fn framed(frame: usize) -> String {
    format!(
        ".version 8.0 .target sm_80 .address_size 64
.visible .entry framed(.param .u64 to, .param .u64 stored, .param .u64 loaded) {{
    .local .align 16 .b8 depot[{frame}];
    .reg .b32 %r; .reg .b64 %rd<7>;
    ld.param.u64 %rd1, [to]; ld.param.u64 %rd2, [stored]; ld.param.u64 %rd3, [loaded];
    mov.u64 %rd4, depot; add.u64 %rd5, %rd4, %rd2; add.u64 %rd6, %rd4, %rd3;
    st.local.u32 [%rd5], 7; ld.local.u32 %r, [%rd6]; st.global.u32 [%rd1], %r;
    ret;
}}"
    )
}

/// The first launch of a context does not wait either, unless the kernel's own image has a large frame.
#[test]
fn the_first_launch_does_not_wait_for_a_stream_that_waits() {
    let _turn = new_context();
    for (image, waited) in [
        (None, false),
        (Some(recursive(8192)), false),
        (Some(framed(2048)), false),
        (Some(framed(32_768)), false),
    ] {
        context(0);
        let function = kernel("store");
        if let Some(image) = image {
            let mut image = [image.as_bytes(), &[0]].concat();
            get("cuModuleLoadData", &[place(&mut *image)]);
        }
        expect_eq!(next_waits(waited, function), waited);
    }
}
