//! Tests single driver functions: pointer attributes, pools, cooperative launches, occupancy, stream memory operations,
//! contexts.

mod device;

use device::*;

#[test]
fn attributes_of_addresses_are_known() {
    let context = context(0);
    let (memory, pinned) = (memory(100), get("cuMemHostAlloc", &[8, 0]));
    let managed = get("cuMemAllocManaged", &[8, 1]);
    let attribute = |which, address| get("cuPointerGetAttribute", &[which, address]);
    let (of_context, kind, device_address, host_address, is_managed) = (1, 2, 3, 4, 8);
    let (start, size) = (11, 12);
    expect_eq!(attribute(of_context, memory), context);
    expect_eq!([memory, pinned, managed].map(|address| attribute(kind, address)), [2, 1, 2]);
    expect_eq!([memory, pinned, managed].map(|address| attribute(is_managed, address)), [0, 0, 1]);
    expect_eq!(attribute(device_address, memory + 4), memory + 4);
    expect_eq!(attribute(host_address, pinned), pinned);
    expect_eq!((attribute(start, memory + 50), attribute(size, memory + 50)), (memory, 100));
    let mut value = 0_usize;
    let mut here = 0_u64;
    let value = place(&mut value);
    expect_eq!(call("cuPointerGetAttribute", &[value, host_address, memory]), INVALID_VALUE);
    expect_eq!(call("cuPointerGetAttribute", &[value, kind, place(&mut here)]), INVALID_VALUE);

    const TOO_MUCH: usize = 1 << 45;
    expect_eq!(call("cuMemAllocHost_v2", &[value, TOO_MUCH]), OUT_OF_MEMORY);
    ok("cuMemAdvise", &[managed, 8, 3, 0]);
    ok("cuMemPrefetchAsync", &[managed, 8, 0, 0]);
    expect_eq!(call("cuMemAdvise", &[memory, 8, 3, 0]), INVALID_VALUE, "it is not managed");
    expect_eq!(call("cuMemAdvise", &[managed, 8, 3, 7]), INVALID_DEVICE);
    expect_eq!(call("cuMemAdvise", &[managed, 8, 77, 0]), INVALID_VALUE);
}

#[test]
fn an_allocation_of_no_bytes_in_stream_order_is_null() {
    context(0);
    let stream = stream();
    let mut nothing = usize::MAX;
    expect_eq!(call("cuMemAllocAsync", &[place(&mut nothing), 0, stream]), 0);
    expect_eq!(nothing, 0);
    expect_eq!(call("cuMemsetD8Async", &[nothing, 0, 0, stream]), 0);
    expect_eq!(call("cuMemFreeAsync", &[nothing, stream]), 0);
    ok("cuStreamSynchronize", &[stream]);
}

