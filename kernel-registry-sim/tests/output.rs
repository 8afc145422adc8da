//! Tests that the output of a test has the texts that its kernels printed, and the reasons why its kernels failed.

mod device;

use std::collections::BTreeMap;
use std::ffi::CString;
use std::process::Command;
use std::sync::{Barrier, LazyLock};

use device::{call, context, get, launch, memory, ok, place, stream};
use kernel_registry_sim::{Config, Deadlock};

const KERNELS: &str = "\
.version 8.0
.target sm_80
.address_size 64
.extern .func (.param .b32 result) vprintf(.param .b64 format, .param .b64 values);
.global .align 1 .b8 words[13] = {115, 101, 118, 101, 110, 32, 105, 115, 32, 37, 100, 10, 0};
.visible .entry traps() { trap; }
.visible .entry stores(.param .u64 to) {
    .reg .b64 %rd;
    ld.param.u64 %rd, [to];
    st.global.u32 [%rd], 1;
    ret;
}
.visible .entry prints(.param .u64 value) {
    .local .align 8 .b8 place[8];
    .reg .b64 %rd<4>;
    ld.param.u64 %rd1, [value];
    mov.u64 %rd2, place; cvta.local.u64 %rd2, %rd2; st.u64 [%rd2], %rd1;
    mov.u64 %rd3, words;
    {
        .param .b64 p0; .param .b64 p1; .param .b32 result;
        st.param.b64 [p0], %rd3; st.param.b64 [p1], %rd2;
        call.uni (result), vprintf, (p0, p1);
    }
    ret;
}
.visible .entry waits(.param .u64 flag) {
    .reg .pred %p; .reg .b32 %r; .reg .b64 %rd;
    ld.param.u64 %rd, [flag];
AGAIN:
    ld.volatile.global.u32 %r, [%rd];
    setp.eq.u32 %p, %r, 0;
    @%p bra AGAIN;
    ret;
}
.visible .entry _ZN2ns4fillIfLj4EEEvPT_(.param .u64 to) {
    .reg .b64 %rd;
    .loc 1 6 0
    ld.param.u64 %rd, [to];
    .loc 1 8 9
    .loc 1 4 5, function_name $L__info_string0, inlined_at 1 8 9
    st.global.u32 [%rd], 1;
    ret;
}
.file 1 \"/a folder/fill.cu\"
\0";

fn kernel(name: &str) -> usize {
    let module = get("cuModuleLoadData", &[place(&mut *KERNELS.as_bytes().to_vec())]);
    get("cuModuleGetFunction", &[module, place(&mut *CString::new(name).unwrap().into_bytes_with_nul())])
}

/// Runs the ignored tests whose names begin with `prefix`, in threads of one process. All of these tests fail. Returns
/// the output that the harness shows for each test.
fn sections(prefix: &str, threads: &str) -> BTreeMap<String, String> {
    let mut command = Command::new("timeout");
    command.arg("60").arg(std::env::current_exe().unwrap()).env("RUST_BACKTRACE", "0");
    let output = command.args([prefix, "--ignored", "--test-threads", threads]).output().unwrap();
    let [text, errors] = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    assert!(!text.contains("test result: ok") && errors.is_empty(), "{text}{errors}");
    let (text, _) = text.split_once("\n\nfailures:\n    ").expect("each of them ends");
    let sections = text.split("\n---- ").skip(1).map(|section| section.split_once(" stdout ----\n").unwrap());
    sections.map(|(name, text)| (name.to_owned(), text.to_owned())).collect()
}

/// The texts in the output of each test `alone_..`, which has its own context.
const EXPECTED: [(&str, &[&str]); 9] = [
    ("alone_a_trap", &["kernel `traps`", "ran into a trap"]),
    ("alone_an_address", &["kernel `stores`", "writes 4 bytes at 0x40,"]),
    ("alone_another_address", &["kernel `stores`", "writes 4 bytes at 0x80,"]),
    ("alone_a_template", &["kernel `ns::fill<float, 4u>`, block", "(/a folder/fill.cu:4, line"]),
    (
        "alone_a_peer",
        &["kernel `stores`", ", which is memory of device 1, and device 0 has no access to it; copy"],
    ),
    ("alone_a_text", &["seven is 7\nseven is 8\n"]),
    ("alone_in_a_thread", &["seven is 9\n"]),
    ("alone_not_supported", &["cuArrayCreate_v2 is not simulated"]),
    ("alone_not_supported_either", &["cuArrayCreate_v2 is not simulated"]),
];

#[test]
fn each_text_is_in_the_output_of_its_test() {
    for threads in ["1", "8"] {
        let found = sections("alone_", threads);
        assert_eq!(found.len(), EXPECTED.len(), "{found:?}");
        for (name, texts) in EXPECTED {
            // The launching thread has ended, so the text is written by the test that calls the driver next.
            if name == "alone_in_a_thread" && threads != "1" {
                let times =
                    |text: &str| found.values().map(|section| section.matches(text).count()).sum::<usize>();
                texts.iter().for_each(|text| assert_eq!(times(text), 1, "{found:?}"));
                continue;
            }
            for (other, section) in &found {
                let alike =
                    |text: &&str| EXPECTED.iter().any(|(it, texts)| it == other && texts.contains(text));
                for text in texts {
                    let times = section.matches(text).count();
                    assert_eq!(
                        times,
                        usize::from(name == other || alike(text)),
                        "{name}, {other}: {section}"
                    );
                }
            }
        }
    }
}

