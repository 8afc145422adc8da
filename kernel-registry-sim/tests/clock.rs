//! Tests the clocks of kernels, and kernels that wait for nothing but a clock.

mod device;

use std::ffi::CString;
use std::process::{self, Command};
use std::time::{Duration, Instant};

use device::{context, get, launch, memory, ok, place, stream};
use kernel_registry_sim::{Config, Deadlock, Device};

/// Kernels that wait for a clock. `both` waits for some nanoseconds, and writes how many cycles and nanoseconds have
/// passed. `gap` waits equally long, and writes the longest time between two reads of the clock. `cycles` waits for
/// some cycles.
const KERNELS: &str = "\
.version 8.0
.target sm_75
.address_size 64
.visible .entry both(.param .u64 to, .param .u64 time) {
    .reg .pred %p; .reg .b64 %rd<7>;
    ld.param.u64 %rd1, [to]; ld.param.u64 %rd2, [time];
    mov.u64 %rd3, %globaltimer; mov.u64 %rd4, %clock64;
AGAIN:
    mov.u64 %rd5, %globaltimer; mov.u64 %rd6, %clock64;
    sub.s64 %rd5, %rd5, %rd3; sub.s64 %rd6, %rd6, %rd4;
    setp.lt.u64 %p, %rd5, %rd2;
    @%p bra AGAIN;
    st.global.u64 [%rd1], %rd6; st.global.u64 [%rd1+8], %rd5;
    ret;
}
.visible .entry gap(.param .u64 to, .param .u64 time) {
    .reg .pred %p; .reg .b64 %rd<8>;
    ld.param.u64 %rd1, [to]; ld.param.u64 %rd2, [time];
    mov.u64 %rd3, %globaltimer; mov.u64 %rd4, %rd3; mov.u64 %rd5, 0;
AGAIN:
    mov.u64 %rd6, %globaltimer;
    sub.s64 %rd7, %rd6, %rd4; max.u64 %rd5, %rd5, %rd7; mov.u64 %rd4, %rd6;
    sub.s64 %rd7, %rd6, %rd3;
    setp.lt.u64 %p, %rd7, %rd2;
    @%p bra AGAIN;
    st.global.u64 [%rd1], %rd5;
    ret;
}
.visible .entry cycles(.param .u64 time) {
    .reg .pred %p; .reg .b64 %rd<4>;
    ld.param.u64 %rd1, [time];
    mov.u64 %rd2, %clock64;
AGAIN:
    mov.u64 %rd3, %clock64; sub.s64 %rd3, %rd3, %rd2;
    setp.lt.u64 %p, %rd3, %rd1;
    @%p bra AGAIN;
    ret;
}
\0";

fn kernel(name: &str) -> usize {
    let module = get("cuModuleLoadData", &[place(&mut *KERNELS.as_bytes().to_vec())]);
    get("cuModuleGetFunction", &[module, place(&mut *CString::new(name).unwrap().into_bytes_with_nul())])
}

/// Reads `CU_DEVICE_ATTRIBUTE_CLOCK_RATE`, which is in kHz.
fn rate(device: usize) -> u64 {
    get("cuDeviceGetAttribute", &[13, device]) as u64
}

fn install() {
    Config::with_devices([Device::h200(), Device::t4()]).deadlock(Deadlock::Fail).install().unwrap();
}

#[test]
fn cycles_pass_at_the_clock_rate_of_the_device() {
    install();
    for device in [0, 1] {
        context(device);
        let (kernel, stream, to) = (kernel("both"), stream(), memory(16));
        launch(kernel, stream, &[to as u64, 20_000_000]);
        ok("cuStreamSynchronize", &[stream]);
        let mut passed = [0_u64; 2];
        ok("cuMemcpyDtoH_v2", &[place(&mut passed), to, 16]);
        let [cycles, nanoseconds] = passed.map(|passed| passed as f64);
        let found = cycles / nanoseconds * 1e6;
        assert!((found / rate(device) as f64 - 1.0).abs() < 0.05, "{found} kHz of {}", rate(device));
    }
}

#[test]
fn a_kernel_that_waits_for_a_clock_alone_is_no_deadlock() {
    install();
    const SECONDS: f64 = 0.8;
    context(0);
    for (name, arguments) in [("both", &[memory(16) as u64, 800_000_000][..]), ("cycles", &[rate(0) * 800])] {
        let (kernel, stream, other) = (kernel(name), stream(), memory(4));
        let begun = Instant::now();
        launch(kernel, stream, arguments);
        // In a deadlock this call would fail.
        ok("cuMemFree_v2", &[other]);
        assert!(begun.elapsed() >= Duration::from_secs_f64(SECONDS), "{name}: {:?}", begun.elapsed());
        ok("cuStreamSynchronize", &[stream]);
    }
}

#[test]
fn time_stands_still_while_the_process_is_stopped() {
    install();
    context(0);
    let (kernel, stream, to) = (kernel("gap"), stream(), memory(8));
    let stop = format!("sleep 0.2; kill -STOP {0}; sleep 1; kill -CONT {0}", process::id());
    launch(kernel, stream, &[to as u64, 600_000_000]);
    let mut stopper = Command::new("sh").args(["-c", &stop]).spawn().unwrap();
    ok("cuStreamSynchronize", &[stream]);
    assert!(stopper.wait().unwrap().success());
    let mut gap = 0_u64;
    ok("cuMemcpyDtoH_v2", &[place(&mut gap), to, 8]);
    assert!(gap < 500_000_000, "{gap} ns passed between two looks");
}
