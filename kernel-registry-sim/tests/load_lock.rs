//! Tests calls of a thread while another thread loads a kernel and waits for the device. `KERNEL_REGISTRY_SIM=0` tests
//! NVIDIA's driver.

mod device;
mod resident;

use std::thread;
use std::time::{Duration, Instant};

use device::*;
use resident::Resident;

/// The time that the other thread gets to begin its wait.
const HEAD_START: Duration = Duration::from_millis(50);

/// Returns the longest time that the call takes while another thread launches a kernel that is not loaded. A resident
/// kernel makes that launch wait. `expected` says whether the call should wait too.
fn longest_call(expected: bool, mut call: impl FnMut()) -> Duration {
    let name = &mut *b"store\0".to_vec();
    let library = get("cuLibraryLoadData", &[place(&mut *image()), 0, 0, 0, 0, 0, 0]);
    let kernel = get("cuLibraryGetKernel", &[library, place(name)]);
    let (context, theirs, to) = (get("cuCtxGetCurrent", &[]), stream(), memory(4) as u64);
    let longest = if expected { 400 } else { 5000 };
    let resident = Resident::start(Duration::from_millis(longest));
    let other = thread::spawn(move || {
        ok("cuCtxSetCurrent", &[context]);
        launch(kernel, theirs, &[to, 1]);
    });
    thread::sleep(HEAD_START);
    let mut longest = Duration::ZERO;
    // The call is repeated, because the first calls may come before the other thread waits.
    while longest == Duration::ZERO || expected && !resident.is_over() {
        let begun = Instant::now();
        call();
        longest = longest.max(begun.elapsed());
    }
    resident.release();
    other.join().unwrap();
    ok("cuLibraryUnload", &[library]);
    longest
}

#[test]
fn a_load_has_the_lock_of_its_context() {
    context(0);
    let (ours, event, bytes) = (stream(), event(), 4096);
    let (memory, mut words) = (memory(bytes), vec![0_u8; bytes]);
    let (function, host) = (kernel("store"), place(&mut *words));
    ok("cuFuncLoad", &[function]);
    ok("cuEventRecord", &[event, ours]);
    ok("cuStreamSynchronize", &[ours]);
    type Call<'c> = &'c dyn Fn();
    let calls: [(_, bool, Call<'_>); 14] = [
        ("cuMemcpyHtoDAsync", true, &|| ok("cuMemcpyHtoDAsync_v2", &[memory, host, bytes, ours])),
        ("cuMemcpyDtoH", true, &|| ok("cuMemcpyDtoH_v2", &[host, memory, bytes])),
        ("cuMemsetD32Async", true, &|| ok("cuMemsetD32Async", &[memory, 0, bytes / 4, ours])),
        ("cuLaunchKernel", true, &|| launch(function, ours, &[memory as u64, 1])),
        ("cuEventRecord", true, &|| ok("cuEventRecord", &[event, ours])),
        ("cuMemAlloc", true, &|| _ = get("cuMemAlloc_v2", &[4])),
        ("cuCtxGetLimit", true, &|| _ = get("cuCtxGetLimit", &[0])),
        ("cuMemAllocAsync", false, &|| _ = get("cuMemAllocAsync", &[4, ours])),
        ("cuEventQuery", false, &|| _ = call("cuEventQuery", &[event])),
        ("cuStreamQuery", false, &|| _ = call("cuStreamQuery", &[ours])),
        ("cuStreamWaitEvent", false, &|| ok("cuStreamWaitEvent", &[ours, event, 0])),
        ("cuStreamWriteValue32", false, &|| ok("cuStreamWriteValue32_v2", &[ours, memory, 1, 0])),
        ("cuFuncGetAttribute", false, &|| _ = get("cuFuncGetAttribute", &[0, function])),
        ("cuMemGetInfo", false, &|| ok("cuMemGetInfo_v2", &[place(&mut 0_usize), place(&mut 0_usize)])),
    ];
    for (name, waits, call) in calls {
        let longest = longest_call(waits, call);
        expect_eq!(
            longest > Duration::from_millis(if waits { 100 } else { 4000 }),
            waits,
            "{name}: {longest:?}"
        );
    }

    // Another context has its own lock.
    let first = get("cuCtxGetCurrent", &[]);
    let elsewhere = get("cuCtxCreate_v2", &[0, device(0)]);
    let limit = || {
        ok("cuCtxSetCurrent", &[elsewhere]);
        get("cuCtxGetLimit", &[0]);
    };
    ok("cuCtxSetCurrent", &[first]);
    let longest = longest_call(false, limit);
    expect_eq!(longest < Duration::from_millis(4000), true, "another context: {longest:?}");
}