#[test]
fn a_failure_is_told_to_each_test_that_it_breaks() {
    let found = sections("together_", "2");
    let words = "simulated CUDA driver: kernel `traps`, block (0, 0, 0), thread (0, 0, 0): ran into a trap";
    let [launched, other] = ["together_launches", "together_does_not"].map(|name| &found[name]);
    assert_eq!(launched.matches(words).count(), 1, "{launched}");
    assert!(!launched.contains("launched by"), "{launched}");
    assert_eq!(other.matches(words).count(), 1, "{other}");
    assert_eq!(other.matches("; launched by thread `together_launches`\n").count(), 1, "{other}");
}

#[test]
fn a_deadlock_is_explained_to_the_test_that_waits() {
    let found = sections("stuck_", "2");
    let [call, launch] = ["stuck_call", "stuck_launch"].map(|name| &found[name]);
    assert_eq!(call.matches("DEADLOCK: cuMemFree, in thread `stuck_call`, waits: ").count(), 1, "{call}");
    assert_eq!(launch.matches("DEADLOCK: kernel `traps` on stream").count(), 1, "{launch}");
    assert!(!call.contains("stuck_launch") && !launch.contains("stuck_call"), "{call}{launch}");
}

fn fails(kernel_name: &str, arguments: &[u64]) {
    context(0);
    let stream = stream();
    launch(kernel(kernel_name), stream, arguments);
    ok("cuStreamSynchronize", &[stream]);
}

#[test]
#[ignore = "run by another test, in a child process: it fails"]
fn alone_a_trap() {
    fails("traps", &[]);
}

#[test]
#[ignore = "run by another test, in a child process: it fails"]
fn alone_an_address() {
    fails("stores", &[0x40]);
}

#[test]
#[ignore = "run by another test, in a child process: it fails"]
fn alone_another_address() {
    fails("stores", &[0x80]);
}

#[test]
#[ignore = "run by another test, in a child process: it fails"]
fn alone_a_template() {
    fails("_ZN2ns4fillIfLj4EEEvPT_", &[0xc0]);
}

#[test]
#[ignore = "run by another test, in a child process: it fails"]
fn alone_a_peer() {
    context(1);
    fails("stores", &[memory(4) as u64]);
}

#[test]
#[ignore = "run by another test, in a child process: it fails"]
fn alone_a_text() {
    context(0);
    let (kernel, stream) = (kernel("prints"), stream());
    launch(kernel, stream, &[7]);
    launch(kernel, stream, &[8]);
    ok("cuStreamSynchronize", &[stream]);
    panic!("the harness shows the output of tests that fail");
}

/// When the kernel runs, the thread that launched it has ended.
#[test]
#[ignore = "run by another test, in a child process: it fails"]
fn alone_in_a_thread() {
    let context = context(0);
    let (kernel, stream, flag) = (kernel("prints"), stream(), memory(4));
    let launches = move || {
        ok("cuCtxSetCurrent", &[context]);
        ok("cuStreamWaitValue32_v2", &[stream, flag, 1, 1]);
        launch(kernel, stream, &[9]);
    };
    std::thread::spawn(launches).join().unwrap();
    ok("cuStreamWriteValue32_v2", &[device::stream(), flag, 1, 0]);
    ok("cuStreamSynchronize", &[stream]);
    panic!("the harness shows the output of tests that fail");
}

#[test]
#[ignore = "run by another test, in a child process: it fails"]
fn alone_not_supported() {
    context(0);
    ok("cuArrayCreate_v2", &[]);
}

#[test]
#[ignore = "run by another test, in a child process: it fails"]
fn alone_not_supported_either() {
    context(0);
    ok("cuArrayCreate_v2", &[]);
}

/// Makes the device's primary context current, which tests with cudarc share. Waits until both tests have done so.
fn shared_context() {
    static BOTH: LazyLock<Barrier> = LazyLock::new(|| Barrier::new(2));
    Config::default().install().unwrap();
    ok("cuInit", &[0]);
    ok("cuCtxSetCurrent", &[get("cuDevicePrimaryCtxRetain", &[0])]);
    BOTH.wait();
}

#[test]
#[ignore = "run by another test, in a child process: it fails"]
fn together_launches() {
    shared_context();
    let (kernel, stream) = (kernel("traps"), stream());
    launch(kernel, stream, &[]);
    ok("cuStreamSynchronize", &[stream]);
}

#[test]
#[ignore = "run by another test, in a child process: it fails"]
fn together_does_not() {
    shared_context();
    while call("cuCtxSynchronize", &[]) == 0 {}
    ok("cuCtxSynchronize", &[]);
}

/// Launches a kernel that waits for a word, in a new context. Returns a module that was loaded before the launch.
fn resident(device: usize) -> usize {
    Config::default().devices(2).contained(true).deadlock(Deadlock::Fail).install().unwrap();
    context(device);
    let module = get("cuModuleLoadData", &[place(&mut *KERNELS.as_bytes().to_vec())]);
    launch(kernel("waits"), stream(), &[memory(4) as u64]);
    module
}

#[test]
#[ignore = "run by another test, in a child process: it fails"]
fn stuck_call() {
    resident(0);
    ok("cuMemFree_v2", &[memory(4)]);
}

#[test]
#[ignore = "run by another test, in a child process: it fails"]
fn stuck_launch() {
    let module = resident(1);
    let (late, stream) = (get("cuModuleGetFunction", &[module, place(&mut *b"traps\0".to_vec())]), stream());
    launch(late, stream, &[]);
    ok("cuStreamSynchronize", &[stream]);
}
