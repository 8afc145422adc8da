//! Tests that every order of a program is tried, and that an order in which it fails is found, shown, and can be repeated.

mod device;

use std::ffi::CString;
use std::panic::{self, AssertUnwindSafe};
use std::thread;
use std::time::Duration;

use device::{context, get, launch, memory, ok, place, stream, words};
use kernel_registry_sim::{Explore, Explored, explore};

/// Kernels whose results depend on an order.
const KERNELS: &str = "\
.version 8.0
.target sm_80
.address_size 64
.visible .entry increment(.param .u64 counter) {
    .reg .b32 %r<3>; .reg .b64 %rd;
    ld.param.u64 %rd, [counter];
    ld.relaxed.gpu.global.u32 %r1, [%rd];
    add.u32 %r2, %r1, 1;
    st.relaxed.gpu.global.u32 [%rd], %r2;
    ret;
}
.visible .entry add(.param .u64 counter) {
    .reg .b32 %r; .reg .b64 %rd;
    ld.param.u64 %rd, [counter];
    atom.relaxed.gpu.global.add.u32 %r, [%rd], 1;
    ret;
}
.visible .entry meet(.param .u64 counter, .param .u32 blocks) {
    .reg .pred %p; .reg .b32 %r<3>; .reg .b64 %rd;
    ld.param.u64 %rd, [counter]; ld.param.u32 %r2, [blocks];
    red.relaxed.gpu.global.add.u32 [%rd], 1;
AGAIN:
    ld.relaxed.gpu.global.u32 %r1, [%rd];
    setp.lt.u32 %p, %r1, %r2;
    @%p bra AGAIN;
    ret;
}
.visible .entry plain(.param .u64 counter) {
    .reg .b32 %r; .reg .b64 %rd;
    ld.param.u64 %rd, [counter];
    mov.u32 %r, %ctaid.x;
    st.global.u32 [%rd], %r;
    ret;
}
.visible .entry late(.param .u64 flag, .param .u64 constant) {
    .reg .pred %p; .reg .b32 %r<4>; .reg .b64 %rd<3>;
    ld.param.u64 %rd1, [flag]; ld.param.u64 %rd2, [constant]; mov.u32 %r1, 0;
AGAIN:
    ld.global.u32 %r2, [%rd2];
    add.u32 %r1, %r1, 1;
    setp.lt.u32 %p, %r1, 100;
    @%p bra AGAIN;
    st.relaxed.gpu.global.u32 [%rd1], 1;
    ret;
}
.visible .entry look(.param .u64 flag, .param .u64 out) {
    .reg .b32 %r; .reg .b64 %rd<3>;
    ld.param.u64 %rd1, [flag]; ld.param.u64 %rd2, [out];
    ld.relaxed.gpu.global.u32 %r, [%rd1];
    st.global.u32 [%rd2], %r;
    ret;
}
.visible .entry show(.param .u64 flag) {
    .reg .b64 %rd;
    ld.param.u64 %rd, [flag];
    st.release.sys.global.u32 [%rd], 1;
    ret;
}
.visible .entry some_arrive() {
    .reg .pred %p; .reg .b32 %r;
    mov.u32 %r, %tid.x;
    setp.lt.u32 %p, %r, 32;
    @%p bra WAITS;
    bar.arrive 1, 64;
    ret;
WAITS:
    bar.sync 1, 64;
    ret;
}
\0";

fn load(name: &str) -> usize {
    let (mut image, mut name) =
        (KERNELS.as_bytes().to_vec(), CString::new(name).unwrap().into_bytes_with_nul());
    get("cuModuleGetFunction", &[get("cuModuleLoadData", &[place(&mut *image)]), place(&mut *name)])
}

/// Launches a kernel in these many blocks of one thread.
fn launch_blocks(function: usize, stream: usize, blocks: usize, arguments: &[u64]) {
    let mut arguments = arguments.to_vec();
    let mut addresses: Vec<usize> = arguments.iter_mut().map(place).collect();
    ok("cuLaunchKernel", &[function, blocks, 1, 1, 1, 1, 1, 0, stream, place(&mut *addresses), 0]);
}

/// Launches a kernel in blocks, and returns what is in its word afterwards.
fn word_after(name: &str, blocks: usize, more: &[u64]) -> u32 {
    context(0);
    let (function, word) = (load(name), memory(4));
    launch_blocks(function, stream(), blocks, &[&[word as u64], more].concat());
    ok("cuCtxSynchronize", &[]);
    words(word, 1)[0]
}

/// Returns why a test fails in some order.
fn failure(settings: Explore, test: impl FnOnce()) -> String {
    let explored = panic::catch_unwind(AssertUnwindSafe(|| explore(settings, test)));
    match explored {
        Ok(explored) => panic!("it holds in {explored}"),
        Err(payload) => payload.downcast_ref::<String>().unwrap().clone(),
    }
}