#[test]
fn pools_count_used_bytes() {
    let device = device(1);
    context(device);
    let stream = stream();
    const PINNED: u64 = 1;
    let on_device = (device as u64) << 32 | 1;
    let mut properties = [PINNED, on_device, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let pool = get("cuMemPoolCreate", &[place(&mut properties)]);
    let attribute = |which| {
        let mut value = 0_u64;
        ok("cuMemPoolGetAttribute", &[pool, which, place(&mut value)]);
        value
    };
    let (threshold, used, most) = (4, 7, 8);
    let memory = get("cuMemAllocFromPoolAsync", &[1 << 19, pool, stream]);
    expect_eq!([attribute(used), attribute(most), attribute(threshold)], [1 << 19, 1 << 19, 0]);
    let more = get("cuMemAllocFromPoolAsync", &[1 << 20, pool, stream]);
    ok("cuMemFreeAsync", &[more, stream]);
    ok("cuMemPoolSetAttribute", &[pool, threshold, place(&mut (1_u64 << 30))]);
    expect_eq!(call("cuMemPoolSetAttribute", &[pool, used, place(&mut 0_u64)]), INVALID_VALUE);
    expect_eq!(call("cuMemPoolSetAttribute", &[pool, 99, place(&mut 0_u64)]), INVALID_VALUE);
    expect_eq!(get("cuPointerGetAttribute", &[17, memory]), pool);
    ok("cuMemFreeAsync", &[memory, stream]);
    ok("cuStreamSynchronize", &[stream]);
    expect_eq!([attribute(used), attribute(most), attribute(threshold)], [0, 3 << 19, 1 << 30]);

    // Streams allocate from the new pool once it is chosen for the device.
    let usual = get("cuDeviceGetDefaultMemPool", &[device]);
    if device != 0 {
        expect_eq!(call("cuDeviceSetMemPool", &[0, pool]), INVALID_VALUE, "another device's");
    }
    ok("cuDeviceSetMemPool", &[device, pool]);
    expect_eq!(get("cuDeviceGetMemPool", &[device]), pool);
    let memory = get("cuMemAllocAsync", &[1000, stream]);
    expect_eq!(attribute(used), 1000);
    ok("cuMemPoolDestroy", &[pool]);
    if !on_a_gpu() {
        // This is not tried on a GPU, because NVIDIA's driver dereferences destroyed handles.
        expect_eq!(call("cuMemPoolDestroy", &[pool]), INVALID_VALUE);
    }
    expect_eq!(call("cuMemPoolDestroy", &[usual]), INVALID_VALUE);
    expect_eq!(get("cuDeviceGetMemPool", &[device]), usual);
    ok("cuMemFree_v2", &[memory]);
}

#[test]
fn a_stream_allocates_on_its_own_device() {
    if on_a_gpu() {
        // A machine with a GPU may have only one.
        return;
    }
    context(1);
    let (stream, pool) = (stream(), get("cuDeviceGetDefaultMemPool", &[2]));
    context(0);
    let device_of = |memory| get("cuPointerGetAttribute", &[9, memory]);
    expect_eq!(device_of(get("cuMemAllocAsync", &[4, stream])), 1);
    expect_eq!(device_of(get("cuMemAllocFromPoolAsync", &[4, pool, stream])), 2);
}

#[test]
fn a_device_has_no_access_to_the_memory_of_another() {
    if on_a_gpu() {
        // A machine with a GPU may have only one, and its context cannot be used after an illegal address.
        return;
    }
    let far = context(1);
    let (memory, of_pool) = (memory(4), get("cuMemAllocAsync", &[4, stream()]));
    for memory in [memory, of_pool] {
        let near = context(0);
        launch(kernel("store"), 0, &[memory as u64, 8]);
        expect_eq!(call("cuCtxSynchronize", &[]), ILLEGAL_ADDRESS);
        ok("cuCtxDestroy_v2", &[near]);
    }
    context(0);
    expect_eq!(get("cuDeviceCanAccessPeer", &[0, 1]), 0);
    expect_eq!(call("cuCtxEnablePeerAccess", &[far, 0]), NOT_SUPPORTED);
    ok("cuCtxSetCurrent", &[far]);
    ok("cuMemsetD32_v2", &[memory, 8, 1]);
    context(0);
    let to = device::memory(4);
    ok("cuMemcpyPeer", &[to, 0, memory, far, 4]);
    expect_eq!(words(to, 1), [8]);
}

/// The blocks of a cooperative grid wait for each other by a word in the memory of their device.
#[test]
fn a_cooperative_launch_has_its_barrier_word_on_every_device() {
    const COUNTS: &str = "\
.version 8.0
.target sm_80
.address_size 64
.visible .entry counts(.param .u64 to) {
    .reg .b32 %r<4>; .reg .b64 %rd<3>;
    mov.u32 %r1, %envreg1; mov.u32 %r2, %envreg2;
    mov.b64 %rd1, {%r2, %r1};
    atom.global.add.u32 %r3, [%rd1], 1;
    ld.param.u64 %rd2, [to];
    atom.global.add.u32 %r3, [%rd2], 1;
    ret;
}
\0";
    if on_a_gpu() {
        // A machine with a GPU may have only one, and the word's value on a GPU is not documented.
        return;
    }
    for ordinal in [0, 1] {
        context(ordinal);
        let module = get("cuModuleLoadData", &[place(&mut *COUNTS.as_bytes().to_vec())]);
        let function = get("cuModuleGetFunction", &[module, place(&mut *b"counts\0".to_vec())]);
        let mut to = memory(4);
        let mut arguments = [place(&mut to)];
        ok("cuLaunchCooperativeKernel", &[function, 4, 1, 1, 1, 1, 1, 0, 0, place(&mut arguments)]);
        ok("cuCtxSynchronize", &[]);
        expect_eq!(words(to, 1), [4]);
    }
}

#[test]
fn occupancy_is_computed() {
    context(0);
    let function = kernel("store");
    extern "C" fn all_shared(block: i32) -> usize {
        block as usize * 384
    }
    let mut block = 0_i32;
    let grid = get("cuOccupancyMaxPotentialBlockSize", &[place(&mut block), function, 0, 0, 0]);
    expect_eq!((grid, block), (2 * 132, 1024));
    let shared_of = all_shared as *const () as usize;
    get("cuOccupancyMaxPotentialBlockSize", &[place(&mut block), function, shared_of, 0, 128]);
    // By shared memory, 17 blocks of one warp fit, nine of two, six of three, or four of four. The highest occupancy is
    // 18 warps, and the largest block that reaches it has three warps.
    expect_eq!(block, 96);
    const NOT_GRANTED: usize = 49 << 10;
    expect_eq!(get("cuOccupancyMaxActiveBlocksPerMultiprocessor", &[function, 32, NOT_GRANTED]), 0);
    let bytes = get("cuOccupancyAvailableDynamicSMemPerBlock", &[function, 2, 1024]);
    assert!(bytes > 0 && get("cuOccupancyMaxActiveBlocksPerMultiprocessor", &[function, 1024, bytes]) == 2);
    let available = call("cuOccupancyAvailableDynamicSMemPerBlock", &[place(&mut block), function, 3, 1024]);
    expect_eq!(available, INVALID_VALUE, "no three of that size");

    const CLUSTER: u64 = 4;
    let mut attribute = [CLUSTER, 4 | 1 << 32, 1, 0, 0, 0, 0, 0, 0];
    let mut config = [4 | 1 << 32, 1 | 1024 << 32, 1 | 1 << 32, 0, 0, place(&mut attribute), 1];
    let clusters = get("cuOccupancyMaxActiveClusters", &[function, place(&mut config)]);
    // A GPU has its multiprocessors in several groups, and a cluster runs in one group. The simulated device has only
    // one group.
    expect_eq!(clusters, if on_a_gpu() { 62 } else { 132 * 2 / 4 });
    expect_eq!(get("cuOccupancyMaxPotentialClusterSize", &[function, place(&mut config)]), 8);
}

#[test]
fn a_stream_waits_for_a_word() {
    context(0);
    let (one, two, word) = (stream(), stream(), memory(8));
    ok("cuStreamWaitValue32_v2", &[one, word, 5, 1]);
    ok("cuStreamWriteValue32_v2", &[one, word + 4, 6, 0]);
    expect_eq!(call("cuStreamQuery", &[one]), 600);
    ok("cuStreamWriteValue32_v2", &[two, word, 5, 0]);
    ok("cuStreamSynchronize", &[one]);
    expect_eq!(words(word, 2), [5, 6]);
    expect_eq!(call("cuStreamWaitValue32_v2", &[one, word, 5, 9]), INVALID_VALUE, "no such comparison");
    expect_eq!(call("cuStreamWriteValue32_v2", &[one, word + 2, 5, 0]), INVALID_VALUE, "not aligned");
}

#[test]
fn flags_of_a_primary_context_can_be_set_before_it_exists_and_end_with_it() {
    const BLOCKING_SYNC: usize = 4;
    const MAPS_HOST: usize = 8;
    install();
    let device = device(2);
    let state = || {
        let (mut flags, mut active) = (0_u32, 0_u32);
        ok("cuDevicePrimaryCtxGetState", &[device, place(&mut flags), place(&mut active)]);
        (flags as usize, active)
    };
    ok("cuDevicePrimaryCtxSetFlags_v2", &[device, BLOCKING_SYNC]);
    expect_eq!(state(), (BLOCKING_SYNC, 0));
    let context = get("cuDevicePrimaryCtxRetain", &[device]);
    ok("cuCtxSetCurrent", &[context]);
    expect_eq!(state(), (BLOCKING_SYNC, 1));
    expect_eq!(get("cuCtxGetFlags", &[]), BLOCKING_SYNC | MAPS_HOST);
    ok("cuDevicePrimaryCtxRelease_v2", &[device]);
    expect_eq!(state(), (0, 0));
    ok("cuDevicePrimaryCtxSetFlags_v2", &[device, BLOCKING_SYNC]);
    ok("cuDevicePrimaryCtxReset_v2", &[device]);
    expect_eq!(state(), (0, 0));
}

#[test]
fn attributes_set_on_a_library_kernel_are_kept() {
    context(0);
    const SHARED: usize = 8;
    let library = get("cuLibraryLoadData", &[place(&mut *image())]);
    let kernel = get("cuLibraryGetKernel", &[library, place(&mut *b"store\0".to_vec())]);
    let of_kernel = || get("cuKernelGetAttribute", &[SHARED, kernel, 0]);
    expect_eq!(of_kernel(), 49_152);
    ok("cuKernelSetAttribute", &[SHARED, 100_000, kernel, 0]);
    expect_eq!(of_kernel(), 100_000);
    let function = get("cuKernelGetFunction", &[kernel]);
    expect_eq!(get("cuFuncGetAttribute", &[SHARED, function]), 100_000);
    ok("cuFuncSetAttribute", &[function, SHARED, 60_000]);
    expect_eq!(of_kernel(), 100_000);
    expect_eq!(get("cuFuncGetAttribute", &[SHARED, function]), 60_000);
}