fn few() -> Explore {
    Explore::default().schedules(400).little_room(false)
}

#[test]
fn a_lost_update_is_found() {
    let report = failure(few(), || assert_eq!(word_after("increment", 2, &[]), 2));
    assert!(report.contains("left: 1\n right: 2"), "{report}");
    assert!(
        report.contains(
            "kernel `increment`, block 1, warp 0 goes before step 2 of kernel `increment`, block 0, warp 0"
        ),
        "{report}"
    );
}

#[test]
fn an_atomic_update_is_never_lost() {
    let explored: Explored = explore(few(), || assert_eq!(word_after("add", 2, &[]), 2));
    assert!(explored.is_complete && explored.schedules > 1, "{explored}");
}

#[test]
fn blocks_that_wait_for_each_other_need_room() {
    let explored = explore(few(), || assert_eq!(word_after("meet", 2, &[2]), 2));
    assert!(explored.schedules > 10, "{explored}");
    let report = failure(few().little_room(true), || assert_eq!(word_after("meet", 2, &[2]), 2));
    assert!(report.contains(", with room for one block, goes before step "), "{report}");
    assert!(report.contains("1 of its blocks waits for room until another block ends"), "{report}");
}

#[test]
fn a_race_is_a_failure() {
    let report = failure(few(), || {
        word_after("plain", 2, &[]);
    });
    assert!(report.contains("RACE: "), "{report}");
}

/// One thread launches a kernel that waits, the other one a kernel that ends the wait and isn't loaded yet.
fn load_during_a_wait() {
    context(0);
    let (awaits, flag) = (load("meet"), memory(4));
    let (first, second) = (stream(), stream());
    let context = get("cuCtxGetCurrent", &[]);
    let other = thread::spawn(move || {
        ok("cuCtxSetCurrent", &[context]);
        launch(load("add"), second, &[flag as u64]);
    });
    launch(awaits, first, &[flag as u64, 2]);
    other.join().unwrap();
    ok("cuCtxSynchronize", &[]);
}

#[test]
fn a_deadlock_names_everyone_who_waits() {
    let report = failure(few(), load_during_a_wait);
    for part in [
        "DEADLOCK: no party can continue: thread 1 waits in cuModuleLoadData",
        "a kernel is loaded only when nothing runs on the device",
        "kernel `meet` on stream 0x",
        "waits at `ld.relaxed.gpu.global.u32 %r1, [%rd];` for a change of the word at 0x",
        ", which is 1",
        "thread `a_deadlock_names_everyone_who_waits` waits outside of the driver",
        "It fails in the usual order",
    ] {
        assert!(report.contains(part), "{part} is lacking: {report}");
    }
}

#[test]
fn a_computing_loop_is_no_poll() {
    let report = failure(few(), || {
        context(0);
        let (late, look, flag, other) = (load("late"), load("look"), memory(4), memory(8));
        launch(late, stream(), &[flag as u64, other as u64]);
        launch(look, stream(), &[flag as u64, other as u64 + 4]);
        ok("cuCtxSynchronize", &[]);
        assert_eq!(words(other + 4, 1), [0], "`late` was early");
    });
    assert!(report.contains("`late` was early"), "{report}");
}

#[test]
fn a_kernel_goes_on_after_what_it_has_shown() {
    let report = failure(few(), || {
        context(0);
        let (show, flag) = (load("show"), get("cuMemHostAlloc", &[4, 2]));
        ok("cuMemsetD8_v2", &[flag, 0, 4]);
        let [shows, waits] = [stream(), stream()];
        ok("cuStreamWaitValue32_v2", &[waits, flag, 1, 1]);
        launch(show, shows, &[flag as u64]);
        ok("cuStreamSynchronize", &[waits]);
        ok("cuStreamQuery", &[shows]);
    });
    assert!(report.contains("cuStreamQuery: 600, and 0 is expected"), "{report}");
}

#[test]
fn who_arrives_first_at_a_barrier_of_some_is_a_choice() {
    let report = failure(few(), || {
        context(0);
        let (function, stream) = (load("some_arrive"), stream());
        ok("cuLaunchKernel", &[function, 1, 1, 1, 96, 1, 1, 0, stream, 0, 0]);
        ok("cuCtxSynchronize", &[]);
    });
    assert!(report.contains("for other threads of the block at barrier 1"), "{report}");
}

#[test]
fn a_host_that_sleeps_is_not_stuck() {
    let explored = explore(few().schedules(4), || {
        context(0);
        let (awaits, raises, flag) = (load("meet"), load("add"), memory(4));
        let [first, second] = [stream(), stream()];
        launch(awaits, first, &[flag as u64, 2]);
        thread::sleep(Duration::from_millis(1500));
        launch(raises, second, &[flag as u64]);
        ok("cuCtxSynchronize", &[]);
    });
    assert!(!explored.is_complete, "who sleeps isn't always waited for: {explored}");
}
